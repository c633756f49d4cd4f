#include "client/ctl/cli/terminal.h"

#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace mlxcomm::ctl {

bool ColoursWanted() {
  const char* const no = std::getenv("NO_COLOR");
  if (no != nullptr && no[0] != '\0') return false;
  const char* const kind = std::getenv("TERM");
  if (kind != nullptr && std::string_view(kind) == "dumb") return false;
  return ::isatty(STDOUT_FILENO) != 0;
}

}  // namespace mlxcomm::ctl
