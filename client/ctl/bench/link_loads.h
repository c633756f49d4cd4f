// What each link carried between two looks at the status, beside the best that it has shown.
#pragma once

#include <string>
#include <vector>

#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::ctl {

// One direction of a link, all its rails together; what is forwarded counts on the links
// that it goes over.
struct RailLoad {
  std::string transport;  // "tcp", "rdma": all rails of a link of this kind.
  double bytes = 0;       // As of LinkLoad.
  double bytes_per_second = 0;
  double best_bytes_per_second = 0;
};

struct LinkLoad {
  std::string from;
  std::string to;
  double bytes = 0;             // For each operation.
  double bytes_per_second = 0;  // While the operations went on.
  // Of all cables, each as fast as the best of its rails, which share it, or as what all of them
  // carried now. 0: none was measured.
  double best_bytes_per_second = 0;
  std::vector<RailLoad> rails = {};  // By kind; "rdma" first.

  double fraction() const {
    return best_bytes_per_second <= 0 ? 0 : bytes_per_second / best_bytes_per_second;
  }
};

// In order of nodes and links in `after`. Left out: links with a rail that came up since,
// whose count began anew.
std::vector<LinkLoad> LoadsBetween(const v1::StatusReply& before, const v1::StatusReply& after,
                                   double operations, double nanoseconds_each);

}  // namespace mlxcomm::ctl
