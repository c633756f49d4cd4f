#include "daemon/rail/frame_mover.h"

#include <utility>

#include "proto/types/invariant.h"

namespace mlxcomm::rail {

FrameMover::FrameMover(FileDescriptor socket, std::unique_ptr<ByteStream> stream,
                       platform::Wakeup bell, platform::Wakeup& loop_bell)
    : socket_(std::move(socket)),
      stream_(std::move(stream)),
      bell_(std::move(bell)),
      loop_bell_(loop_bell),
      writer_(socket_, *stream_),
      reader_(socket_, *stream_, *this) {}

void FrameMover::Observe(std::unique_ptr<RailObserver> observer) {
  observer_ = std::move(observer);
  writer_.Observe(observer_.get());
  reader_.Observe(observer_.get());
}

void FrameMover::ShareClaims(bool resumed, ArrivalClaims& claims) {
  posted().ShareClaims(claims);
  if (resumed) posted().AssumeEarlierWithdrawals();
}

void FrameMover::WakeDriver(const RailCommand& command, bool given) {
  const bool may_wait = given && command.kind == RailCommand::Kind::kForgetCompleted;
  if (!may_wait && commands_.ConsumerSleeps()) bell_.Ring();
}

void FrameMover::FreePopped() {
  if (std::exchange(popped_slot_, false)) reader_.OnSlotFreed();
  if (std::exchange(popped_large_control_, false)) reader_.OnLargeControlFreed();
}

bool FrameMover::PopEvent(RailEvent& event) {
  if (events_.Pop(event)) {
    popped_large_control_ = event.control != nullptr;
    popped_slot_ =
        event.kind == RailEvent::Kind::kFrame && !event.payload.empty() && !popped_large_control_;
    return true;
  }
  // Pairs with Sleep: either this sees that the driver waits, or the driver sees the room.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (waits_for_room_.load(std::memory_order_relaxed)) bell_.Ring();
  return false;
}

RailFigures FrameMover::Figures() const {
  return {up_.load(std::memory_order_relaxed),
          writer_.sent_bytes(),
          reader_.received_bytes(),
          reader_.round_trip_ns(),
          reader_.round_trip_ns_min(),
          reader_.round_trips()};
}

bool FrameMover::ExecuteCommands() {
  const bool ends = finish_.load(std::memory_order_relaxed);
  bool any = false;
  RailCommand command;
  while (writer_.HasRoom() && (ends || HasRoomForEvent()) && commands_.Pop(command)) {
    Execute(command);
    any = true;
  }
  return any;
}

void FrameMover::Execute(const RailCommand& command) {
  switch (command.kind) {
    case RailCommand::Kind::kTransmit: return writer_.Queue(command.frame);
    case RailCommand::Kind::kPostReceive: return posted().Expect(command.receive, command.share);
    case RailCommand::Kind::kForgetCompleted:
      return posted().ForgetCompleted(command.key, command.step);
    case RailCommand::Kind::kHeartbeat: return writer_.QueueHeartbeat(command.padded);
    case RailCommand::Kind::kWithdraw: return Withdraw(command.key);
  }
}

void FrameMover::Withdraw(const OperationKey& key) {
  reader_.Forget(key);
  if (!HasRoomForEvent()) return;  // Only after Finish.
  RailEvent event;
  event.kind = RailEvent::Kind::kWithdrawn;
  event.key = key;
  OnEvent(std::move(event));
}

void FrameMover::ReportTransmitted() {
  writer_.CollectReleased();
  if (writer_.transmitted() == 0 || !HasRoomForEvent()) return;
  RailEvent event;
  event.kind = RailEvent::Kind::kTransmitted;
  OnEvent(std::move(event));
}

void FrameMover::ReportDown(DownCause cause, std::string reason, LinkReason link_reason) {
  RailEvent event;
  event.kind = RailEvent::Kind::kDown;
  event.cause = cause;
  event.abandoned = posted().Abandon();
  event.reason = std::move(reason);
  event.link_reason = link_reason;
  OnEvent(std::move(event));
}

void FrameMover::PushEvent(RailEvent&& event) {
  event.transmitted = writer_.TakeTransmitted();
  const bool has_room = events_.Push(std::move(event));
  MLXCOMM_INVARIANT(has_room);
}

void FrameMover::RingLoop() {
  if (events_.ConsumerSleeps()) loop_bell_.Ring();
}

}  // namespace mlxcomm::rail
