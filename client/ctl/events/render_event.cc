#include "client/ctl/events/render_event.h"

#include <ctime>

#include "absl/strings/str_format.h"
#include "client/ctl/cli/text.h"

namespace mlxcomm::ctl {
namespace {

std::string LocalTime(std::uint64_t unix_ns) {
  const auto seconds = static_cast<std::time_t>(unix_ns / 1'000'000'000);
  std::tm local{};
  ::localtime_r(&seconds, &local);
  char text[40];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local);
  return absl::StrFormat("%s.%03d", text, unix_ns / 1'000'000 % 1000);
}

}  // namespace

std::string RenderEvent(const v1::EventsReply& event, bool colours) {
  if (event.lost() > 0) {
    return "(" + std::to_string(event.lost()) + (event.lost() == 1 ? " event is" : " events are") +
           " no longer kept)\n";
  }
  std::string severity = Shown(event.severity());
  const char* const code = severity == "error" ? "31" : severity == "warning" ? "33" : nullptr;
  severity.resize(7, ' ');
  if (code != nullptr) severity = Coloured(code, severity, colours);
  return LocalTime(event.unix_ns()) + "  " + severity + "  " + Shown(event.object()) + "  " +
         Shown(event.text()) + "\n";
}

}  // namespace mlxcomm::ctl
