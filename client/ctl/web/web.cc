// The verb web: a live page for a browser, on this machine only unless it is asked for more.
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "client/ctl/cli/command_line.h"
#include "client/ctl/cli/json_text.h"
#include "client/ctl/cli/output.h"
#include "client/ctl/cli/stop_signal.h"
#include "client/ctl/launch/launch_hosts.h"
#include "client/ctl/web/feed.h"
#include "client/ctl/web/gate.h"
#include "client/ctl/web/page_server.h"
#include "mlxcomm/v1/ctl.pb.h"

namespace mlxcomm::ctl {
namespace {

constexpr std::uint64_t kSecondNs = 1'000'000'000;

struct WebOptions {
  FeedOptions feed;
  std::string bind = "127.0.0.1";
  int port = 0;
  std::uint64_t for_ns = 0;  // 0: until it is stopped.
  bool json = false;
};

// For a browser here: an address that means all of this machine's is none to go to.
std::string HostOfUrl(const std::string& bind) {
  if (bind == "0.0.0.0") return "127.0.0.1";
  if (bind == "::") return "[::1]";
  return bind.find(':') == std::string::npos ? bind : "[" + bind + "]";
}

int Announce(const WebOptions& options, const Gate& gate) {
  const std::string url =
      absl::StrFormat("http://%s:%d/?token=%s", HostOfUrl(options.bind), gate.port, gate.token);
  if (!gate.loopback) {
    std::fprintf(
        stderr,
        "mlxcommctl: %s is not of this machine alone: what is shown, and the token, cross the "
        "network as they are, and whoever has the token sees this cluster\n",
        options.bind.c_str());
  }
  if (options.json) {
    v1::WebReport report;
    report.set_url(url);
    report.set_bind(options.bind);
    report.set_port(static_cast<std::uint32_t>(gate.port));
    return WriteOut(JsonOf(std::move(report), JsonLayout::kCompact) + "\n", "address");
  }
  return WriteOut(absl::StrCat(url, "\n", gate.loopback ? "for browsers on this machine; " : "",
                               "Ctrl-C ends it\n"),
                  "address");
}

int RunWeb(const WebOptions& options) {
  StopSignal stop;
  // For ever, as the threads that use them: see the end.
  auto& feed = *new Feed(options.feed);
  auto& server = *new PageServer(feed);
  Gate gate;
  gate.port = server.Listen(options.bind, options.port);
  if (gate.port == 0) {
    return Fail(
        kExitFailed,
        absl::StrFormat(
            "cannot listen at %s, port %d: is the port taken, and the address this machine's?",
            options.bind, options.port));
  }
  gate.token = NewToken();
  gate.loopback = IsLoopback(options.bind);
  if (!gate.loopback) gate.host_name = OwnHostName();
  feed.Start();
  std::thread([&server, gate] { server.Serve(gate); }).detach();
  if (const int code = Announce(options, gate); code != 0) ::_exit(code);
  do {
  } while (!stop.WaitFor(options.for_ns != 0 ? options.for_ns : kSecondNs) && options.for_ns == 0);
  // Threads wait at the daemon and at browsers without end, and have nothing to bring to an end.
  std::fflush(nullptr);
  ::_exit(0);
}

}  // namespace

Run AddWeb(CLI::App& web, const Invocation&) {
  const auto made = std::make_shared<WebOptions>();
  WebOptions& options = *made;
  AddSocket(web, options.feed.socket_path);
  web.add_option("--port", options.port, "Where it listens (any that is free)")
      ->check(CLI::Range(0, 65535));
  web.add_option("--bind", options.bind,
                 "This machine's address for browsers elsewhere (127.0.0.1: only here)")
      ->check(NotEmpty("an address"));
  AddDuration(web, "--interval", options.feed.interval_ns, 50'000'000, 3600 * kSecondNs,
              "Between two looks where nothing happens (1s)");
  AddDuration(web, "--for", options.for_ns, kSecondNs / 1000, 30 * 86400 * kSecondNs,
              "Ends by itself after this time (until Ctrl-C)");
  web.add_flag("--json", options.json, "Print for programs where it is (WebReport of ctl.proto)");
  return [made] { return RunWeb(*made); };
}

}  // namespace mlxcomm::ctl
