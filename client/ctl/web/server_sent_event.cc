#include "client/ctl/web/server_sent_event.h"

namespace mlxcomm::ctl {

std::string ServerSentEvent(std::string_view name, std::string_view data) {
  std::string out = "event: ";
  out.append(name).append("\n");
  for (;;) {
    const std::size_t end = data.find_first_of("\r\n");
    out.append("data: ").append(data.substr(0, end)).append("\n");
    if (end == std::string_view::npos) return out + "\n";
    data.remove_prefix(end + 1);
  }
}

}  // namespace mlxcomm::ctl
