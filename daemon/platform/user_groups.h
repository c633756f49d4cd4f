// The groups of an account: getgrouplist has other types on each system.
#pragma once

#include <string>

#include <sys/types.h>

namespace mlxcomm::platform {

// As getgrouplist: the groups of `name`, `first` included. `count`: how many `groups` holds,
// then how many there are. False: it did not hold them all.
bool GroupsOf(const std::string& name, gid_t first, gid_t* groups, int* count);

}  // namespace mlxcomm::platform
