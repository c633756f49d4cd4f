// The bytes of frames as messages of a queue pair (message_header.h), in both directions, and
// the credit. README.md has the rules.
//
//   Write ─▶ open slot ──full, or nothing more──▶ to be posted ─NextSend─▶ posted ─OnSent─▶ free
//   posted ─OnReceived─▶ arrived ──Read──▶ to be posted ─NextReceive, OnReceivePosted─▶ posted
//
// Sans-I/O; time is an argument. Owner: RailThread. Thread: its own. Memory: the queue pair's
// slots.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "daemon/rail/byte_stream.h"
#include "daemon/rail/growing_ring.h"
#include "daemon/rdma/message_header.h"
#include "daemon/rdma/send_regions.h"

namespace mlxcomm::rdma {

class MessageStream final : public rail::ByteStream {
 public:
  static constexpr std::uint64_t kLostNs = 100'000'000;
  static constexpr std::uint64_t kKeepAliveNs = 500'000'000;
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};
  // Payload of fewer messages is copied.
  static constexpr std::uint32_t kRawMessagesMin = 4;
  // This many times the receives, in raw messages only, cannot be the result of losses.
  static constexpr std::uint32_t kRawFactorMax = 8;
  static constexpr std::uint32_t kReserveMax = 5;

  struct Shape {
    std::byte* memory = nullptr;  // The slots: receives first, then sends.
    std::uint32_t slot_bytes = 0;
    std::uint32_t messages = 0;  // In each direction. All receives are posted at the start.
    std::uint32_t peer_receives = 0;
    std::uint64_t connection = 0;
    SendRegions* regions = nullptr;  // Null if everything is copied. Outlives the stream.
    bool loses_nothing = false;      // A gap means that a device corrupted a message.
  };
  struct Outgoing {
    std::uint32_t slot = 0;
    std::uint32_t bytes = 0;
    const std::byte* from = nullptr;  // Raw: in the region of `known`. Null if it is in the slot.
    SendRegions::Known* known = nullptr;
  };
  MessageStream(const Shape& shape, std::uint64_t now_ns);
  static std::uint32_t SumOf(MessageHeader header);

  // ByteStream, without a socket. A part begins with a header wherever a frame begins.
  ssize_t Write(int socket, iovec* parts, int count) override;
  ssize_t Read(int socket, iovec* parts, int count) override;
  bool HasUnread() const override { return !arrived_.empty() || (gap_ && !gap_reported_); }
  bool TakeGap() override;
  bool is_encrypted() const override { return false; }
  std::uint64_t released() const override { return raw_.empty() ? kNever : raw_.front().at; }

  void OnNow(std::uint64_t now_ns) { now_ns_ = now_ns; }
  // A slot to post. A send carries the current credit.
  bool NextReceive(std::uint32_t& slot);
  void OnReceivePosted() { ++posted_; }
  bool NextSend(Outgoing& message);
  void OnSent(std::uint32_t slot);
  // Returns false if the message cannot be from the other side of this connection.
  [[nodiscard]] bool OnReceived(std::uint32_t slot, std::uint32_t bytes);
  // Sends an empty message if one is due.
  void OnTime();
  // When an empty message is due if nothing happens; it never moves earlier.
  std::uint64_t deadline_ns() const {
    if (!HasCredit(0)) return kNever;
    return last_sent_ns_ + (wants_credit_ ? kLostNs << unanswered_ : kKeepAliveNs);
  }

  // True if everything that was written has been sent.
  bool is_drained() const { return free_.size() == shape_.messages; }
  std::uint64_t lost_messages() const { return lost_messages_; }
  // Payload bytes of frames; any thread.
  std::uint64_t copied_bytes() const { return copied_bytes_.load(std::memory_order_relaxed); }
  std::uint64_t direct_bytes() const { return direct_bytes_.load(std::memory_order_relaxed); }
  // Wipes the headers of all posted messages, so that the other side accepts none of them.
  void Void();

 private:
  static constexpr std::uint32_t kNone = 0xffffffff;
  struct Arrived {
    std::uint32_t slot = 0;
    std::uint32_t at = 0;  // The next byte to read in the slot.
    std::uint32_t end = 0;
    std::uint32_t first_frame = 0;  // Offset in the slot.
    bool gap = false;               // Messages before it were lost.
  };
  struct Closed {
    std::uint32_t slot = 0;
    std::uint32_t bytes = 0;
    std::uint32_t first_frame = 0;
    std::uint32_t raw = 0;            // Raw messages that follow.
    const std::byte* from = nullptr;  // Set for raw messages.
    SendRegions::Known* known = nullptr;
  };
  // A raw message that is not completed, or follows one that is not.
  struct Reading {
    std::uint32_t slot = 0;
    std::uint64_t at = 0;                 // Offset in all bytes written.
    SendRegions::Known* known = nullptr;  // Null: completed.
  };

  std::byte* SlotAt(std::uint32_t slot) const {
    return shape_.memory + std::size_t{slot} * shape_.slot_bytes;
  }
  std::uint32_t body_bytes() const {
    return shape_.slot_bytes - static_cast<std::uint32_t>(sizeof(MessageHeader));
  }
  // Receives that frames leave free.
  std::uint32_t reserve() const { return std::min(kReserveMax, shape_.peer_receives / 2); }
  bool HasCredit(std::uint32_t left) const { return next_number_ + left <= limit_; }
  // With its header this is half of the window: credit returns for one half while the other is
  // sent.
  std::uint32_t RawMax() const { return std::min(shape_.peer_receives, shape_.messages) / 2 - 1; }
  bool OpenSlot();
  void CloseSlot(std::uint32_t raw = 0);
  std::size_t TakeSome(const std::byte* from, std::size_t bytes);
  std::size_t TakeRaw(const std::byte* from, std::uint64_t messages, SendRegions::Known& known);
  std::uint32_t TakePart(const std::byte* from, std::size_t bytes);
  std::uint32_t TakeFreeSlot();
  bool TakeCredit(std::uint64_t seen, std::uint32_t posted);
  bool IsSound(const MessageHeader& header) const;
  bool OnRaw(std::uint32_t slot, std::uint32_t bytes);
  bool ConfirmRaw(std::uint64_t missing);
  void PopArrived();

  const Shape shape_;
  std::uint64_t now_ns_;
  // Outgoing.
  std::vector<std::uint32_t> free_;  // Slots.
  std::uint32_t open_ = kNone;
  std::uint32_t open_bytes_ = 0;
  std::uint32_t open_first_frame_ = 0;
  std::uint64_t frame_left_ = 0;  // Unwritten bytes of the current frame.
  bool frame_may_be_raw_ = false;
  bool is_unconfirmed_ = false;     // The last closed message is raw.
  std::uint64_t written_ = 0;       // Bytes in total.
  rail::GrowingRing<Reading> raw_;  // Kept in order.
  std::atomic<std::uint64_t> copied_bytes_{0};
  std::atomic<std::uint64_t> direct_bytes_{0};
  rail::GrowingRing<Closed> closed_;  // Still to be posted.
  std::uint64_t next_number_ = 1;     // The number of the next message to close.
  std::uint64_t next_posted_ = 1;     // The number of the first closed message.
  std::uint64_t limit_;
  std::uint64_t last_sent_ns_;
  bool wants_credit_ = false;
  std::uint32_t unanswered_ = 0;  // Empty messages since the last credit; at most kReserveMax.
  // Incoming.
  rail::GrowingRing<Arrived> arrived_;
  rail::GrowingRing<std::uint32_t> read_;  // Slots to be posted.
  std::uint64_t seen_ = 0;                 // The last number in a header.
  rail::GrowingRing<std::uint32_t> held_;  // Slots of announced raw messages.
  std::uint32_t raw_announced_ = 0;
  std::uint32_t raw_received_ = 0;
  bool raw_invalid_ = false;  // They differ from the announcement.
  std::uint32_t posted_;
  std::uint64_t reported_;  // The last number that the other side knows it may send.
  bool report_now_ = false;
  bool gap_ = false;           // Messages before the next one were lost.
  bool gap_reported_ = false;  // TakeGap returned it, and nothing has arrived since.
  std::uint64_t lost_messages_ = 0;
};

}  // namespace mlxcomm::rdma
