// Computes what each link carried between two statuses, and the most that it has ever carried.
#pragma once

#include <vector>

#include "mlxcomm/v1/ctl.pb.h"
#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::ctl {

// Each direction of a link, with all its rails; forwarded data counts on each link that carries it.
// The best rate adds up the cables, each with the best rate of a rail on it, or their rate now if
// that is higher. Leaves out links with a rail that came up during the measurement, because its
// count restarted.
std::vector<v1::BenchLink> LoadsBetween(const v1::StatusReply& before, const v1::StatusReply& after,
                                        double operations, double nanoseconds_each);

}  // namespace mlxcomm::ctl
