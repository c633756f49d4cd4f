// The receiving half of what joins two nodes: tells new frames from copies, puts into order
// what several rails deliver out of it, and knows what to acknowledge.
//
// Data has been placed when it comes here and may go up at once. Everything else goes up in
// the order of the numbers; what comes too early is kept. An honest peer never lets more
// than wire::kEarlyBytesMax of it be under way.
//
//   OnArrived ──next──▶ up, then NextDue until nothing is due
//             ──early─▶ Keep
//
// Sans-I/O, no time. Owner: Link. Thread: the loop's. Memory: at most that and a window of
// frames, as far as the budget of all links has room, in slots that are reused up to this one's own share;
// none before the first frame comes early.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "daemon/rail/arrival_claims.h"
#include "proto/wire/frame.h"

namespace mlxcomm::link {

// How much all links together keep of what has come too early. One link may keep
// wire::kEarlyBytesMax, for so much may an honest peer have under way while a frame before it is
// missing; but many that do so at once are more likely inventions. Each link has a share of its
// own, so that others' cannot take all.
class EarlyBudget {
 public:
  static constexpr std::uint64_t kOwnBytes = 2 * 1024 * 1024;
  static constexpr std::uint64_t kSharedBytesMax = 128 * 1024 * 1024;

  // For a link that has `held` bytes. False: there is no room, and nothing was taken.
  bool Take(std::uint64_t held, std::uint64_t bytes) {
    const std::uint64_t more = Beyond(held + bytes) - Beyond(held);
    if (shared_ + more > kSharedBytesMax) return false;
    shared_ += more;
    return true;
  }
  void GiveBack(std::uint64_t held, std::uint64_t bytes) {
    shared_ -= Beyond(held) - Beyond(held - bytes);
  }
  std::uint64_t shared_bytes() const { return shared_; }

 private:
  static std::uint64_t Beyond(std::uint64_t held) { return held - std::min(held, kOwnBytes); }

  std::uint64_t shared_ = 0;
};

class ArrivalOrder {
 public:
  enum class Arrival : std::uint8_t { kNext, kEarly, kDuplicate, kViolation };
  struct Kept {
    wire::FrameHeader header;
    std::int32_t slot = -1;
    std::unique_ptr<std::vector<std::byte>> control;
    bool used = false;
  };

  // `budget` may be null, for a link that is alone.
  explicit ArrivalOrder(rail::ArrivalClaims& claims, EarlyBudget* budget = nullptr)
      : claims_(claims), budget_(budget) {}
  ~ArrivalOrder() { Release(held_bytes_); }
  ArrivalOrder(const ArrivalOrder&) = delete;
  ArrivalOrder& operator=(const ArrivalOrder&) = delete;

  Arrival OnArrived(std::uint64_t sequence);
  // For kEarly. `control` may own the payload, else it is copied. kBeyondWindow: the peer sends
  // more than it may. kNoRoom: all peers together do; nothing was kept.
  enum class Keeping : std::uint8_t { kKept, kBeyondWindow, kNoRoom };
  [[nodiscard]] Keeping Keep(const wire::FrameHeader& header, std::span<const std::byte> payload,
                             std::unique_ptr<std::vector<std::byte>> control);
  // After kNext, until there is none: a kept frame whose turn it is. Valid until the next
  // call. nullptr: none.
  const wire::FrameHeader* NextDue(std::span<const std::byte>& payload);

  // All up to here have come.
  std::uint64_t received() const { return received_; }
  bool HasCome(std::uint64_t sequence) const;
  // Some beyond received() have come.
  bool has_gaps() const { return beyond_ > 0; }
  // False: none of this block has.
  bool Describe(std::uint32_t block, wire::Arrived& arrived) const;
  std::uint64_t kept_bytes() const { return kept_bytes_; }
  void Reset();  // Begins again at sequence 1; no rail may be there.
  // After Reset: all that it has grown to.
  void GiveBackMemory() {
    kept_ = std::vector<Kept>();
    slots_ = std::vector<std::unique_ptr<std::byte[]>>();
    free_slots_ = std::vector<std::int32_t>();
    Release(held_bytes_);
  }

 private:
  bool BitOf(std::uint64_t sequence) const {
    return (bits_[sequence % wire::kWindow / 64] >> (sequence % 64) & 1) != 0;
  }
  void FlipBit(std::uint64_t sequence) {
    bits_[sequence % wire::kWindow / 64] ^= std::uint64_t{1} << (sequence % 64);
  }
  void Free(Kept& kept);
  bool Hold(std::uint64_t bytes);
  void Release(std::uint64_t bytes);
  bool TakeSlot(Kept& kept, std::size_t bytes);

  rail::ArrivalClaims& claims_;
  EarlyBudget* const budget_;
  std::uint64_t received_ = 0;
  std::uint64_t reported_ = 0;                               // Up to here all have gone up.
  std::uint64_t beyond_ = 0;                                 // How many have come beyond received_.
  std::array<std::uint64_t, wire::kWindow / 64> bits_ = {};  // Of those, by number % kWindow.
  std::uint64_t kept_bytes_ = 0;
  std::uint64_t held_bytes_ = 0;  // Of slots, used or not, and of messages without one.
  std::vector<Kept> kept_;        // By number % kWindow; empty until needed.
  Kept* due_ = nullptr;           // Handed out last.
  std::vector<std::unique_ptr<std::byte[]>> slots_;
  std::vector<std::int32_t> free_slots_;
};

}  // namespace mlxcomm::link
