// What the system knows about a user: the name of the account, and its groups.
//
// The system may have to ask a directory on the network, so any of this can take
// seconds: never on the loop's thread.
//
// Memory: plain values; at most kGroupsMax groups.
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
  gid_t group = 0;            // Its first one.
  std::vector<gid_t> groups;  // All of them, that one included.
};

// NOT_FOUND: no account has this number. UNAVAILABLE: the system could not answer.
absl::StatusOr<UserAccount> FindAccount(uid_t uid);
absl::StatusOr<gid_t> FindGroup(const std::string& name);

}  // namespace mlxcomm::platform
