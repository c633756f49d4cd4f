#include <memory>

#include "client/ctl/cli/command_line.h"
#include "client/ctl/cli/json_text.h"
#include "client/ctl/cli/output.h"
#include "client/ctl/cli/stop_signal.h"
#include "client/ctl/cli/terminal.h"
#include "client/ctl/daemon/daemon_call.h"
#include "client/ctl/events/render_event.h"

namespace mlxcomm::ctl {
namespace {

struct EventsOptions {
  std::string socket_path;
  std::uint32_t last = 20;
  bool follow = false;
  bool json = false;
};

int RunEvents(const EventsOptions& options) {
  StopSignal stop;
  if (options.follow) stop.EndProcess();
  v1::EventsRequest request;
  request.set_last(options.last);
  request.set_follow(options.follow);
  const bool colours = ColoursWanted();
  int code = 0;
  const Failure failure =
      ReadEvents(options.socket_path, request, [&](const v1::EventsReply& event) {
        std::string text;
        if (!options.json) {
          text = RenderEvent(event, colours);
        } else if (ToJson(event, text, JsonLayout::kCompact).ok()) {
          text += "\n";
        }
        code = WriteOut(text, "events");
        return code == 0;
      });
  return failure.ok() ? code : ReportFailure(failure);
}

}  // namespace

Run AddEvents(CLI::App& events, const Invocation&) {
  const auto options = std::make_shared<EventsOptions>();
  AddSocket(events, options->socket_path);
  events.add_option("-n,--last", options->last, "Show this many past events (20)")
      ->type_name("COUNT");
  events.add_flag("-f,--follow", options->follow, "Print new events until Ctrl-C");
  events.add_flag("--json", options->json,
                  "Print JSON: a line for each event (EventsReply in diagnostics.proto)");
  events.footer(
      R"(The daemon keeps the last 256 events of each kind; for jobs and processes, 256 of each
user. You see your own and those that concern all users. A reader that is too slow gets the
number of events that it missed.)");
  return [options] { return RunEvents(*options); };
}

}  // namespace mlxcomm::ctl
