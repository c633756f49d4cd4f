#include <unistd.h>

#include <cstdio>
#include <memory>

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
  bool watch = false;  // Repeats until SIGINT or SIGTERM.
  std::uint64_t interval_ns = 1'000'000'000;
};

Failure Fetch(const StatusOptions& options, bool colours, std::string& text) {
  v1::StatusReply status;
  if (Failure failure = FetchStatus(options.socket_path, status); !failure.ok()) return failure;
  if (!options.json) {
    text = RenderStatus(status, colours);
    return {};
  }
  const Failure made =
      ToJson(status, text, options.watch ? JsonLayout::kCompact : JsonLayout::kIndented);
  if (made.ok() && options.watch) text += "\n";  // One line each.
  return made;
}

// In place on a terminal, one below the other elsewhere. A daemon that goes away is reported, and
// waited for: it may be restarting.
int Watch(const StatusOptions& options) {
  const bool terminal = ::isatty(STDOUT_FILENO) != 0;
  const bool colours = ColoursWanted();
  StopSignal stop;
  bool away = false;
  do {
    std::string text;
    const Failure failure = Fetch(options, colours, text);
    if (!failure.ok() && failure.code != FailureCode::kUnavailable) return ReportFailure(failure);
    if (!failure.ok()) {
      if (!away)
        std::fprintf(stderr, "mlxcommctl: %s; waiting for it\n", Shown(failure.message).c_str());
      away = true;
      continue;
    }
    away = false;
    if (!options.json) text = terminal ? "\x1b[H\x1b[2J\x1b[3J" + text : text + "\n";
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
  status.add_flag("--watch", options.watch, "Again and again, until Ctrl-C");
  AddDuration(status, "--interval", options.interval_ns, 50'000'000, 3600'000'000'000,
              "Between two looks (1s)");
  return [made] { return RunStatus(*made); };
}

}  // namespace mlxcomm::ctl
