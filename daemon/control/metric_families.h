// What Prometheus is told: families named by its conventions, from a snapshot of the loop
// and the counts of operations. No user's and no job's name is among them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <prometheus/metric_family.h>

#include "daemon/control/control_port.h"
#include "daemon/record/operation_counts.h"

namespace mlxcomm::control {

// `engine`: nothing where it did not answer in time; then only what is known without it.
std::vector<prometheus::MetricFamily> WriteMetricFamilies(
    const std::optional<EngineMetrics>& engine, const record::OperationCounts& operations);

}  // namespace mlxcomm::control
