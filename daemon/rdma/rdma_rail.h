// A rail over one queue pair: the loop's end. Its thread (rail_thread.h) does the work.
//
//   Create ──Expect…──▶ Start ──Give / Pop──▶ down, on its own or by Stop
//
// Owner: Link. Thread: the loop's. Memory: shared with the thread, which may outlive the rail.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "daemon/platform/wakeup.h"
#include "daemon/rail/rail.h"
#include "daemon/rail/rail_observer.h"
#include "daemon/rdma/queue_pair.h"
#include "daemon/rdma/rail_thread.h"
#include "proto/queue/scheduling_policy.h"

namespace mlxcomm::rdma {

class ArenaRegions;

class RdmaRail final : public rail::Rail {
 public:
  // A queue pair that both sides have connected.
  struct Ready {
    std::unique_ptr<QueuePair> pair;
    Service service = Service::kUnreliable;
    std::uint32_t peer_receives = 0;
    std::uint64_t connection = 0;  // The same on both sides, unique for this queue pair.
    std::string local_address;     // Only displayed.
    std::string remote_address;
    std::shared_ptr<ArenaRegions> regions = nullptr;  // The device's; null: everything is copied.
    queue::SchedulingPolicy scheduling = {};
  };
  // On failure the queue pair stays in `ready`: destroying it calls the driver.
  static absl::StatusOr<std::unique_ptr<RdmaRail>> Create(Ready& ready,
                                                          platform::Wakeup& loop_bell);
  ~RdmaRail() override;

  // Call before Start; may be nullptr.
  void Observe(std::unique_ptr<rail::RailObserver> observer) {
    thread_->Observe(std::move(observer));
  }
  void Expect(const rail::PostedReceive& receive, rail::ReceiveBudget::Share share) override {
    thread_->posted().Expect(receive, share);
  }
  absl::Status Start(bool resumed, rail::ArrivalClaims& claims) override;
  bool Give(const rail::RailCommand& command) override { return thread_->Give(command); }
  void Finish() override { thread_->Finish(); }
  void Stop() override;
  bool Pop(rail::RailEvent& event) override { return thread_->Pop(event); }
  bool PrepareToSleep() override { return thread_->PrepareToSleep(); }
  void WakeUp() override { thread_->WakeUp(); }
  bool is_reliable() const override { return service_ == Service::kReliable; }
  ClusterKeyId proved_with() const override { return proved_with_; }
  void SetProvedWith(const ClusterKeyId& key) override { proved_with_ = key; }
  std::uint64_t last_received_ns() const override { return thread_->last_received_ns(); }
  rail::RailFigures figures() const override { return thread_->figures(); }
  void Describe(v1::RailStatus& status) const override;

 private:
  RdmaRail(std::shared_ptr<RailThread> thread, Ready ready)
      : thread_(std::move(thread)),
        service_(ready.service),
        local_address_(std::move(ready.local_address)),
        remote_address_(std::move(ready.remote_address)),
        regions_(std::move(ready.regions)) {}

  std::shared_ptr<RailThread> thread_;
  const Service service_;
  const std::string local_address_;
  const std::string remote_address_;
  const std::shared_ptr<ArenaRegions> regions_;
  ClusterKeyId proved_with_{};  // The key of the connection beside it.
  bool started_ = false;
};

}  // namespace mlxcomm::rdma
