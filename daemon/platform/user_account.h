// A user's account name and groups.
//
// The system may query a directory over the network, so any of this can take seconds: never call it
// on the loop's thread. Memory: plain values; at most kGroupsMax groups.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <sys/types.h>

#include "absl/status/statusor.h"

namespace mlxcomm::platform {

inline constexpr std::size_t kGroupsMax = 65536;

struct UserAccount {
  std::string name;
  gid_t group = 0;            // The primary group.
  std::vector<gid_t> groups;  // The primary group included.
};

// NOT_FOUND: no such account. UNAVAILABLE: the system could not answer.
absl::StatusOr<UserAccount> FindAccount(uid_t uid);
absl::StatusOr<gid_t> FindGroup(const std::string& name);

}  // namespace mlxcomm::platform
