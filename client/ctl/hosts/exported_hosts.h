// Makes MLX's host file (hostfile.h) from the fabric that the daemons have found:
//
//   ssh    the node's name, or that of --ssh-name
//   order  if possible, neighbours in the list share a cable, all around, as MLX's ring connects
//   ips    for the ring, the host's ends of its cables to the previous host, the same number on every host;
//          for JACCL one address that all others reach, because all ranks connect to rank 0
//   rdma   the devices towards each other host, if every pair (`jaccl-ring`: every two neighbours) has
//          an RDMA cable
//
// Imperfections are notes; only a fault that makes the file useless is a failure.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "client/ctl/hosts/fabric_cables.h"
#include "client/ctl/hosts/hostfile.h"
#include "proto/types/failure.h"

namespace mlxcomm::ctl {

struct ExportWishes {
  std::vector<std::string> nodes = {};  // Names or ids; empty: all nodes that are up.
  bool keep_order = false;              // Keep the order of `nodes`.
  std::string backend = {};             // "ring", "jaccl", "jaccl-ring"; empty: the best available.
  // Node and ssh argument.
  std::vector<std::pair<std::string, std::string>> ssh_names = {};
};

struct ExportedHosts {
  Hostfile file;
  std::vector<std::string> nodes;  // The node name of each host.
  bool neighbours_share_cables = false;
  std::vector<std::string> notes;  // May contain untrusted names.
};

// INVALID_ARGUMENT: a node does not exist, is not up, or has no valid host name; the cables do not support
// the backend.
Failure ExportHosts(const Fabric& fabric, const ExportWishes& wishes, ExportedHosts& exported);

// HostfileJson with details and notes.
std::string ExportedJson(const ExportedHosts& exported);

}  // namespace mlxcomm::ctl
