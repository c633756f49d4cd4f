// The verb web: a live page for a browser, on this machine only unless it is asked for more.
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
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

int Announce(const WebOptions& options, const Gate& gate) {
  const bool is_loopback = IsLoopback(gate.bind);
  const std::string url =
      absl::StrFormat("http://%s:%d%s?token=%s", HostOfUrl(gate), gate.port, gate.path, gate.token);
  if (!is_loopback) {
    std::fprintf(
        stderr,
        "mlxcommctl: %s is not of this machine alone: what is shown, and the token, cross the "
        "network unencrypted, and everybody who has the URL sees this cluster\n",
        options.bind.c_str());
  }
  if (options.json) {
    v1::WebReport report;
    report.set_url(url);
    report.set_bind(options.bind);
    report.set_port(static_cast<std::uint32_t>(gate.port));
    return WriteOut(JsonOf(std::move(report), JsonLayout::kCompact) + "\n", "address");
  }
  return WriteOut(absl::StrCat(url, "\n", is_loopback ? "for browsers on this machine; " : "",
                               "Ctrl-C ends it\n"),
                  "address");
}

bool HasNobodyAtItsEnd(int descriptor) {
  struct stat kind{};
  if (::fstat(descriptor, &kind) != 0 || !(S_ISFIFO(kind.st_mode) || S_ISSOCK(kind.st_mode)))
    return false;
  pollfd one{descriptor, 0, 0};
  return ::poll(&one, 1, 0) == 1 && (one.revents & (POLLHUP | POLLERR)) != 0;
}

// Why: where ssh without a terminal loses its connection, the program that it has started is not told. Both
// ends: `ssh -n` has no input from the start, and a script may have read the URL and closed the output.
bool IsLeftAlone() { return HasNobodyAtItsEnd(STDIN_FILENO) && HasNobodyAtItsEnd(STDOUT_FILENO); }

std::string CannotListen(const WebOptions& options, int port, const std::string& why) {
  const std::string which = port == 0 ? "any port" : absl::StrCat("port ", port);
  return absl::StrFormat("cannot listen at %s, %s: %s", options.bind, which, why);
}

int RunWeb(const WebOptions& options) {
  StopSignal stop;
  // For ever, as the threads that use them: see the end.
  auto& feed = *new Feed(options.feed);
  auto& server = *new PageServer(feed);
  Gate gate;
  gate.bind = options.bind;
  const absl::StatusOr<int> port = server.Listen(options.bind, options.port);
  if (!port.ok())
    return Fail(kExitFailed,
                CannotListen(options, options.port, std::string(port.status().message())));
  gate.port = *port;
  gate.token = NewToken();
  gate.path = NewPath();
  gate.host_name = OwnHostName();
  feed.Start();
  std::thread([&server, gate, &options] {
    const std::string why = server.Serve(gate);
    const int code = Fail(kExitFailed, CannotListen(options, gate.port, why));
    std::fflush(nullptr);
    ::_exit(code);
  }).detach();
  if (const int code = Announce(options, gate); code != 0) ::_exit(code);
  const auto begin = std::chrono::steady_clock::now();
  for (std::uint64_t left = UINT64_MAX; left > 0 && !IsLeftAlone();) {
    if (options.for_ns != 0) {
      const auto gone = std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count();
      left = options.for_ns - std::min(options.for_ns, static_cast<std::uint64_t>(gone));
    }
    if (stop.WaitFor(std::min(left, kSecondNs))) break;
  }
  // Threads wait at the daemon and at browsers without end, and have nothing to bring to an end.
  std::fflush(nullptr);
  ::_exit(0);
}

}  // namespace

Run AddWeb(CLI::App& web, const Invocation&) {
  const auto made = std::make_shared<WebOptions>();
  WebOptions& options = *made;
  AddSocket(web, options.feed.socket_path);
  web.add_option("--port", options.port, "Port to listen on (a free one)")
      ->check(CLI::Range(0, 65535));
  web.add_option("--bind", options.bind, "Address to listen on, for browsers elsewhere (127.0.0.1)")
      ->type_name("ADDRESS")
      ->check(NotEmpty("an address"));
  AddDuration(web, "--interval", options.feed.interval_ns, 50'000'000, 3600 * kSecondNs,
              "Refresh interval while nothing happens (1s)");
  AddDuration(web, "--for", options.for_ns, kSecondNs / 1000, 30 * 86400 * kSecondNs,
              "Stop after this time (at Ctrl-C)");
  web.add_flag("--json", options.json, "For programs: the URL (WebReport of ctl.proto)");
  web.footer(
      R"(Topology, links and their rates, jobs and who waits for whom, health with remedies, the
last operations, and what has happened. Prints the URL to open, and serves it until
Ctrl-C. Only a browser that has the URL gets the page, and it can change nothing.

From another machine, with the same port number twice:
  ssh -t -L 7480:127.0.0.1:7480 studio-1 mlxcommctl web --port 7480
With -t it ends with the connection. With --bind the page and the URL's token cross the
network unencrypted: use it in networks that you trust.)");
  return [made] { return RunWeb(*made); };
}

}  // namespace mlxcomm::ctl
