// The receiving half of a rail that carries bytes: reads frames, puts or reduces their payload where it
// was posted, and passes them on.
//
//   stream ──▶ read ahead ──header──▶ target: where it was posted, staging, a slot, a copy
//     └────────── large payload, straight ──────────▶ target ──all of it──▶ port: OnEvent
//
// Payload that is to be combined is combined part by part while it is read and still in the cache; its sum
// is taken in the same way, and nothing is passed on before it is right.
// README.md, FrameReader, says when reading waits and how it ends.
//
// Owner: a rail. Thread: its owner's; OnSlotFreed and OnLargeControlFreed by the thread that takes the
// events, the atomic figures from any. Memory: slots, staging and read-ahead are one mapping, of which the
// system gives the pages that are used; a control message above the eager size, which is rare, is
// allocated, at most kLargeControlsMax at once.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "daemon/platform/mapping.h"
#include "daemon/rail/byte_stream.h"
#include "daemon/rail/posted_receives.h"
#include "daemon/rail/rail.h"
#include "daemon/rail/rail_observer.h"
#include "proto/system/file_descriptor.h"

namespace mlxcomm::rail {

// What the reader needs of its rail.
class FrameReaderPort {
 public:
  virtual ~FrameReaderPort() = default;
  // For a frame that has not begun; one that has keeps its place.
  virtual bool HasPlaceForEvent() const = 0;
  // As far as there is room for what they call for.
  virtual void TakeCommands() = 0;
  virtual bool CommandsWait() const = 0;
  // For the loop; there is place for it. kFrame; or kTransmitted with `abandoned`: a frame of data was lost
  // after it had begun, or its payload was changed on the way (kBytesChanged), and has to be asked for.
  virtual void OnEvent(RailEvent&& event) = 0;
  virtual void OnHeartbeat(const wire::FrameHeader& heartbeat) = 0;
};

class FrameReader {
 public:
  // All outlive it.
  FrameReader(const FileDescriptor& socket, ByteStream& stream, FrameReaderPort& port);

  // Before anything else; may be nullptr.
  void Observe(RailObserver* observer) { observer_ = observer; }
  PostedReceives& posted() { return posted_; }
  const PostedReceives& posted() const { return posted_; }
  // The operation's receives are withdrawn: nothing of them is touched any more.
  void Forget(const OperationKey& key);

  // Reads what the socket has, at most `turns` times. `write_error`: why nothing can be
  // written any more, 0: it can. True: anything moved.
  bool Read(int write_error, int turns = kTurns);
  // There may be something to read, and room for it. A frame that has begun has its place; another
  // may begin only if there is one.
  bool MayRead() const {
    return !stalled_ && (target_ != nullptr || header_have_ > 0 || HasRoom());
  }
  bool HasRoom() const;
  // Something that was read has not been handed on.
  bool has_read_ahead() const { return read_first_ < read_end_; }
  // And would not wait for commands.
  bool may_take_read_ahead() const { return !stalled_ && has_read_ahead(); }
  // There may be something that the socket would not call for; and whether it may be read.
  bool has_unseen() const { return stream_.HasUnread(); }
  bool may_read_unseen() const { return has_unseen() && MayRead(); }
  // Nothing of a frame has been read that has not been handed on.
  bool is_between_frames() const {
    return target_ == nullptr && header_have_ == 0 && !has_read_ahead();
  }
  bool has_ended() const { return has_ended_; }
  DownCause end_cause() const { return end_cause_; }
  const std::string& end_reason() const { return end_reason_; }
  // Where more is known than the cause says.
  LinkReason end_link_reason() const { return end_link_reason_; }
  // The other side does not know that nothing is read here any more, and should dial again.
  bool should_report_end() const { return has_ended_ && reports_end_; }

  // The thread that takes the events has done with a payload.
  void OnSlotFreed() { slots_freed_.fetch_add(1, std::memory_order_release); }
  void OnLargeControlFreed() { large_controls_freed_.fetch_add(1, std::memory_order_release); }

  std::uint64_t received_bytes() const { return received_bytes_.load(std::memory_order_relaxed); }
  std::uint64_t last_received_ns() const {
    return last_received_ns_.load(std::memory_order_relaxed);
  }
  // The newest heartbeat; 0: there was none.
  std::uint64_t last_asked_ns() const { return last_asked_ns_.load(std::memory_order_relaxed); }
  bool has_passed_large() const { return passed_large_.load(std::memory_order_relaxed); }
  std::uint64_t round_trip_ns() const { return round_trip_ns_.load(std::memory_order_relaxed); }
  std::uint32_t round_trips() const { return round_trips_.load(std::memory_order_relaxed); }
  std::uint64_t round_trip_ns_min() const {
    return round_trip_ns_min_.load(std::memory_order_relaxed);
  }

 private:
  static constexpr std::size_t kPayloadSlots = 128;
  static constexpr std::size_t kLargeControlsMax = 16;
  static constexpr int kTurns = 8;
  // The eager frames that an operation may send at once (four), and small ones with them.
  static constexpr std::size_t kReadAheadBytes = 72 * 1024;
  // Among large payloads, and where one may come next: its header, and little that would have to be
  // copied from here.
  static constexpr std::size_t kReadAheadBytesAmongData = 4 * 1024;
  static constexpr std::size_t kLittleBytes = 8 * 1024;

  bool HoldsMark(const std::byte* bytes, std::size_t count) const;
  void DropBegun();
  enum class Filled : std::uint8_t {
    kNothing,  // Or it has ended.
    kSome,
    kAllThereIs,  // Surely.
  };
  Filled Fill(int write_error);
  bool TakeReadAhead();
  bool OnHeader();
  bool BeginFrame();
  void SumPayload(const std::byte* bytes, std::size_t count);
  bool ChooseTarget();
  std::byte* TakeSlot();
  bool LendReadAhead();
  bool IsLent(int buffer) const {
    return lent_until_[buffer] > slots_freed_.load(std::memory_order_acquire);
  }
  PostedReceives::Place PlaceOfData();
  void FinishFrame();
  bool OnWrongSum();
  bool HaveAllCome();
  void OnEcho();
  void OnGivenUp();
  void ReportAbandoned(std::uint64_t sequence, LinkReason reason);
  void End(DownCause cause, std::string reason, LinkReason link_reason = LinkReason::kNone);
  void EndAndReport(std::string reason, LinkReason link_reason);

  const FileDescriptor& socket_;
  ByteStream& stream_;
  FrameReaderPort& port_;
  RailObserver* observer_ = nullptr;
  const bool has_sums_;  // Frames have them: the stream is not encrypted.
  PostedReceives posted_;
  const platform::Mapping memory_;  // What the next three lie in.
  std::byte* const read_ahead_[2];
  std::byte* const slots_;
  std::byte* const staging_;
  std::uint64_t lent_until_[2] = {
      0, 0};         // Of each: slots_used_ after the last payload that stays in it.
  int current_ = 0;  // The one that is read into.
  std::size_t read_first_ = 0;
  std::size_t read_end_ = 0;
  wire::FrameHeader incoming_;
  std::size_t header_have_ = 0;
  std::uint64_t incoming_began_ns_ = 0;  // When its header was read.
  std::byte* target_ = nullptr;          // Where the payload goes.
  std::byte* copied_to_ = nullptr;       // Where repeated data goes, once its sum is right.
  std::size_t payload_have_ = 0;
  std::uint64_t peers_mark_ = 0;    // In its signs of life; 0: not known.
  std::uint64_t frames_ = 0;        // That have come, whole.
  bool counts_frames_ = true;       // Without a gap since the last sign of life.
  std::uint32_t sum_reported_ = 0;  // Of the payload, by its header.
  std::uint32_t sum_have_ = 0;      // Of what has come of it.
  bool target_slot_ = false;
  bool target_duplicate_ = false;  // A copy of data, read and dropped.
  bool stalled_ = false;           // The frame's receive may wait among the commands.
  std::unique_ptr<std::vector<std::byte>> target_control_;
  std::uint64_t slots_begun_ = 0;  // slots_used_ when the first slot was the next.
  std::uint64_t slots_used_ = 0;   // Payloads that stay where they were read ahead count, too.
  std::uint64_t large_controls_used_ = 0;
  bool has_ended_ = false;
  DownCause end_cause_ = DownCause::kCut;
  std::string end_reason_;
  LinkReason end_link_reason_ = LinkReason::kNone;
  bool reports_end_ = false;
  std::atomic<std::uint64_t> slots_freed_{0};
  std::atomic<std::uint64_t> large_controls_freed_{0};
  std::atomic<std::uint64_t> received_bytes_{0};
  std::atomic<std::uint64_t> last_received_ns_;
  std::atomic<std::uint64_t> last_asked_ns_{0};
  std::atomic<bool> passed_large_{false};
  std::atomic<std::uint64_t> round_trip_ns_{0};
  std::atomic<std::uint64_t> round_trip_ns_min_{0};
  std::atomic<std::uint32_t> round_trips_{0};
};

}  // namespace mlxcomm::rail
