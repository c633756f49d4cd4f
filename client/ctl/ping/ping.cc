#include <cstdio>
#include <memory>
#include <vector>

#include "client/ctl/cli/command_line.h"
#include "client/ctl/cli/output.h"
#include "client/ctl/cli/quantities.h"
#include "client/ctl/cli/stop_signal.h"
#include "client/ctl/daemon/daemon_call.h"
#include "client/ctl/ping/render_ping.h"

namespace mlxcomm::ctl {
namespace {

struct PingOptions {
  std::string socket_path;
  std::string node;
  std::uint32_t count = 5;
  std::uint64_t interval_ns = 200'000'000;
  std::uint64_t timeout_ns = 1'000'000'000;
  std::optional<std::uint64_t> payload_bytes;
  bool json = false;
};

int RunPing(const PingOptions& options) {
  StopSignal stop;
  v1::PingRequest request;
  request.set_node(options.node);
  request.set_payload_bytes(static_cast<std::uint32_t>(options.payload_bytes.value_or(56)));
  request.set_timeout_ms(static_cast<std::uint32_t>(options.timeout_ns / 1'000'000));
  std::vector<v1::PingReply> replies;
  for (std::uint32_t i = 0; i < options.count; ++i) {
    if (i > 0 && stop.WaitFor(options.interval_ns)) break;
    v1::PingReply reply;
    if (const Failure failure = FetchPing(options.socket_path, request, reply); !failure.ok()) {
      if (!options.json) std::fputs(RenderPings(replies).c_str(), stdout);
      std::fflush(stdout);
      return ReportFailure(failure);
    }
    replies.push_back(reply);
    if (options.json) continue;
    if (const int code = WriteOut(RenderPing(i + 1, reply), "pings"); code != 0) return code;
  }
  const std::string text = options.json ? PingsAsJson(replies) : RenderPings(replies);
  if (const int code = WriteOut(text, "pings"); code != 0) return code;
  for (const v1::PingReply& reply : replies) {
    if (reply.round_trip_ns() != 0) return 0;
  }
  return kExitFailed;
}

}  // namespace

Run AddPing(CLI::App& ping, const Invocation&) {
  const auto options = std::make_shared<PingOptions>();
  ping.add_option("node", options->node, "Name of the node")->required()->type_name("NODE");
  AddSocket(ping, options->socket_path);
  ping.add_option("-c,--count", options->count, "Number of pings (5)")
      ->type_name("COUNT")
      ->check(CLI::Range(1, 100000));
  AddDuration(ping, "-i,--interval", options->interval_ns, 1'000'000, 3600'000'000'000,
              "Interval between pings (200ms)");
  AddDuration(ping, "-W,--timeout", options->timeout_ns, 1'000'000, 10'000'000'000,
              "Timeout per ping (1s)");
  ping.add_option_function<std::string>(
          "-s,--size",
          [options](const std::string& text) {
            options->payload_bytes = ParseBytes(text);
            if (!options->payload_bytes || *options->payload_bytes > 65536) {
              throw CLI::ValidationError("--size",
                                         "expected a size up to 64K, got \"" + text + "\"");
            }
          },
          "Payload of a ping (56), at most 64K")
      ->type_name("SIZE");
  ping.add_flag("--json", options->json, "Print JSON: one object, at the end");
  ping.footer(
      R"(A ping takes the same rails and routes as all messages between the two daemons, and is
resent if a rail is lost: "lost" means that no answer came in time. A rail's round trip is
that of its last heartbeat. The exit code is 0 if any answer came.)");
  return [options] { return RunPing(*options); };
}

}  // namespace mlxcomm::ctl
