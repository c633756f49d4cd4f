// The metrics' HTTP port, where the configuration names one: GET /metrics in Prometheus's text format,
// version 0.0.4, by prometheus-cpp's Exposer, which adds figures of its own (exposer_*).
//
//   GET ─server's thread─▶ snapshot by the loop, as status takes it ─▶ families ─▶ text
//
// It does not ask who sends the request, so the configuration allows loopback addresses alone
// unless it says otherwise.
//
// Owner: Daemon. Thread: made and destroyed on main; serves on threads of its own, which never
// touch the loop's state. Memory: a snapshot for each request; two at once.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/record/operation_counts.h"
#include "daemon/services/posted_calls.h"

namespace mlxcomm::metrics {

class MetricsEndpoint {
 public:
  // FAILED_PRECONDITION: the address cannot be listened on.
  static absl::StatusOr<std::unique_ptr<MetricsEndpoint>> Create(
      const std::string& address, services::PostedCalls& calls,
      const record::OperationCounts& operations);
  // The loop must still run, else a request that waits for it ends at its deadline.
  virtual ~MetricsEndpoint() = default;
  virtual int port() const = 0;
};

}  // namespace mlxcomm::metrics
