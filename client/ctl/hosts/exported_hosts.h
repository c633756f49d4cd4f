// MLX's host file (hostfile.h) from the fabric that the daemons have found:
//
//   ssh    the node's name, or what --ssh-name says
//   order  neighbours in the list share a cable, all around, where that is possible: MLX's ring connects each
//          rank to the next
//   ips    for the ring, the host's ends of its cables to the host before it, as many on every host; for
//          JACCL one address that all others reach, for rank 0's is where they meet
//   rdma   the devices towards each other host, where every pair has a cable with RDMA (for `jaccl-ring`
//          every two neighbours); else none
//
// What could not be as one would wish is a note; what makes the file useless is a failure.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "client/ctl/hosts/fabric_cables.h"
#include "client/ctl/hosts/hostfile.h"
#include "proto/types/failure.h"

namespace mlxcomm::ctl {

struct ExportWishes {
  std::vector<std::string> nodes = {};  // Names or ids; empty: all that are up.
  bool keep_order = false;              // Ranks are in that order.
  std::string backend = {};  // "ring", "jaccl", "jaccl-ring"; empty: the best that there is.
  std::vector<std::pair<std::string, std::string>> ssh_names = {};  // Node, and what ssh is given.
};

struct ExportedHosts {
  Hostfile file;
  std::vector<std::string> nodes;  // Of each host its node's name.
  bool neighbours_share_cables = false;
  std::vector<std::string> notes;  // With names that others have chosen.
};

// INVALID_ARGUMENT: a node that is not there, not up, or has no name for ssh; a backend that these cables
// cannot serve.
Failure ExportHosts(const Fabric& fabric, const ExportWishes& wishes, ExportedHosts& exported);

// For programs: the hosts as HostfileJson has them, and what there is to know of them.
std::string ExportedJson(const ExportedHosts& exported);

}  // namespace mlxcomm::ctl
