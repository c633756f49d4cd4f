// Gathers ServiceFacts. Changes nothing.
#pragma once

#include <optional>
#include <string>

#include "client/ctl/service/service_facts.h"
#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::ctl {

struct ServicePlaces {
  std::string own_path;  // This mlxcommctl's file.
  std::string program;   // mlxcommd's, as named by the user; empty: the one beside this mlxcommctl.
  bool only_files = false;
  std::string root;         // As ServiceFacts::root, absolute.
  bool to_install = false;  // Also what only `install` asks.
};

ServiceFacts CollectService(const ServicePlaces& places);

// Whether a daemon answers at a Unix socket, even if it refuses this user.
bool AnswersAt(const std::string& socket_path);
// What a daemon says of itself; none: it does not answer, or not that.
std::optional<v1::NodeStatus> AskNode(const std::string& socket_path);

}  // namespace mlxcomm::ctl
