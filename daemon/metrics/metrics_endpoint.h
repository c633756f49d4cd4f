// The HTTP port for Prometheus, if the configuration names one: GET /metrics in its text format
// 0.0.4. The library's Exposer serves it and adds metrics of its own (exposer_*).
//
//   GET ─server's thread─▶ AskLoop ─▶ the loop's snapshot ─▶ families ─▶ text
//
// Every process that reaches the port gets the page, so the configuration allows loopback addresses
// only, unless it says otherwise.
//
// Owner: Daemon. Thread: created and destroyed on main; serves on two of its own. Memory: a
// snapshot for each request; two at once.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/metrics/metric_families.h"
#include "daemon/node/answer.h"
#include "daemon/record/operation_counts.h"

namespace mlxcomm::metrics {

// Has the loop answer; called on any thread.
using AskLoop = std::function<void(std::unique_ptr<node::Answer<LoopMetrics>>)>;

class MetricsEndpoint {
 public:
  // FAILED_PRECONDITION: it cannot listen on the address.
  static absl::StatusOr<std::unique_ptr<MetricsEndpoint>> Create(
      const std::string& address, AskLoop ask_loop, const record::OperationCounts& operations);
  // While the loop does not run, a request ends at its deadline.
  virtual ~MetricsEndpoint() = default;
  virtual int port() const = 0;
};

}  // namespace mlxcomm::metrics
