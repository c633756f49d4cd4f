// The receiving half of a byte-stream rail: places or reduces payload where it was posted.
//
//   stream ──▶ read ahead ──header──▶ target: where it was posted, staging, a slot, a copy
//     └────────── large payload, directly ──────────▶ target ──complete──▶ port: OnEvent
//
// Data is reduced and summed in parts while it is still cached. See README.md, FrameReader.
//
// Owner: a rail. Thread: the driver's; OnSlotFreed and OnLargeControlFreed on the loop's; atomic
// figures on any. Memory: one sparse mapping; a control message above the eager size is allocated,
// at most kLargeControlsMax at once.
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

class FrameReaderPort {
 public:
  virtual ~FrameReaderPort() = default;
  // Called before a frame begins; the frame then keeps its place.
  virtual bool HasRoomForEvent() const = 0;
  // Executes commands while there is room for what they cause.
  virtual void TakeCommands() = 0;
  virtual bool CommandsWait() const = 0;
  // kFrame; or kTransmitted with `abandoned`: a data frame was lost after its header, or its
  // payload was corrupt (kBytesChanged), and must be requested.
  virtual void OnEvent(RailEvent&& event) = 0;
  virtual void OnHeartbeat(const wire::FrameHeader& heartbeat) = 0;
};

class FrameReader {
 public:
  FrameReader(const FileDescriptor& socket, ByteStream& stream, FrameReaderPort& port);

  void Observe(RailObserver* observer) { observer_ = observer; }
  PostedReceives& posted() { return posted_; }
  const PostedReceives& posted() const { return posted_; }
  // Withdraws the operation's receives; their memory is no longer touched.
  void Forget(const OperationKey& key);

  // Reads at most `turns` times. `write_error`: why writing has failed, or 0. Returns whether
  // anything moved.
  bool Read(int write_error, int turns = kTurns);
  // Returns whether there is room to read. A frame that has begun has its room.
  bool MayRead() const {
    return !stalled_ && (target_ != nullptr || header_have_ > 0 || HasRoom());
  }
  bool HasRoom() const;
  bool has_read_ahead() const { return read_first_ < read_end_; }
  bool may_take_read_ahead() const { return !stalled_ && has_read_ahead(); }
  // Return whether there may be bytes that poll() does not show, and whether they may be read.
  bool has_unseen() const { return stream_.HasUnread(); }
  bool may_read_unseen() const { return has_unseen() && MayRead(); }
  bool is_between_frames() const {
    return target_ == nullptr && header_have_ == 0 && !has_read_ahead();
  }
  bool has_ended() const { return has_ended_; }
  DownCause end_cause() const { return end_cause_; }
  const std::string& end_reason() const { return end_reason_; }
  // kNone if end_cause() is sufficient.
  LinkReason end_link_reason() const { return end_link_reason_; }
  // Returns whether to notify the peer that this side no longer reads, so that it dials again.
  bool should_report_end() const { return has_ended_ && reports_end_; }

  // The loop is done with a payload.
  void OnSlotFreed() { slots_freed_.fetch_add(1, std::memory_order_release); }
  void OnLargeControlFreed() { large_controls_freed_.fetch_add(1, std::memory_order_release); }

  std::uint64_t received_bytes() const { return received_bytes_.load(std::memory_order_relaxed); }
  std::uint64_t last_received_ns() const {
    return last_received_ns_.load(std::memory_order_relaxed);
  }
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
  // The eager frames that an operation may send at once (four), and small frames with them.
  static constexpr std::size_t kReadAheadBytes = 72 * 1024;
  // When a large payload may arrive next: its header, and little payload that would have to be
  // copied.
  static constexpr std::size_t kReadAheadBytesAmongData = 4 * 1024;
  static constexpr std::size_t kLittleBytes = 8 * 1024;

  bool HoldsMark(const std::byte* bytes, std::size_t count) const;
  void DropBegun();
  enum class Filled : std::uint8_t {
    kNothing,  // Or the stream has ended.
    kSome,
    kAll,
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
  bool CheckFrameCount();
  void OnEcho();
  void OnGivenUp();
  void ReportAbandoned(std::uint64_t sequence, LinkReason reason);
  void End(DownCause cause, std::string reason, LinkReason link_reason = LinkReason::kNone);
  void EndAndReport(std::string reason, LinkReason link_reason);

  const FileDescriptor& socket_;
  ByteStream& stream_;
  FrameReaderPort& port_;
  RailObserver* observer_ = nullptr;
  const bool has_sums_;  // The stream is not encrypted.
  PostedReceives posted_;
  const platform::Mapping memory_;  // Holds the next three.
  std::byte* const read_ahead_[2];
  std::byte* const slots_;
  std::byte* const staging_;
  // Each read-ahead buffer's slots_used_ after the last payload that stays in it.
  std::uint64_t lent_until_[2] = {0, 0};
  int current_ = 0;  // The buffer in use.
  std::size_t read_first_ = 0;
  std::size_t read_end_ = 0;
  wire::FrameHeader incoming_;
  std::size_t header_have_ = 0;
  std::uint64_t incoming_began_ns_ = 0;
  std::byte* target_ = nullptr;     // The payload goes here.
  std::byte* copied_to_ = nullptr;  // Repeated data goes here once its sum matches.
  std::size_t payload_have_ = 0;
  std::uint64_t peers_mark_ = 0;    // Sent in its heartbeats; 0: unknown.
  std::uint64_t frames_ = 0;        // Complete frames.
  bool counts_frames_ = true;       // No gap since the last heartbeat.
  std::uint32_t sum_reported_ = 0;  // The payload's sum in the header.
  std::uint32_t sum_have_ = 0;      // The sum of what has arrived.
  bool target_slot_ = false;
  bool target_duplicate_ = false;  // A copy of data, to be dropped.
  bool stalled_ = false;           // The frame's receive may be among the waiting commands.
  std::unique_ptr<std::vector<std::byte>> target_control_;
  std::uint64_t slots_begun_ = 0;  // The value of slots_used_ when slot 0 was last due.
  std::uint64_t slots_used_ = 0;   // Includes payloads that stay in a read-ahead buffer.
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
  std::atomic<bool> passed_large_{false};
  std::atomic<std::uint64_t> round_trip_ns_{0};
  std::atomic<std::uint64_t> round_trip_ns_min_{0};
  std::atomic<std::uint32_t> round_trips_{0};
};

}  // namespace mlxcomm::rail
