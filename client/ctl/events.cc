#include "client/ctl/daemon_call.h"
#include "client/ctl/json_text.h"
#include "client/ctl/output.h"
#include "client/ctl/render_event.h"
#include "client/ctl/stop_signal.h"
#include "client/ctl/terminal.h"
#include "client/ctl/verbs.h"

namespace mlxcomm::ctl {

int RunEvents(const EventsOptions& options) {
  StopSignal stop;
  if (options.follow) stop.EndProcess();  // To be stopped is how this ends.
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

}  // namespace mlxcomm::ctl
