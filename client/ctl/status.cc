#include <unistd.h>

#include <cstdio>

#include "client/ctl/daemon_call.h"
#include "client/ctl/json_text.h"
#include "client/ctl/output.h"
#include "client/ctl/render_status.h"
#include "client/ctl/stop_signal.h"
#include "client/ctl/terminal.h"
#include "client/ctl/verbs.h"

namespace mlxcomm::ctl {
namespace {

Failure Fetch(const StatusOptions& options, bool colours, std::string& text) {
  v1::StatusReply status;
  if (Failure failure = FetchStatus(options.socket_path, status); !failure.ok()) return failure;
  if (!options.json) {
    text = RenderStatus(status, colours);
    return {};
  }
  const Failure made =
      ToJson(status, text, options.watch ? JsonLayout::kCompact : JsonLayout::kIndented);
  if (made.ok() && options.watch) text += "\n";  // A line each.
  return made;
}

// In place on a terminal, one below the other elsewhere. A daemon that goes away is said,
// and waited for: it may be being restarted.
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
      if (!away) std::fprintf(stderr, "mlxcommctl: %s; waiting for it\n", Shown(failure.message).c_str());
      away = true;
      continue;
    }
    away = false;
    if (!options.json) text = terminal ? "\x1b[H\x1b[2J\x1b[3J" + text : text + "\n";
    if (const int code = WriteOut(text, "status"); code != 0) return code;
  } while (!stop.WaitFor(options.interval_ns));
  return 0;
}

}  // namespace

int RunStatus(const StatusOptions& options) {
  if (options.watch) return Watch(options);
  std::string text;
  const Failure failure = Fetch(options, ColoursWanted(), text);
  return failure.ok() ? WriteOut(text, "status") : ReportFailure(failure);
}

}  // namespace mlxcomm::ctl
