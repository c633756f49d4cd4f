// MLX's host file (hostfile.h) from the fabric that the daemons have found:
//
//   ssh    the node's name, or that of --ssh-name
//   order  neighbours in the list share a cable, all around, where that is possible: MLX's ring
//   connects
//          each rank to the next
//   ips    for the ring, the host's ends of its cables to the host before it, the same number on every
//          host; for JACCL one address that all others reach, because all ranks meet at rank 0's
//   rdma   the devices towards each other host, where every pair has a cable with RDMA (for `jaccl-ring`
//          every two neighbours); else none
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
  bool keep_order = false;              // Ranks are in the order of `nodes`.
  std::string backend = {};             // "ring", "jaccl", "jaccl-ring"; empty: the best available.
  // Node, and its argument for ssh.
  std::vector<std::pair<std::string, std::string>> ssh_names = {};
};

struct ExportedHosts {
  Hostfile file;
  std::vector<std::string> nodes;  // The node name of each host.
  bool neighbours_share_cables = false;
  std::vector<std::string> notes;  // They contain names that others chose.
};

// INVALID_ARGUMENT: a node that does not exist, is not up, or has no name for ssh; a backend that
// these cables cannot serve.
Failure ExportHosts(const Fabric& fabric, const ExportWishes& wishes, ExportedHosts& exported);

// For programs: the hosts as HostfileJson has them, and the notes.
std::string ExportedJson(const ExportedHosts& exported);

}  // namespace mlxcomm::ctl
