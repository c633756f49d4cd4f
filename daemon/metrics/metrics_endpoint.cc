#include "daemon/metrics/metrics_endpoint.h"

#include <chrono>
#include <exception>
#include <future>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include <prometheus/collectable.h>
#include <prometheus/exposer.h>

#include "absl/strings/str_cat.h"
#include "daemon/metrics/metric_families.h"

namespace mlxcomm::metrics {
namespace {

constexpr auto kPatience = std::chrono::seconds(2);  // For the loop; scrapers have ten.

// The loop's answer to a thread that waits for it, and may have given up meanwhile.
class PromisedMetrics final : public node::Answer<LoopMetrics> {
 public:
  explicit PromisedMetrics(std::promise<std::optional<LoopMetrics>> promise)
      : promise_(std::move(promise)) {}
  ~PromisedMetrics() override {
    if (!reported_) promise_.set_value(std::nullopt);
  }
  void Succeed(const LoopMetrics& metrics) override {
    reported_ = true;
    promise_.set_value(metrics);
  }
  void Fail(const Failure&) override {
    reported_ = true;
    promise_.set_value(std::nullopt);
  }

 private:
  std::promise<std::optional<LoopMetrics>> promise_;
  bool reported_ = false;
};

std::vector<prometheus::MetricFamily> Collect(services::PostedCalls& calls,
                                              const record::OperationCounts& operations) {
  std::promise<std::optional<LoopMetrics>> promise;
  std::future<std::optional<LoopMetrics>> reported = promise.get_future();
  calls.Ask(std::make_unique<PromisedMetrics>(std::move(promise)),
            [&calls](node::Node& node, auto answer) {
              answer->Succeed({node.Metrics(), calls.wakeups()});
            });
  const bool answered = reported.wait_for(kPatience) == std::future_status::ready;
  return WriteMetricFamilies(answered ? reported.get() : std::nullopt, operations);
}

class Collector final : public prometheus::Collectable {
 public:
  Collector(services::PostedCalls& calls, const record::OperationCounts& operations)
      : calls_(calls), operations_(operations) {}

  // Pages that are asked for within 50 ms are the same one: anybody may ask.
  std::vector<prometheus::MetricFamily> Collect() const override {
    const std::lock_guard lock(mutex_);
    const auto now = std::chrono::steady_clock::now();
    if (now >= made_ + std::chrono::milliseconds(50)) {
      families_ = metrics::Collect(calls_, operations_);
      made_ = now;
    }
    return families_;
  }

 private:
  mutable std::mutex mutex_;
  mutable std::chrono::steady_clock::time_point made_;
  mutable std::vector<prometheus::MetricFamily> families_;
  services::PostedCalls& calls_;
  const record::OperationCounts& operations_;
};

class HttpMetricsEndpoint final : public MetricsEndpoint {
 public:
  HttpMetricsEndpoint(const std::string& address, services::PostedCalls& calls,
                      const record::OperationCounts& operations)
      : collector_(std::make_shared<Collector>(calls, operations)),
        exposer_(std::vector<std::string>{"listening_ports", address, "num_threads", "2",
                                          "request_timeout_ms", "2000"}) {
    exposer_.RegisterCollectable(collector_);
  }
  int port() const override { return exposer_.GetListeningPorts().front(); }

 private:
  std::shared_ptr<Collector> collector_;  // The library only has a weak pointer.
  prometheus::Exposer exposer_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsEndpoint>> MetricsEndpoint::Create(
    const std::string& address, services::PostedCalls& calls,
    const record::OperationCounts& operations) {
  try {
    return std::make_unique<HttpMetricsEndpoint>(address, calls, operations);
  } catch (const std::exception&) {  // CivetException, whose text does not have the reason.
    return absl::FailedPreconditionError(absl::StrCat(
        "metrics { listen: \"", address,
        "\" }: cannot listen there; another program may have that port, or the address "
        "is not one of this machine"));
  }
}

}  // namespace mlxcomm::metrics
