// mlxcommctl web: a live page for browsers.
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

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

#include "client/ctl/cli/command_line.h"
#include "client/ctl/cli/json_text.h"
#include "client/ctl/cli/output.h"
#include "client/ctl/cli/stop_signal.h"
#include "client/ctl/cli/text.h"
#include "client/ctl/launch/launch_hosts.h"
#include "client/ctl/web/bookmark.h"
#include "client/ctl/web/feed.h"
#include "client/ctl/web/gate.h"
#include "client/ctl/web/page_server.h"
#include "mlxcomm/v1/ctl.pb.h"
#include "proto/system/program.h"

namespace mlxcomm::ctl {
namespace {

constexpr std::uint64_t kSecondNs = 1'000'000'000;

template <typename... Text>
void Log(const Text&... text) {
  std::fprintf(stderr, "mlxcommctl: %s\n", Shown(absl::StrCat(text...)).c_str());
}

struct WebOptions {
  FeedOptions feed;
  std::string bind = "127.0.0.1";
  int port = 0;
  std::uint64_t for_ns = 0;  // 0 means until Ctrl-C.
  bool open = false;
  bool json = false;
};

int Announce(const WebOptions& options, const Gate& gate, Bookmark& bookmark) {
  const bool is_loopback = IsLoopback(gate.bind);
  const std::string url =
      absl::StrFormat("http://%s:%d%s?t=%s", HostOfUrl(gate), gate.port, gate.path, gate.token);
  if (!is_loopback) {
    std::fprintf(
        stderr,
        "mlxcommctl: other machines can reach %s: the page and the token cross the network "
        "unencrypted, and everyone who has the URL sees this cluster\n",
        options.bind.c_str());
  }
  const absl::Status kept = bookmark.RedirectTo(url);
  if (!kept.ok()) Log("cannot write the bookmark: ", kept.message());
  if (options.json) {
    v1::WebReport report;
    report.set_url(url);
    report.set_bind(options.bind);
    report.set_port(static_cast<std::uint32_t>(gate.port));
    if (kept.ok()) report.set_bookmark(bookmark.address());
    return WriteOut(JsonOf(std::move(report), JsonLayout::kCompact) + "\n", "address");
  }
  const std::string stays =
      kept.ok() ? absl::StrCat("bookmark: ", bookmark.address(), "\n") : std::string();
  return WriteOut(
      absl::StrCat(url, "\n", stays, is_loopback ? "for browsers on this machine; " : "",
                   "Ctrl-C stops it\n"),
      "address");
}

// Reports on the terminal when the daemon stops or starts answering, and if no browser can be
// opened.
class TerminalLog {
 public:
  TerminalLog(Feed& feed, const Bookmark& bookmark) : feed_(feed), bookmark_(bookmark) {}

  void OpenBrowser() {
    absl::StatusOr<pid_t> opener = bookmark_.Open();
    if (opener.ok())
      opener_ = *opener;
    else
      LogNoBrowser(opener.status().message());
  }

  void Poll() {
    int status = 0;
    if (opener_ != 0 && AwaitProgram(opener_, std::chrono::nanoseconds(0), status)) {
      opener_ = 0;
      if (status != 0) LogNoBrowser(absl::StrCat("it ended ", HowEnded(ExitCodeOf(status))));
    }
    const Feed::Contact contact = feed_.LastContact();
    if (contact.failure.ok() == is_there_) return;
    is_there_ = contact.failure.ok();
    if (is_there_)
      Log("mlxcommd answers");
    else
      Log(contact.failure.message, "; the page waits for it");
  }

  // Fails if the page never had data.
  int ExitCode() const {
    const Feed::Contact contact = feed_.LastContact();
    if (contact.ever_succeeded) return 0;
    if (is_there_) return ReportFailure(contact.failure);  // Not reported yet.
    return ReportFailure({contact.failure.code, kNoRank, "no mlxcommd has answered"});
  }

 private:
  static void LogNoBrowser(absl::string_view why) {
    Log("cannot open a browser: ", why, "; open the URL above");
  }

  Feed& feed_;
  const Bookmark& bookmark_;
  pid_t opener_ = 0;
  bool is_there_ = true;
};

bool IsPeerClosed(int descriptor) {
  struct stat kind{};
  if (::fstat(descriptor, &kind) != 0 || !(S_ISFIFO(kind.st_mode) || S_ISSOCK(kind.st_mode)))
    return false;
  pollfd one{descriptor, 0, 0};
  return ::poll(&one, 1, 0) == 1 && (one.revents & (POLLHUP | POLLERR)) != 0;
}

// Without a terminal, ssh does not signal the program when the connection is lost. Checks both,
// because `ssh -n` has no input, and a script may close the output after reading the URL.
bool IsOrphaned() { return IsPeerClosed(STDIN_FILENO) && IsPeerClosed(STDOUT_FILENO); }

std::string CannotListen(const WebOptions& options, int port, const std::string& why) {
  const std::string which = port == 0 ? "any port" : absl::StrCat("port ", port);
  return absl::StrFormat("cannot listen on %s, %s: %s", options.bind, which, why);
}

int RunWeb(const WebOptions& options) {
  StopSignal stop;
  // Never destroyed, because detached threads use them.
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
  std::thread([&server, gate, &options] {
    const std::string why = server.Serve(gate);
    const int code = Fail(kExitFailed, CannotListen(options, gate.port, why));
    std::fflush(nullptr);
    ::_exit(code);
  }).detach();
  Bookmark bookmark;
  if (const int code = Announce(options, gate, bookmark); code != 0) ::_exit(code);
  TerminalLog log(feed, bookmark);
  if (options.open) log.OpenBrowser();
  feed.Start();
  const auto begin = std::chrono::steady_clock::now();
  for (std::uint64_t left = UINT64_MAX; left > 0 && !IsOrphaned();) {
    log.Poll();
    if (options.for_ns != 0) {
      const auto gone = std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count();
      left = options.for_ns - std::min(options.for_ns, static_cast<std::uint64_t>(gone));
    }
    if (stop.WaitFor(std::min(left, kSecondNs))) break;
  }
  bookmark.Release();
  const int code = log.ExitCode();
  // Threads block in endless calls and need no cleanup.
  std::fflush(nullptr);
  ::_exit(code);
}

}  // namespace

Run AddWeb(CLI::App& web, const Invocation&) {
  const auto options = std::make_shared<WebOptions>();
  AddSocket(web, options->feed.socket_path);
  web.add_option("--port", options->port, "Port to listen on (a free one)")
      ->check(CLI::Range(0, 65535));
  web.add_option("--bind", options->bind,
                 "Address to listen on, for browsers elsewhere (127.0.0.1)")
      ->type_name("ADDRESS")
      ->check(NotEmpty("an address"));
  AddDuration(web, "--interval", options->feed.interval_ns, 50'000'000, 3600 * kSecondNs,
              "Refresh interval while nothing happens (1s)");
  AddDuration(web, "--for", options->for_ns, kSecondNs / 1000, 30 * 86400 * kSecondNs,
              "Stop after this time (never)");
  web.add_flag("--open", options->open, "Open the page in a browser");
  web.add_flag("--json", options->json, "Print JSON: the URL (WebReport in ctl.proto)");
  web.footer(
      R"(Shows topology, links and their rates, jobs and which rank waits for which, health with
remedies, the last operations and events. Prints the URL to open, and serves it until
Ctrl-C. Only a browser that has the URL can load the page, and it cannot change anything.

The URL is new for each start. The bookmark, a file of this user, redirects to it (not with
sudo). Without a daemon the page waits for one; if none ever answers, the exit code is 3.

From another machine, with the same port number twice:
  ssh -t -L 7480:127.0.0.1:7480 studio-1 mlxcommctl web --port 7480
With -t the program ends with the connection. With --bind the page and the URL's token
cross the network unencrypted: use it only in networks that you trust.)");
  return [options] { return RunWeb(*options); };
}

}  // namespace mlxcomm::ctl
