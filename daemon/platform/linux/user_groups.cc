#include "daemon/platform/user_groups.h"

#include <grp.h>

namespace mlxcomm::platform {

bool GroupsOf(const std::string& name, gid_t first, gid_t* groups, int* count) {
  return ::getgrouplist(name.c_str(), first, groups, count) >= 0;
}

}  // namespace mlxcomm::platform
