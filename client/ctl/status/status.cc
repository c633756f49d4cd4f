#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
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
#include "client/ctl/cli/text.h"
#include "client/ctl/daemon/daemon_call.h"
#include "client/ctl/status/render_status.h"

namespace mlxcomm::ctl {
namespace {

struct StatusOptions {
  std::string socket_path;
  bool json = false;
  bool details = false;
  bool watch = false;
  std::uint64_t interval_ns = 1'000'000'000;
};

// A file or pipe gets a bounded number of rows, too.
TerminalSize Screen() {
  constexpr std::size_t kRowsElsewhere = 40;
  TerminalSize size = SizeOfTerminal();
  if (!IsScreen()) size.rows = kRowsElsewhere;
  return size;
}

Failure Fetch(const StatusOptions& options, bool colours, std::string& text) {
  v1::StatusReply status;
  if (Failure failure = FetchStatus(options.socket_path, status); !failure.ok()) return failure;
  if (!options.json) {
    text = options.details ? RenderStatusDetails(status, colours)
                           : RenderStatus(status, colours, Screen());
    return {};
  }
  const Failure made =
      ToJson(status, text, options.watch ? JsonLayout::kCompact : JsonLayout::kIndented);
  if (made.ok() && options.watch) text += "\n";
  return made;
}

// The terminal's alternate screen, which keeps the contents of the first one.
class OtherScreen {
 public:
  OtherScreen() { Write("\x1b[?1049h\x1b[?25l"); }
  ~OtherScreen() { Write("\x1b[?25h\x1b[?1049l"); }
  OtherScreen(const OtherScreen&) = delete;
  OtherScreen& operator=(const OtherScreen&) = delete;

  // Replaces the previous lines by those that fit. The last one, the health line, is always shown.
  static std::string Frame(const std::string& text) {
    const TerminalSize size = SizeOfTerminal();
    std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
    const auto rows_from = [&](std::size_t first) {
      std::size_t rows = 0;
      for (std::size_t at = first; at < lines.size(); ++at) rows += RowsOf(lines[at], size.columns);
      return rows;
    };
    if (rows_from(0) > size.rows) {
      std::size_t left = size.rows - std::min(size.rows, 1 + rows_from(lines.size() - 1));
      std::size_t at = 0;
      for (; at + 1 < lines.size() && RowsOf(lines[at], size.columns) <= left; ++at) {
        left -= RowsOf(lines[at], size.columns);
      }
      const std::string note = absl::StrCat("... ", lines.size() - 1 - at, " more lines");
      lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(at), lines.end() - 1);
      lines.insert(lines.end() - 1, note);
    }
    return absl::StrCat("\x1b[H\x1b[2K", absl::StrJoin(lines, "\n\x1b[2K"), "\x1b[J");
  }

 private:
  static void Write(const std::string& text) { (void)WriteOut(text, "status"); }
};

// Waits for a daemon that goes away, because it may be restarting.
int Watch(const StatusOptions& options) {
  const bool colours = ColoursWanted();
  StopSignal stop;
  std::optional<OtherScreen> screen;
  if (!options.json && IsScreen()) screen.emplace();
  bool away = false;
  do {
    std::string text;
    const Failure failure = Fetch(options, colours, text);
    if (!failure.ok() && failure.code != FailureCode::kUnavailable) {
      screen.reset();  // The message must remain visible.
      return ReportFailure(failure);
    }
    if (!failure.ok()) {
      const std::string waits =
          "mlxcommctl: " + Shown(failure.message) + "; waiting for it to return";
      if (screen.has_value()) {
        if (const int code = WriteOut(OtherScreen::Frame(waits), "status"); code != 0) return code;
      } else if (!away) {
        std::fprintf(stderr, "%s\n", waits.c_str());
      }
      away = true;
      continue;
    }
    away = false;
    if (!options.json) text = screen.has_value() ? OtherScreen::Frame(text) : text + "\n";
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
  const auto options = std::make_shared<StatusOptions>();
  AddSocket(status, options->socket_path);
  status.add_flag("--json", options->json, "Print JSON (StatusReply in diagnostics.proto)");
  status.add_flag("-v,--verbose", options->details, "Show all details of each node, rail and rank");
  status.add_flag("--watch", options->watch,
                  "Refresh until Ctrl-C; with --json, print a line each time");
  AddDuration(status, "--interval", options->interval_ns, 50'000'000, 3600'000'000'000,
              "Refresh interval (1s)");
  status.footer(
      R"(Shows a row for each node, link and job, with its faults; the last line says what to do.
`over` is a link's rails, `now` the rate of the last second in both directions, `at best`
the highest rate of the slower direction. If healthy links do not fit the screen, the
busiest are shown and the others counted; a file or pipe has 40 rows.

With -v, `out` and `in` are the rates of the last second, `sent` and `received` the totals
since the rail came up; `TLS` or `plain` shows whether it is encrypted. Each node lists the
interfaces that it uses to find neighbours, those that it does not use and why, and nodes
that it hears but has no link to.

You see your own jobs and limits, and the number of other users' jobs. Root, the daemon's
own user and the operators see all. With --watch it waits for a daemon that goes away.)");
  return [options] { return RunStatus(*options); };
}

}  // namespace mlxcomm::ctl
