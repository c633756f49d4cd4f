#include <unistd.h>

#include <string>

#include "daemon/platform/interfaces.h"

namespace mlxcomm::platform {

// A port of a bridge has this folder.
bool IsBridgeMember(const std::string& interface) {
  return ::access(("/sys/class/net/" + interface + "/brport").c_str(), F_OK) == 0;
}

}  // namespace mlxcomm::platform
