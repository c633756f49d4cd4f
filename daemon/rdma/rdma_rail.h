// A rail over one queue pair. Its thread (rail_thread.h) does the work; this is the loop's end of it.
//
//   Create ──Expect…──▶ Start ──Give / Pop──▶ down, by itself or by Stop
//
// README.md says what becomes of lost messages, how the end of the other daemon is noticed, and which
// payload is copied. A driver that hangs holds nothing that anybody waits for.
//
// Owner: Link. Thread: the loop's. Memory: shared with the thread; a driver may hold it longer than the
// rail lives.
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
  // Of a queue pair that both sides have connected.
  struct Ready {
    std::unique_ptr<QueuePair> pair;
    Service service = Service::kUnreliable;
    std::uint32_t peer_receives = 0;
    std::uint64_t connection = 0;  // The same on both sides, of this queue pair alone.
    std::string local_address;     // For people.
    std::string remote_address;
    std::shared_ptr<ArenaRegions> regions = nullptr;  // Of the device; null: all is copied.
    queue::SchedulingPolicy scheduling = {};
  };
  // Takes it, or leaves the queue pair where it is: to destroy that is the driver's.
  static absl::StatusOr<std::unique_ptr<RdmaRail>> Create(Ready& ready,
                                                          platform::Wakeup& loop_bell);
  ~RdmaRail() override;

  // Before Start; may be nullptr.
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
  ClusterKeyId proved_with_{};  // By the connection beside it.
  bool started_ = false;
};

}  // namespace mlxcomm::rdma
