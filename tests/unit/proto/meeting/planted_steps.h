// The explorer's steps with a planted mistake in one side's accesses, which the explorer must find.
//
// Owner: the test. Thread: one. Memory: the world's.
#pragma once

#include <atomic>
#include <cstdint>

#include "tests/unit/proto/meeting/meeting_world.h"

namespace mlxcomm::meeting::explorer {

enum class Mistake : std::uint8_t {
  kNone,
  // A rank:
  kAnnouncesBeforeItCalls,
  kReusesASlotAtOnce,
  kLeavesTheOffer,
  kCallsInTheNextOpening,
  kSleepsUnseen,
  kForgetsSleepersBeforeItWakes,
  // The daemon:
  kSettlesBeforeAllAreClosed,
  kAdoptsAfterItWoke,
  kAnnouncesForNobody,
  kDoesNotLookAgainAtDone,
  kDoesNotTurnTheWord,
  kAdoptsWithoutSaying,
};

struct PlantedSteps {
  static void Plant(Mistake mistake) { mistake_ = mistake; }

  template <typename Word>
  static Word Load(const std::atomic<Word>& word) {
    const Word value = ExploredSteps::Load(word);
    if (Is(Mistake::kReusesASlotAtOnce, word, Field::kDone) && !IsDaemon()) return value + 64;
    return value;
  }
  template <typename Word>
  static Word LoadAfterCopies(const std::atomic<Word>& word) {
    const Word value = ExploredSteps::LoadAfterCopies(word);
    return Is(Mistake::kDoesNotLookAgainAtDone, word, Field::kDone) ? 0 : value;
  }
  template <typename Word>
  static Word LoadInOrder(const std::atomic<Word>& word) {
    if (IsDaemon() && deferred_close_) {
      auto& turn = *std::exchange(deferred_close_, nullptr);
      std::uint64_t seen = ExploredSteps::Load(turn);
      while (!ExploredSteps::CompareExchange(turn, seen, Closed(seen))) {
      }
    }
    const Word value = ExploredSteps::LoadInOrder(word);
    const Place place = Of(word);
    const bool is_last = place.rank + 1 == page().ranks() && place.slot + 1 == kGenerations;
    if (IsDaemon() && is_last && deferred_adoption_) {
      auto& adopted = *std::exchange(deferred_adoption_, nullptr);
      ExploredSteps::Exchange(adopted, deferred_number_);
    }
    return value;
  }
  template <typename Word>
  static void Store(std::atomic<Word>& word, Word value) {
    if (Is(Mistake::kLeavesTheOffer, word, Field::kOffered) && value == 0) return;
    ExploredSteps::Store(word, value);
    if (Is(Mistake::kAnnouncesBeforeItCalls, word, Field::kOffered) && value != 0) {
      const Place place = Of(word);
      ExploredSteps::Exchange(page().area(place.rank).slots[place.slot].announced,
                              AnnouncedWord(std::uint64_t{value} - 1));
    }
  }
  template <typename Word>
  static Word Exchange(std::atomic<Word>& word, Word value) {
    if (Is(Mistake::kSleepsUnseen, word, Field::kSleepers) && value == 1) return 0;
    if (Is(Mistake::kAnnouncesForNobody, word, Field::kAnnounced) && IsDaemon()) return 0;
    if (Is(Mistake::kAdoptsWithoutSaying, word, Field::kAdopted)) return 0;
    if constexpr (sizeof(Word) == 8) {
      if (Is(Mistake::kAdoptsAfterItWoke, word, Field::kAdopted) && !deferred_adoption_) {
        deferred_adoption_ = &word;
        deferred_number_ = value;
        return 0;
      }
    }
    return ExploredSteps::Exchange(word, value);
  }
  template <typename Word>
  static bool CompareExchange(std::atomic<Word>& word, Word& expected, Word value) {
    const Place place = Of(word);
    if (place.field == Field::kTurn && mistake_ == Mistake::kCallsInTheNextOpening && !IsDaemon()) {
      // It does not distinguish words that differ only in their opening.
      const Turn seen = Turn::Of(expected);
      const Turn now = Turn::Of(word.load());
      if (seen.called == now.called && seen.mode == now.mode) expected = now.word();
    }
    if (place.field == Field::kTurn && mistake_ == Mistake::kSettlesBeforeAllAreClosed &&
        IsDaemon() && place.rank + 1 == page().ranks() &&
        Turn::Of(value).mode == TurnMode::kClosed) {
      deferred_close_ = &word;
      return true;
    }
    if (place.field == Field::kAnnounced && mistake_ == Mistake::kDoesNotTurnTheWord) return true;
    return ExploredSteps::CompareExchange(word, expected, value);
  }
  static void Copy(void* to, const void* from, std::size_t bytes) {
    ExploredSteps::Copy(to, from, bytes);
  }
  static void Park(std::atomic<std::uint64_t>& word, std::uint64_t seen, std::uint64_t timeout_ns) {
    ExploredSteps::Park(word, seen, timeout_ns);
  }
  static void Wake(std::atomic<std::uint64_t>& word) {
    if (mistake_ == Mistake::kForgetsSleepersBeforeItWakes && !IsDaemon()) {
      const Place place = Of(word);
      ExploredSteps::Exchange(page().area(place.rank).offers[place.slot].sleepers,
                              std::uint32_t{0});
    }
    ExploredSteps::Wake(word);
  }

 private:
  static const PageView& page() { return MeetingWorld<PlantedSteps>::page(); }
  static Place Of(const void* word) { return PlaceOf(page(), word); }
  template <typename Word>
  static Place Of(const std::atomic<Word>& word) {
    return PlaceOf(page(), &word);
  }
  template <typename Word>
  static bool Is(Mistake it, const std::atomic<Word>& word, Field field) {
    return mistake_ == it && Of(word).field == field;
  }
  static bool IsDaemon() {
    const Explorer* const it = Explorer::Current();
    return it != nullptr && it->running() == static_cast<int>(page().ranks());
  }
  static std::uint64_t Closed(std::uint64_t word) {
    const Turn turn = Turn::Of(word);
    return Turn{turn.called, TurnMode::kClosed, turn.opening}.word();
  }

  static inline Mistake mistake_ = Mistake::kNone;
  // The running Close's: there is one daemon, and only the end of a schedule interrupts it.
  static inline std::atomic<std::uint64_t>* deferred_close_ = nullptr;
  static inline std::atomic<std::uint64_t>* deferred_adoption_ = nullptr;
  static inline std::uint64_t deferred_number_ = 0;
};

}  // namespace mlxcomm::meeting::explorer
