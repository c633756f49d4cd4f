#include "client/ctl/events/render_event.h"

#include <cstdio>
#include <ctime>

#include "client/ctl/cli/text.h"

namespace mlxcomm::ctl {
namespace {

std::string LocalTime(std::uint64_t unix_ns) {
  const auto seconds = static_cast<std::time_t>(unix_ns / 1'000'000'000);
  std::tm local{};
  ::localtime_r(&seconds, &local);
  char text[40];
  const std::size_t size = std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local);
  std::snprintf(text + size, sizeof text - size, ".%03u",
                static_cast<unsigned>(unix_ns / 1'000'000 % 1000));
  return text;
}

}  // namespace

std::string RenderEvent(const v1::EventsReply& event, bool colours) {
  if (event.lost() > 0) {
    return "(" + std::to_string(event.lost()) + (event.lost() == 1 ? " event is" : " events are") +
           " no longer known)\n";
  }
  std::string severity = Shown(event.severity());
  const char* const code = severity == "error" ? "31" : severity == "warning" ? "33" : nullptr;
  severity.resize(7, ' ');
  if (code != nullptr) severity = Coloured(code, severity, colours);
  return LocalTime(event.unix_ns()) + "  " + severity + "  " + Shown(event.object()) + "  " +
         Shown(event.text()) + "\n";
}

}  // namespace mlxcomm::ctl
