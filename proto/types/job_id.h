// Which job: whose it is, and its name. Two users' jobs of one name have nothing in
// common: they never cross, on one node or between nodes.
//
// The user is what all nodes of a cluster call that person: the name of the account
// ("alice"), for numbers differ from machine to machine; "#1000" where the system has no
// name for the number 1000. By configuration (clients { users }) always the number, or
// nothing at all, so that all users share. Nodes believe each other about it: who holds
// the cluster's key may speak for any user.
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
