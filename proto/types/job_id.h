// Which job: its user, and its name. Two users' jobs of one name have nothing in common, on one
// node or between nodes.
//
// The user is the name of the account ("alice") on all nodes, because numbers differ from machine
// to machine; "#1000" where the system has no name for the number 1000. By configuration (clients {
// users }) it is always the number, or empty, so that all users share. Nodes believe each other
// about it: a node that holds the cluster's key may speak for any user.
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
