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

namespace mlxcomm::metrics {
namespace {

constexpr auto kLoopTimeout = std::chrono::seconds(2);  // Prometheus gives up after ten.
constexpr auto kPageLifetime = std::chrono::milliseconds(50);

// Passes the loop's answer to a thread that waits for it and may have given up. Without an answer,
// nothing.
class PromisedMetrics final : public node::Answer<LoopMetrics> {
 public:
  explicit PromisedMetrics(std::promise<std::optional<LoopMetrics>> promise)
      : promise_(std::move(promise)) {}
  ~PromisedMetrics() override { promise_.set_value(std::move(metrics_)); }
  void Succeed(const LoopMetrics& metrics) override { metrics_ = metrics; }
  void Fail(const Failure&) override {}

 private:
  std::promise<std::optional<LoopMetrics>> promise_;
  std::optional<LoopMetrics> metrics_;
};

class Collector final : public prometheus::Collectable {
 public:
  Collector(AskLoop ask_loop, const record::OperationCounts& operations)
      : ask_loop_(std::move(ask_loop)), operations_(operations) {}

  // Any process may ask, so requests share a page while it is fresh.
  std::vector<prometheus::MetricFamily> Collect() const override {
    const std::lock_guard lock(mutex_);
    const auto now = std::chrono::steady_clock::now();
    if (now >= made_ + kPageLifetime) {
      std::promise<std::optional<LoopMetrics>> promise;
      std::future<std::optional<LoopMetrics>> reported = promise.get_future();
      ask_loop_(std::make_unique<PromisedMetrics>(std::move(promise)));
      const bool answered = reported.wait_for(kLoopTimeout) == std::future_status::ready;
      families_ = WriteMetricFamilies(answered ? reported.get() : std::nullopt, operations_);
      made_ = now;
    }
    return families_;
  }

 private:
  mutable std::mutex mutex_;
  mutable std::chrono::steady_clock::time_point made_;
  mutable std::vector<prometheus::MetricFamily> families_;
  const AskLoop ask_loop_;
  const record::OperationCounts& operations_;
};

class HttpMetricsEndpoint final : public MetricsEndpoint {
 public:
  HttpMetricsEndpoint(const std::string& address, AskLoop ask_loop,
                      const record::OperationCounts& operations)
      : collector_(std::make_shared<Collector>(std::move(ask_loop), operations)),
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
    const std::string& address, AskLoop ask_loop, const record::OperationCounts& operations) {
  try {
    return std::make_unique<HttpMetricsEndpoint>(address, std::move(ask_loop), operations);
  } catch (const std::exception&) {  // CivetException, whose text does not have the reason.
    return absl::FailedPreconditionError(absl::StrCat(
        "metrics { listen: \"", address,
        "\" }: cannot listen there; another program may have that port, or the address "
        "is not one of this machine"));
  }
}

}  // namespace mlxcomm::metrics
