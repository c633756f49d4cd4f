// Collects ServiceFacts, without changing anything.
#pragma once

#include <optional>
#include <string>

#include "client/ctl/service/service_facts.h"
#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::ctl {

struct ServicePlaces {
  std::string own_path;  // This mlxcommctl's file.
  std::string program;   // mlxcommd, given by the user; empty: the one beside this mlxcommctl.
  bool only_files = false;
  std::string root;         // See ServiceFacts::root; absolute.
  bool to_install = false;  // Also collects what only `install` needs.
};

ServiceFacts CollectService(const ServicePlaces& places);

// Returns whether a daemon answers on a Unix socket, even if it refuses this user.
bool AnswersAt(const std::string& socket_path);
// Returns a daemon's own status, or nullopt if it does not answer.
std::optional<v1::NodeStatus> FetchNode(const std::string& socket_path);

}  // namespace mlxcomm::ctl
