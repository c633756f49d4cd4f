// What each link carried between two readings of the status, beside the most that it has carried.
#pragma once

#include <vector>

#include "mlxcomm/v1/ctl.pb.h"
#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::ctl {

// Each direction of a link, all its rails together; forwarded data counts on the links that carry
// it. The best is the sum over all cables: of each the best rate of the rails that share it, or their
// rate now if that is higher. In order of nodes and links in `after`. Left out: links with a rail that
// came up since, because its count began again.
std::vector<v1::BenchLink> LoadsBetween(const v1::StatusReply& before, const v1::StatusReply& after,
                                        double operations, double nanoseconds_each);

}  // namespace mlxcomm::ctl
