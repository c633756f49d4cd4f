#include <string>

#include "daemon/platform/interfaces.h"

namespace mlxcomm::platform {

// The system takes the addresses of a member away, link-local ones as well, so who looks
// for addresses finds none there.
bool IsBridgeMember(const std::string&) { return false; }

}  // namespace mlxcomm::platform
