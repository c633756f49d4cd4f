// The receiving half between two nodes: detects duplicates, restores the order, and knows what to
// acknowledge.
//
// Data has already been placed and is delivered at once. All other frames are delivered in sequence
// order; early ones are kept. An honest peer never has more than wire::kEarlyBytesMax of them under
// way.
//
//   OnArrived ──next──▶ deliver, then NextDue until it returns nullptr
//             ──early─▶ Keep
//
// Memory: at most kEarlyBytesMax and a window of frames, as far as EarlyBudget has room.
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

// Limits the early frames of all links. One link may keep wire::kEarlyBytesMax, but many that do
// are probably an attack. Each has its own share, so that others cannot take it.
class EarlyBudget {
 public:
  static constexpr std::uint64_t kOwnBytes = 2 * 1024 * 1024;
  static constexpr std::uint64_t kSharedBytesMax = 128 * 1024 * 1024;

  // Returns false, taking nothing, if a link that already holds `held` bytes may not have `bytes`
  // more.
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

  explicit ArrivalOrder(rail::ArrivalClaims& claims, EarlyBudget* budget = nullptr)
      : claims_(claims), budget_(budget) {}
  ~ArrivalOrder() { Release(held_bytes_); }
  ArrivalOrder(const ArrivalOrder&) = delete;
  ArrivalOrder& operator=(const ArrivalOrder&) = delete;

  Arrival OnArrived(std::uint64_t sequence);
  // `control` may own the payload, otherwise it is copied. kBeyondWindow: the peer sends more than
  // it may. kNoRoom: the links' common budget is used up; nothing was kept.
  enum class Keeping : std::uint8_t { kKept, kBeyondWindow, kNoRoom };
  [[nodiscard]] Keeping Keep(const wire::FrameHeader& header, std::span<const std::byte> payload,
                             std::unique_ptr<std::vector<std::byte>> control);
  // After kNext: returns the next kept frame that is due, or nullptr. Valid until the next call or
  // Reset.
  const wire::FrameHeader* NextDue(std::span<const std::byte>& payload);

  std::uint64_t received() const { return received_; }
  bool HasArrived(std::uint64_t sequence) const;
  bool has_gaps() const { return beyond_ > 0; }
  // Returns false if no frame of this block has arrived.
  bool Describe(std::uint32_t block, wire::Arrived& arrived) const;
  std::uint64_t kept_bytes() const { return kept_bytes_; }
  // Starts again at sequence 1 and frees all memory; there must be no rails.
  void Reset();

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
  std::uint64_t reported_ = 0;                               // All up to here were delivered.
  std::uint64_t beyond_ = 0;                                 // Arrived frames beyond received_.
  std::array<std::uint64_t, wire::kWindow / 64> bits_ = {};  // These frames, by number % kWindow.
  std::uint64_t kept_bytes_ = 0;
  std::uint64_t held_bytes_ = 0;  // All slots, and messages without one.
  std::vector<Kept> kept_;        // Indexed by number % kWindow; empty until needed.
  Kept* due_ = nullptr;           // Returned last.
  std::vector<std::unique_ptr<std::byte[]>> slots_;
  std::vector<std::int32_t> free_slots_;
};

}  // namespace mlxcomm::link
