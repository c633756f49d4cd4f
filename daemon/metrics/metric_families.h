// The metrics for Prometheus: families named by its conventions, from a snapshot of the loop and
// the counts of operations. They contain no user's or job's name.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <prometheus/metric_family.h>

#include "daemon/node/node.h"
#include "daemon/record/operation_counts.h"

namespace mlxcomm::metrics {

struct LoopMetrics : node::NodeMetrics {
  std::uint64_t wakeups = 0;
};

// `loop`: nothing where the loop did not answer in time; then only the rest is written.
std::vector<prometheus::MetricFamily> WriteMetricFamilies(
    const std::optional<LoopMetrics>& loop, const record::OperationCounts& operations);

}  // namespace mlxcomm::metrics
