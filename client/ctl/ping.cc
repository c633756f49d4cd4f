#include <cstdio>
#include <vector>

#include "client/ctl/daemon_call.h"
#include "client/ctl/output.h"
#include "client/ctl/render_ping.h"
#include "client/ctl/stop_signal.h"
#include "client/ctl/verbs.h"

namespace mlxcomm::ctl {

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

}  // namespace mlxcomm::ctl
