// A rail over one TCP connection: a thread that reads frames, puts or reduces their
// payload where it was posted, and writes frames straight from where they lie.
//
//   loop: commands ─▶ write what the socket takes ─▶ read what it has ─▶ sleep in
//         poll() when none of it moved anything (after a short spin if data did just
//         now), woken by the socket or by the engine's bell
//
// The reader stops when the event ring or the payload slots are full, and goes on
// when the engine has taken some: TCP then holds the other side back. Two places of
// the event ring are kept for a frame that has begun and for the end, so that what
// was placed is always told, and the thread never waits in the middle of a frame.
// Data for a receive that is not known makes it take all commands that wait, and if there
// is no room for what they call for, wait with them.
// Acknowledgements and signs of life go before the data that waits, never inside a frame;
// the kernel gets little at a time, for in it they cannot overtake. Of each kind only the
// newest waits, so a socket that takes nothing leaves room for all commands.
// When writing fails, what has come is read to its end before the rail goes down: it
// may be the other side's last word.
//
// A rail that goes down because the other side has ended, or has broken the protocol,
// closes its socket; one that is stopped, or fails for a reason on this machine, leaves it
// open for KeepEnd. What the kernel holds to be sent may still arrive: frames that were
// written whole, which have their numbers, and one that never becomes whole.
//
// Owner: Link. Thread: its own; the rest of Rail's calls on the engine thread.
// Memory: rings, slots and the staging buffer are fixed at creation; a control
// message above the eager size is allocated, for it is rare, kLargeControlsMax at once.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/fabric/posted_receives.h"
#include "daemon/fabric/rail.h"
#include "daemon/fabric/rail_observer.h"
#include "daemon/fabric/spsc_ring.h"
#include "daemon/platform/file_descriptor.h"
#include "daemon/platform/wakeup.h"

struct iovec;

namespace mlxcomm::fabric {

class TcpRail final : public Rail {
 public:
  // `socket` is connected and non-blocking. `engine_bell` wakes the engine.
  static absl::StatusOr<std::unique_ptr<TcpRail>> Create(platform::FileDescriptor socket,
                                                         std::string local_address,
                                                         std::string remote_address,
                                                         platform::Wakeup& engine_bell);
  ~TcpRail() override;

  // Before Start; may be nullptr.
  void Observe(std::unique_ptr<RailObserver> observer) { observer_ = std::move(observer); }
  void Expect(const PostedReceive& receive, ReceiveBudget::Share share) override;
  absl::Status Start(bool resumed, ArrivalClaims& claims) override;
  bool Give(const RailCommand& command) override;
  void Finish() override;
  void Stop() override;
  std::unique_ptr<KeptEnd> KeepEnd() override;
  bool Pop(RailEvent& event) override;
  bool PrepareToSleep() override { return events_.PrepareToSleep(); }
  void WakeUp() override { events_.WakeUp(); }
  std::uint64_t last_received_ns() const override {
    return last_received_ns_.load(std::memory_order_relaxed);
  }
  RailSnapshot Snapshot() const override;

 private:
  static constexpr std::size_t kRingSlots = 1024;
  static constexpr std::size_t kEventsKept = 2;  // For a frame that has begun, and for kDown.
  static constexpr std::size_t kPayloadSlots = 128;
  static constexpr std::size_t kLargeControlsMax = 16;
  static constexpr std::size_t kReadAheadBytes = 64 * 1024;
  static constexpr std::size_t kBatchFrames = 16;

  TcpRail(platform::FileDescriptor socket, std::string local_address, std::string remote_address,
          platform::Wakeup& engine_bell, platform::Wakeup bell);

  // The rail's thread from here on.
  void Run();
  void Sleep();
  void SendTheRest();
  bool TakeCommands();
  void Obey(const RailCommand& command);
  void Forget(const OperationKey& key);
  bool Write();
  bool WantsToWrite() const;
  void GatherBatch(struct iovec* parts, std::size_t* part_count);
  void OnWritten(std::size_t bytes, std::uint64_t began_ns);
  void TellReceived();
  void TellTransmitted();
  void PutInFront(const Channel::Frame& frame);
  void PutSignOfLife();
  bool MayRead() const;
  bool HasRoomForEvent() const;
  bool HasRoomToSend() const;
  bool Read();
  bool TakeReadAhead();
  bool BeginFrame();
  bool ChooseTarget();
  PostedReceives::Place PlaceOfData();
  bool FinishFrame();
  void Emit(RailEvent&& event);
  void GoDown(DownCause cause, std::string reason);

  platform::FileDescriptor socket_;
  std::string local_address_;
  std::string remote_address_;
  platform::Wakeup& engine_bell_;
  platform::Wakeup bell_;
  SpscRing<RailCommand> commands_{kRingSlots};
  SpscRing<RailEvent> events_{kRingSlots};
  std::atomic<bool> stop_{false};
  std::atomic<bool> finish_{false};
  std::atomic<bool> waits_for_room_{false};
  std::atomic<std::uint64_t> slots_freed_{0};
  std::atomic<std::uint64_t> large_controls_freed_{0};
  std::atomic<std::uint64_t> sent_bytes_{0};
  std::atomic<std::uint64_t> received_bytes_{0};
  std::atomic<std::uint64_t> last_received_ns_;
  std::atomic<std::uint64_t> round_trip_ns_{0};
  std::atomic<std::uint64_t> round_trip_ns_min_{0};
  std::atomic<bool> up_{true};
  bool popped_slot_ = false;  // Engine: the event handed out last holds a slot.
  bool popped_large_control_ = false;

  // The thread's own from Start on.
  std::unique_ptr<RailObserver> observer_;
  std::vector<Channel::Frame> outgoing_;  // A ring of kRingSlots.
  std::size_t outgoing_first_ = 0;
  std::size_t outgoing_count_ = 0;
  std::size_t front_written_ = 0;         // Bytes of the first frame.
  std::uint64_t front_began_ns_ = 0;      // When they were; only where it is observed.
  std::uint32_t transmitted_ = 0;         // Written, not yet told.
  int write_error_ = 0;                   // Nothing can be written any more.
  bool echo_due_ = false;
  bool heartbeat_due_ = false;
  wire::FrameHeader echo_;
  PostedReceives posted_;
  std::unique_ptr<std::byte[]> staging_;
  std::vector<std::byte> read_ahead_;
  std::size_t read_first_ = 0;
  std::size_t read_end_ = 0;
  wire::FrameHeader incoming_;
  std::size_t header_have_ = 0;
  std::uint64_t incoming_began_ns_ = 0;   // When its header was read.
  std::byte* target_ = nullptr;           // Where the payload goes.
  std::size_t payload_have_ = 0;
  bool target_slot_ = false;
  bool target_duplicate_ = false;         // A copy of data, read and dropped.
  bool stalled_ = false;                  // The frame's receive may wait among the commands.
  std::unique_ptr<std::vector<std::byte>> target_control_;
  std::unique_ptr<std::byte[]> slots_;
  std::uint64_t slots_used_ = 0;
  std::uint64_t large_controls_used_ = 0;
  bool down_ = false;
  std::thread thread_;
};

}  // namespace mlxcomm::fabric
