// Identifies a job by its user and its name. Two users' jobs with the same name are separate.
//
// The user is the account's name ("alice") on all nodes, because uids differ between machines;
// "#1000" if uid 1000 has no account. With clients { users } it is always the uid, or empty if
// users share jobs.
#pragma once

#include <compare>
#include <string>

namespace mlxcomm {

struct JobId {
  std::string user;
  std::string name;

  friend auto operator<=>(const JobId&, const JobId&) = default;
};

}  // namespace mlxcomm
