#include "daemon/platform/process_state.h"

#include <fstream>
#include <string>

namespace mlxcomm::platform {

// proc(5): the state follows the program's name, which is in brackets and may contain brackets.
bool IsStopped(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string line;
  if (!std::getline(file, line)) return false;
  const std::size_t name_end = line.rfind(") ");
  return name_end != std::string::npos && name_end + 2 < line.size() && line[name_end + 2] == 'T';
}

}  // namespace mlxcomm::platform
