// The groups of an account: getgrouplist's types differ between the systems.
#pragma once

#include <string>

#include <sys/types.h>

namespace mlxcomm::platform {

// As getgrouplist: the groups of `name`, including `first`. `count`: the size of `groups`, then the
// number of groups. False: `groups` was too small.
bool GroupsOf(const std::string& name, gid_t first, gid_t* groups, int* count);

}  // namespace mlxcomm::platform
