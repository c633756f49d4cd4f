#include "daemon/platform/user_groups.h"

#include <grp.h>
#include <unistd.h>

namespace mlxcomm::platform {

// It takes ints there, of the size of gid_t. Where the array is too small, the count comes back
// unchanged; the caller then tries a larger one.
bool GroupsOf(const std::string& name, gid_t first, gid_t* groups, int* count) {
  static_assert(sizeof(gid_t) == sizeof(int));
  return ::getgrouplist(name.c_str(), static_cast<int>(first), reinterpret_cast<int*>(groups),
                        count) >= 0;
}

}  // namespace mlxcomm::platform
