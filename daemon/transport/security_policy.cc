#include "daemon/transport/security_policy.h"

#include "daemon/platform/interfaces.h"

namespace mlxcomm::fabric {

bool AsksForTls(const SecurityPolicy& policy, const std::string& interface_name) {
  const auto found = policy.on_interface.find(interface_name);
  switch (found == policy.on_interface.end() ? policy.elsewhere : found->second) {
    case Security::kTls: return true;
    case Security::kPlain: return false;
    case Security::kAuto: return !platform::IsDirectCable(interface_name);
  }
  return true;
}

}  // namespace mlxcomm::fabric
