// The base of rails that write and read frames: the writer, the reader, and the rings between the
// loop's thread and the driver's.
//
//   loop ──commands──▶ ExecuteCommands ─▶ writer, reader ─▶ OnEvent ──events──▶ PopEvent: loop
//
// Owner: the rail that derives from it. Thread: the driver's, unless stated otherwise. Memory:
// rings and buffers of fixed size.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>

#include "daemon/platform/wakeup.h"
#include "daemon/rail/byte_stream.h"
#include "daemon/rail/frame_reader.h"
#include "daemon/rail/frame_writer.h"
#include "daemon/rail/rail.h"
#include "daemon/rail/rail_observer.h"
#include "daemon/rail/spsc_ring.h"
#include "proto/system/file_descriptor.h"

namespace mlxcomm::rail {

class FrameMover : protected FrameReaderPort {
 public:
  // Call these before the rail starts.
  void Observe(std::unique_ptr<RailObserver> observer);
  PostedReceives& posted() { return reader_.posted(); }
  void ShareClaims(bool resumed, ArrivalClaims& claims);

 protected:
  FrameMover(FileDescriptor socket, std::unique_ptr<ByteStream> stream, platform::Wakeup bell,
             platform::Wakeup& loop_bell);

  // The loop's thread.
  bool Push(const RailCommand& command) { return commands_.Push(RailCommand(command)); }
  void WakeDriver(const RailCommand& command, bool given);
  void FreePopped();
  bool PopEvent(RailEvent& event);
  // Any thread.
  RailFigures Figures() const;

  // Executes commands while there is room for what they cause; after Finish, no events are taken.
  bool ExecuteCommands();
  // Reports the count in an event of its own, if no other event carries it.
  void ReportTransmitted();
  void ReportDown(DownCause cause, std::string reason, LinkReason link_reason);
  // The caller has ensured that there is room (kEventsKept).
  void PushEvent(RailEvent&& event);
  void RingLoop();
  // FrameReaderPort
  bool HasRoomForEvent() const override { return events_.Room() > kEventsKept; }
  void TakeCommands() override { ExecuteCommands(); }
  bool CommandsWait() const override { return !commands_.IsEmpty(); }
  void OnHeartbeat(const wire::FrameHeader& heartbeat) override { writer_.Echo(heartbeat); }

  FileDescriptor socket_;
  const std::unique_ptr<ByteStream> stream_;
  platform::Wakeup bell_;
  platform::Wakeup& loop_bell_;
  SpscRing<RailCommand> commands_{kRingSlots};
  SpscRing<RailEvent> events_{kRingSlots};
  std::atomic<bool> stop_{false};
  std::atomic<bool> finish_{false};
  std::atomic<bool> waits_for_room_{false};
  std::atomic<bool> up_{true};
  std::unique_ptr<RailObserver> observer_;
  FrameWriter writer_;
  FrameReader reader_;
  bool down_ = false;

 private:
  static constexpr std::size_t kRingSlots = 1024;
  static constexpr std::size_t kEventsKept = 3;  // Reserved: a begun frame, a lost one, kDown.

  void Execute(const RailCommand& command);
  void Withdraw(const OperationKey& key);

  // The loop's: memory that the last popped event holds.
  bool popped_slot_ = false;
  bool popped_large_control_ = false;
};

}  // namespace mlxcomm::rail
