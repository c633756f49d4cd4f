// What each link carried between two readings of the status, beside the most that it has carried.
#pragma once

#include <string>
#include <vector>

#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::ctl {

// One direction of a link, all its rails together; forwarded data counts on the links that carry
// it.
struct RailLoad {
  std::string transport;  // "tcp", "rdma": all rails of this kind.
  double bytes = 0;       // As of LinkLoad.
  double bytes_per_second = 0;
  double best_bytes_per_second = 0;
};

struct LinkLoad {
  std::string from;
  std::string to;
  double bytes = 0;             // For each operation.
  double bytes_per_second = 0;  // During the operations.
  // The sum over all cables: of each the best rate of the rails that share it, or their rate now if
  // that is higher. 0: none was measured.
  double best_bytes_per_second = 0;
  std::vector<RailLoad> rails = {};  // By kind; "rdma" first.

  double fraction() const {
    return best_bytes_per_second <= 0 ? 0 : bytes_per_second / best_bytes_per_second;
  }
};

// In order of nodes and links in `after`. Left out: links with a rail that came up since, because
// its count began again.
std::vector<LinkLoad> LoadsBetween(const v1::StatusReply& before, const v1::StatusReply& after,
                                   double operations, double nanoseconds_each);

}  // namespace mlxcomm::ctl
