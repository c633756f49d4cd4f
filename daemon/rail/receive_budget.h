// Counts how many bytes of a posted receive may still be placed. All rails claim bytes before they
// place them, so once a receive is complete, nothing can be placed any more, and its memory is
// free.
//
// A budget is reused at once. A share of an earlier turn gets nothing, so there is no need to wait
// for any rail.
//
//   word:  turn (24 bits) | bytes left (40 bits)
//
// Owner: Link, in a pool that only grows. Thread: Open and Close on the loop's, shares on any.
// Memory: one word.
#pragma once

#include <atomic>
#include <cstdint>

namespace mlxcomm::rail {

class ReceiveBudget {
 public:
  static constexpr std::uint64_t kBytesMax = (std::uint64_t{1} << 40) - 1;
  enum class Claim : std::uint8_t { kOurs, kTooMuch, kOver };

  class Share {
   public:
    Share() = default;
    Share(ReceiveBudget* budget, std::uint32_t turn) : budget_(budget), turn_(turn) {}

    Claim Take(std::uint64_t bytes) {
      std::uint64_t word = budget_->word_.load(std::memory_order_relaxed);
      for (;;) {
        if (TurnOf(word) != turn_) return Claim::kOver;
        if (bytes > (word & kBytesMax)) return Claim::kTooMuch;
        if (budget_->word_.compare_exchange_weak(word, word - bytes, std::memory_order_acq_rel,
                                                 std::memory_order_relaxed)) {
          return Claim::kOurs;
        }
      }
    }
    // Returns claimed bytes that were not placed.
    void GiveBack(std::uint64_t bytes) {
      std::uint64_t word = budget_->word_.load(std::memory_order_relaxed);
      while (TurnOf(word) == turn_ &&
             !budget_->word_.compare_exchange_weak(word, word + bytes, std::memory_order_acq_rel,
                                                   std::memory_order_relaxed)) {
      }
    }

   private:
    ReceiveBudget* budget_ = nullptr;
    std::uint32_t turn_ = 0;
  };

  Share Open(std::uint64_t bytes) {
    turn_ = (turn_ + 1) & kTurnMask;
    word_.store(std::uint64_t{turn_} << kBytesBits | bytes, std::memory_order_release);
    return {this, turn_};
  }
  void Close() {
    turn_ = (turn_ + 1) & kTurnMask;
    word_.store(std::uint64_t{turn_} << kBytesBits, std::memory_order_release);
  }

 private:
  static constexpr unsigned kBytesBits = 40;
  static constexpr std::uint32_t kTurnMask = (std::uint32_t{1} << 24) - 1;
  static std::uint32_t TurnOf(std::uint64_t word) {
    return static_cast<std::uint32_t>(word >> kBytesBits);
  }
  std::uint32_t turn_ = 0;  // The loop's copy.
  std::atomic<std::uint64_t> word_{0};
};

}  // namespace mlxcomm::rail
