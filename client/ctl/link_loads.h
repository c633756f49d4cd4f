// What each link carried between two looks at the status, beside the best that it has shown.
//
// Owner: none, a pure function. Thread: any. Memory: the answer.
#pragma once

#include <string>
#include <vector>

#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::ctl {

// One direction of a link, all its rails together; what is forwarded counts on the links
// that it goes over.
struct LinkLoad {
  std::string from;
  std::string to;
  double bytes = 0;                  // For each operation.
  double bytes_per_second = 0;       // While the operations went on.
  double best_bytes_per_second = 0;  // 0: none was measured.

  double fraction() const {
    return best_bytes_per_second <= 0 ? 0 : bytes_per_second / best_bytes_per_second;
  }
};

// In order of nodes and links in `after`. Left out: links with a rail that came up since,
// whose count began anew.
std::vector<LinkLoad> LoadsBetween(const v1::StatusReply& before, const v1::StatusReply& after,
                                   double operations, double nanoseconds_each);

}  // namespace mlxcomm::ctl
