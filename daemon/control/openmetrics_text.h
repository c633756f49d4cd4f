// Metrics as OpenMetrics 1.0 writes them, for those who ask for it. Unlike Prometheus's text
// format (0.0.4, prometheus-cpp's TextSerializer) a counter's family has no "_total", only its
// sample has; and "# EOF" says that nothing is missing.
//
// Owner: none, values. Thread: any. Memory: the caller's.
#pragma once

#include <iosfwd>
#include <vector>

#include <prometheus/serializer.h>

namespace mlxcomm::control {

inline constexpr char kOpenMetricsType[] =
    "application/openmetrics-text; version=1.0.0; charset=utf-8";

// Whether an Accept header, or none (nullptr), asks for it.
bool AcceptsOpenMetrics(const char* accept);

class OpenMetricsText final : public prometheus::Serializer {
 public:
  using Serializer::Serialize;
  void Serialize(std::ostream& out,
                 const std::vector<prometheus::MetricFamily>& families) const override;
};

}  // namespace mlxcomm::control
