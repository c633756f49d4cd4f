// The thread of one queue pair: moves frames through messages, posts them and polls for
// completions.
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

#include "daemon/platform/wakeup.h"
#include "daemon/rail/frame_reader.h"
#include "daemon/rail/frame_writer.h"
#include "daemon/rail/rail.h"
#include "daemon/rail/spsc_ring.h"
#include "daemon/rdma/message_stream.h"
#include "daemon/rdma/queue_pair.h"
#include "daemon/rdma/send_regions.h"
#include "proto/queue/scheduling_policy.h"

namespace mlxcomm::rdma {

class RailThread final : private rail::FrameReaderPort {
 public:
  // `pair` is connected with its receives posted. `loop_bell` outlives Stop. `regions` may be null.
  RailThread(std::unique_ptr<QueuePair> pair, std::shared_ptr<ArenaRegions> regions,
             std::uint32_t peer_receives, std::uint64_t connection, Service service,
             const queue::SchedulingPolicy& scheduling, platform::Wakeup bell,
             platform::Wakeup& loop_bell);

  // Call before Run.
  void Observe(std::unique_ptr<rail::RailObserver> observer);
  rail::PostedReceives& posted() { return reader_.posted(); }
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
  std::uint64_t copied_bytes() const { return stream_.copied_bytes(); }
  std::uint64_t direct_bytes() const { return stream_.direct_bytes(); }
  std::uint64_t lost_messages() const { return lost_messages_.load(std::memory_order_relaxed); }
  rail::RailFigures figures() const {
    return {up_.load(std::memory_order_relaxed),
            writer_.sent_bytes(),
            reader_.received_bytes(),
            reader_.round_trip_ns(),
            reader_.round_trip_ns_min(),
            reader_.round_trips()};
  }

 private:
  static constexpr std::size_t kRingSlots = 1024;
  static constexpr std::size_t kEventsKept = 3;  // For a begun frame, a lost one, and kDown.
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
  bool ExecuteCommands();
  void ReportTransmitted();
  void Emit(rail::RailEvent&& event);
  void WakeLoop();
  void GoDown(std::string reason, LinkReason link_reason = LinkReason::kNone);
  // FrameReaderPort
  bool HasRoomForEvent() const override { return events_.Room() > kEventsKept; }
  void TakeCommands() override { ExecuteCommands(); }
  bool CommandsWait() const override { return !commands_.IsEmpty(); }
  void OnEvent(rail::RailEvent&& event) override { Emit(std::move(event)); }
  void OnHeartbeat(const wire::FrameHeader& heartbeat) override { writer_.Echo(heartbeat); }

  const queue::SchedulingPolicy scheduling_;
  std::unique_ptr<QueuePair> pair_;
  platform::Wakeup bell_;
  platform::Wakeup& loop_bell_;
  const FileDescriptor no_socket_;
  rail::SpscRing<rail::RailCommand> commands_{kRingSlots};
  rail::SpscRing<rail::RailEvent> events_{kRingSlots};
  std::atomic<bool> stop_{false};
  std::atomic<bool> finish_{false};
  std::uint64_t finish_end_ns_ = 0;   // The loop's thread: the deadline of an orderly stop.
  std::atomic<bool> stopped_{false};  // Stop no longer touches the thread's state.
  std::atomic<bool> silenced_{false};
  std::atomic<Place> place_{Place::kAway};
  std::atomic<bool> waits_for_room_{false};
  std::atomic<bool> up_{true};
  std::atomic<bool> reported_down_{false};
  std::atomic<std::uint64_t> received_ns_;
  std::atomic<std::uint64_t> lost_messages_{0};
  // The loop's thread.
  bool popped_slot_ = false;
  bool popped_large_control_ = false;
  // The thread's.
  std::unique_ptr<rail::RailObserver> observer_;
  SendRegions regions_;
  MessageStream stream_;
  rail::FrameWriter writer_;
  rail::FrameReader reader_;
  bool down_ = false;
  std::uint64_t now_ns_ = 0;  // Read at the last completions.
};

}  // namespace mlxcomm::rdma
