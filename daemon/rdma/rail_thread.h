// A rail over one queue pair, and its thread: moves frames through messages, posts them and polls
// for completions.
//
//   turn: commands ─▶ completions ─▶ write frames ─▶ read frames ─▶ post receives, then sends
//   nothing moved for a while ─▶ arm the completion queue, poll once more, sleep
//
// A driver may hang in any call, and nothing waits for it (README.md).
//
// Owner: RdmaRail and the thread, whichever ends last. Thread: its own; calls for the loop's thread
// say so. Memory: rings, reader and writer are fixed at creation; messages are the queue pair's.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "daemon/platform/wakeup.h"
#include "daemon/rail/frame_mover.h"
#include "daemon/rail/rail.h"
#include "daemon/rdma/message_stream.h"
#include "daemon/rdma/queue_pair.h"
#include "daemon/rdma/send_regions.h"
#include "proto/queue/scheduling_policy.h"

namespace mlxcomm::v1 {
class RailStatus;
}

namespace mlxcomm::rdma {

// A queue pair that both sides have connected, with its receives posted.
struct ReadyPair {
  std::unique_ptr<QueuePair> pair;
  Service service = Service::kUnreliable;
  std::uint32_t peer_receives = 0;
  std::uint64_t connection = 0;    // The same on both sides, unique for this queue pair.
  std::string local_address = {};  // Only displayed.
  std::string remote_address = {};
  std::shared_ptr<ArenaRegions> regions = nullptr;  // The device's; null: everything is copied.
  queue::SchedulingPolicy scheduling = {};
};

class RailThread final : public rail::FrameMover {
 public:
  // `loop_bell` outlives Stop.
  RailThread(ReadyPair ready, platform::Wakeup bell, platform::Wakeup& loop_bell);

  // Runs until it is stopped or the rail is down.
  void Run();

  // The loop's thread.
  bool Give(const rail::RailCommand& command);
  bool Pop(rail::RailEvent& event);
  bool PrepareToSleep() { return events_.PrepareToSleep(); }
  void WakeUp() { events_.WakeUp(); }
  void Finish();
  // Returns once the thread touches only its own state.
  void Stop();
  // Any thread.
  std::uint64_t last_received_ns() const { return received_ns_.load(std::memory_order_relaxed); }
  rail::RailFigures figures() const { return Figures(); }
  bool is_reliable() const { return ready_.service == Service::kReliable; }
  // Sets what never changes, and counts.
  void Describe(v1::RailStatus& status) const;

 private:
  enum class Place : std::uint8_t { kHere, kAway, kGone };

  // Returns false if the rail was stopped in the meantime: then only the thread's own state may be
  // touched.
  template <typename Call>
  [[nodiscard]] bool AtDriver(Call call);
  bool is_stopped() const { return stop_.load(std::memory_order_seq_cst); }
  bool Turn();
  bool TakeCompletions(bool& any);
  void TakeCompletion(const Completion& completion);
  bool PostAll(bool& any);
  bool DropRegions();
  void Silence();
  bool Sleep();
  int SleepMs() const;
  void SendTheRest();
  void GoDown(std::string reason, LinkReason link_reason = LinkReason::kNone);
  void OnEvent(rail::RailEvent&& event) override;

  ReadyPair ready_;
  std::uint64_t finish_end_ns_ = 0;   // The loop's thread: the deadline of an orderly stop.
  std::atomic<bool> stopped_{false};  // Stop no longer touches the thread's state.
  std::atomic<bool> silenced_{false};
  std::atomic<Place> place_{Place::kAway};
  std::atomic<bool> reported_down_{false};
  std::atomic<std::uint64_t> received_ns_;
  std::atomic<std::uint64_t> lost_messages_{0};
  // The thread's.
  SendRegions regions_;
  MessageStream& messages_;
  std::uint64_t now_ns_ = 0;  // Read at the last completions.
};

// The loop's end of the rail: owned by a Link, and used on the loop's thread. The rail's thread may
// outlive it.
class RdmaRail final : public rail::Rail {
 public:
  // On failure the queue pair stays in `ready`: destroying it calls the driver.
  static absl::StatusOr<std::unique_ptr<RdmaRail>> Create(ReadyPair& ready,
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
  bool is_reliable() const override { return thread_->is_reliable(); }
  ClusterKeyId proved_with() const override { return proved_with_; }
  void SetProvedWith(const ClusterKeyId& key) override { proved_with_ = key; }
  std::uint64_t last_received_ns() const override { return thread_->last_received_ns(); }
  rail::RailFigures figures() const override { return thread_->figures(); }
  void Describe(v1::RailStatus& status) const override { thread_->Describe(status); }

 private:
  explicit RdmaRail(std::shared_ptr<RailThread> thread) : thread_(std::move(thread)) {}

  std::shared_ptr<RailThread> thread_;
  ClusterKeyId proved_with_{};  // The key of the connection beside it.
  bool started_ = false;
};

}  // namespace mlxcomm::rdma
