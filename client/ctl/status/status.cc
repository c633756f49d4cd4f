#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

#include "client/ctl/cli/command_line.h"
#include "client/ctl/cli/json_text.h"
#include "client/ctl/cli/output.h"
#include "client/ctl/cli/stop_signal.h"
#include "client/ctl/cli/terminal.h"
#include "client/ctl/daemon/daemon_call.h"
#include "client/ctl/status/render_status.h"

namespace mlxcomm::ctl {
namespace {

struct StatusOptions {
  std::string socket_path;
  bool json = false;
  bool details = false;
  bool watch = false;  // Repeats until SIGINT or SIGTERM.
  std::uint64_t interval_ns = 1'000'000'000;
};

Failure Fetch(const StatusOptions& options, bool colours, std::string& text) {
  v1::StatusReply status;
  if (Failure failure = FetchStatus(options.socket_path, status); !failure.ok()) return failure;
  if (!options.json) {
    text = options.details ? RenderStatusDetails(status, colours)
                           : RenderStatus(status, colours, SizeOfTerminal().columns);
    return {};
  }
  const Failure made =
      ToJson(status, text, options.watch ? JsonLayout::kCompact : JsonLayout::kIndented);
  if (made.ok() && options.watch) text += "\n";  // One line each.
  return made;
}

// A terminal's other screen, so that what stood on the first one is there afterwards.
class OtherScreen {
 public:
  explicit OtherScreen(bool is_wanted) : is_on_(is_wanted && Write("\x1b[?1049h\x1b[?25l")) {}
  ~OtherScreen() {
    if (is_on_) Write("\x1b[?25h\x1b[?1049l");
  }
  OtherScreen(const OtherScreen&) = delete;
  OtherScreen& operator=(const OtherScreen&) = delete;

  bool is_on() const { return is_on_; }
  // The lines that fit, written over those before. The last one says what is wrong, and stays.
  static std::string Frame(const std::string& text) {
    std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
    const std::size_t rows = SizeOfTerminal().rows;
    if (lines.size() > rows && rows > 2) {
      const std::size_t left_out = lines.size() - rows + 1;
      const auto from = lines.end() - 1 - static_cast<std::ptrdiff_t>(left_out);
      *from = absl::StrCat("... ", left_out, " more lines");
      lines.erase(from + 1, lines.end() - 1);
    }
    return absl::StrCat("\x1b[H", absl::StrJoin(lines, "\x1b[K\r\n"), "\x1b[K\x1b[J");
  }

 private:
  static bool Write(const std::string& text) { return WriteOut(text, "status") == 0; }
  bool is_on_;
};

// In place on a terminal, one below the other elsewhere. A daemon that goes away is reported, and
// waited for: it may be restarting.
int Watch(const StatusOptions& options) {
  const bool colours = ColoursWanted();
  StopSignal stop;
  const OtherScreen screen(!options.json && ::isatty(STDOUT_FILENO) != 0);
  bool away = false;
  do {
    std::string text;
    const Failure failure = Fetch(options, colours, text);
    if (!failure.ok() && failure.code != FailureCode::kUnavailable) return ReportFailure(failure);
    if (!failure.ok()) {
      const std::string waits = "mlxcommctl: " + Shown(failure.message) + "; waiting for it";
      if (screen.is_on()) {
        WriteOut(OtherScreen::Frame(waits), "status");
      } else if (!away) {
        std::fprintf(stderr, "%s\n", waits.c_str());
      }
      away = true;
      continue;
    }
    away = false;
    if (!options.json) text = screen.is_on() ? OtherScreen::Frame(text) : text + "\n";
    if (const int code = WriteOut(text, "status"); code != 0) return code;
  } while (!stop.WaitFor(options.interval_ns));
  return 0;
}

int RunStatus(const StatusOptions& options) {
  if (options.watch) return Watch(options);
  std::string text;
  const Failure failure = Fetch(options, ColoursWanted(), text);
  return failure.ok() ? WriteOut(text, "status") : ReportFailure(failure);
}

}  // namespace

Run AddStatus(CLI::App& status, const Invocation&) {
  const auto made = std::make_shared<StatusOptions>();
  StatusOptions& options = *made;
  AddSocket(status, options.socket_path);
  status.add_flag("--json", options.json, "For programs (StatusReply of diagnostics.proto)");
  status.add_flag("-v,--verbose", options.details, "All that is known of each node, rail and rank");
  status.add_flag("--watch", options.watch, "Again and again, until Ctrl-C");
  AddDuration(status, "--interval", options.interval_ns, 50'000'000, 3600'000'000'000,
              "Between two looks (1s)");
  return [made] { return RunStatus(*made); };
}

}  // namespace mlxcomm::ctl
