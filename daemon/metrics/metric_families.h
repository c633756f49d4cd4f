// The metrics for Prometheus: families named by its conventions, from a snapshot of the loop and
// the counts of operations. They contain no user's or job's name.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "daemon/node/node.h"
#include "daemon/record/operation_counts.h"

namespace prometheus {
struct MetricFamily;
}

namespace mlxcomm::metrics {

struct LoopMetrics : node::NodeMetrics {
  std::uint64_t wakeups = 0;
};

// Without `loop`, which did not answer in time, only the rest is written.
std::vector<prometheus::MetricFamily> WriteMetricFamilies(
    const std::optional<LoopMetrics>& loop, const record::OperationCounts& operations);

}  // namespace mlxcomm::metrics
