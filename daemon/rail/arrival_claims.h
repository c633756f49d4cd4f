// Which rail places the payload of a numbered frame, when it arrives on several: every rail claims the
// number of a data frame before it places a byte of it, and one rail gets it.
//
//   claimable ──Take──▶ claimed ──(node: everything up to it has arrived)──▶ received
//       ▲                  │
//       └────GiveBack──────┘  the rail went down in mid-payload
//
// See README.md, ArrivalClaims, for the slots and for copies that were dropped.
//
// Owner: Link. Thread: Take and GiveBack on rail threads, the rest on the loop's. Memory: fixed; none
// between GiveBackMemory and Reset.
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
    kTaken,  // By another rail, or it has come and the loop has not seen it yet.
    kReceived,
    kBeyond,  // The peer may not send it before more has been acknowledged.
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
      // Acquire: what a rail has placed in part and given back is overwritten by us.
      if (slot.compare_exchange_weak(value, wanted, std::memory_order_acq_rel,
                                     std::memory_order_acquire)) {
        return claimed ? Claim::kTaken : Claim::kOurs;
      }
    }
  }

  // By whom it was kOurs, and only if its payload has not come. True: another copy was
  // dropped meanwhile, so the frame has to be asked for.
  [[nodiscard]] bool GiveBack(std::uint64_t sequence) {
    std::atomic<std::uint64_t>& slot = SlotOf(sequence);
    std::uint64_t value = slot.load(std::memory_order_acquire);
    while ((value & ~(kClaimed | kDroppedCopy)) == sequence) {
      if (slot.compare_exchange_weak(value, sequence, std::memory_order_acq_rel,
                                     std::memory_order_acquire)) {
        return (value & kDroppedCopy) != 0;
      }
    }
    return false;  // It came in another frame of that number.
  }

  // The loop's thread: this one and all before it have been received. In order, none left out.
  void OnReceived(std::uint64_t sequence) {
    SlotOf(sequence).store(sequence + wire::kWindow, std::memory_order_release);
  }

  // The loop's thread, without rails: numbers begin at 1 again.
  void Reset() {
    if (slots_ == nullptr) slots_ = std::make_unique<Slots>();
    for (std::uint64_t s = 1; s <= wire::kWindow; ++s) {
      SlotOf(s).store(s, std::memory_order_release);
    }
  }
  // The loop's thread, without rails; Reset comes before the next one.
  void GiveBackMemory() { slots_.reset(); }

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
