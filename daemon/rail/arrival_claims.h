// Decides which rail places the payload of a frame that arrives on several: every rail claims a
// data frame's number before it places a byte of it, and only one gets it.
//
//   claimable ──Take──▶ claimed ──all frames up to it have arrived──▶ received
//       ▲                  │
//       └────GiveBack──────┘  the rail went down within the payload
//
// README.md, ArrivalClaims, explains the slots and dropped copies.
//
// Owner: Link. Thread: Take and GiveBack on rail threads, the rest on the loop's.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "proto/wire/frame.h"

namespace mlxcomm::rail {

class ArrivalClaims {
 public:
  enum class Claim : std::uint8_t {
    kOurs,
    kTaken,  // Another rail has it; or it has arrived but the loop has not seen it yet.
    kReceived,
    kBeyond,  // Beyond the window.
  };

  ArrivalClaims() { Reset(); }

  Claim Take(std::uint64_t sequence) {
    std::atomic<std::uint64_t>& slot = SlotOf(sequence);
    std::uint64_t value = slot.load(std::memory_order_acquire);
    for (;;) {
      const std::uint64_t current = value & ~(kClaimed | kDroppedCopy);
      if (current > sequence) return Claim::kReceived;
      if (current < sequence) return Claim::kBeyond;
      const bool claimed = (value & kClaimed) != 0;
      if (claimed && (value & kDroppedCopy) != 0) return Claim::kTaken;
      const std::uint64_t wanted = claimed ? value | kDroppedCopy : value | kClaimed;
      // Acquire: overwrites what another rail has placed and given back.
      if (slot.compare_exchange_weak(value, wanted, std::memory_order_acq_rel,
                                     std::memory_order_acquire)) {
        return claimed ? Claim::kTaken : Claim::kOurs;
      }
    }
  }

  // Gives up a claim. Returns whether a copy has been dropped since, so that the frame must be
  // requested.
  [[nodiscard]] bool GiveBack(std::uint64_t sequence) {
    std::atomic<std::uint64_t>& slot = SlotOf(sequence);
    std::uint64_t value = slot.load(std::memory_order_acquire);
    while ((value & ~(kClaimed | kDroppedCopy)) == sequence) {
      if (slot.compare_exchange_weak(value, sequence, std::memory_order_acq_rel,
                                     std::memory_order_acquire)) {
        return (value & kDroppedCopy) != 0;
      }
    }
    return false;  // Another frame with that number has arrived.
  }

  // This frame and all before it have arrived. Called once per number, in order.
  void OnReceived(std::uint64_t sequence) {
    SlotOf(sequence).store(sequence + wire::kWindow, std::memory_order_release);
  }

  // Call it without rails: numbers start at 1 again.
  void Reset() {
    if (slots_ == nullptr) slots_ = std::make_unique<Slots>();
    for (std::uint64_t s = 1; s <= wire::kWindow; ++s) {
      SlotOf(s).store(s, std::memory_order_release);
    }
  }
  // Call Reset before the next Take.
  void FreeMemory() { slots_.reset(); }

 private:
  using Slots = std::array<std::atomic<std::uint64_t>, wire::kWindow>;
  static constexpr std::uint64_t kClaimed = std::uint64_t{1} << 63;
  static constexpr std::uint64_t kDroppedCopy = std::uint64_t{1} << 62;
  static_assert(wire::kSequenceMax < kDroppedCopy);

  std::atomic<std::uint64_t>& SlotOf(std::uint64_t sequence) {
    return (*slots_)[sequence % wire::kWindow];
  }
  std::unique_ptr<Slots> slots_;
};

}  // namespace mlxcomm::rail
