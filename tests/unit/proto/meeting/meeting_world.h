// A group of ranks and their daemon as parties of the explorer, with the shipped code, and the
// invariants of every schedule:
//
// - Either no rank submits an operation to the daemon, or no rank ends it as met.
// - The daemon gets each rank's operation at most once, whole, and never one that the rank met.
// - A rank that meets reads each rank's contribution to this operation.
// - No party waits forever, and no rank sleeps after the event it waits for.
//
// The daemon's operations are modelled: one is done once all ranks have submitted it, and fails
// once the daemon has seen a rank's death.
//
// Owner: the test. Thread: one. Memory: the page and the parties' state.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "proto/meeting/page.h"
#include "proto/meeting/rank_side.h"
#include "proto/meeting/supervisor_side.h"
#include "tests/unit/proto/meeting/explorer.h"
#include "tests/unit/proto/meeting/page_place.h"

namespace mlxcomm::meeting::explorer {

struct Operation {
  std::uint64_t what = 1;
  std::uint64_t bytes = 8;  // A multiple of 8.
  bool may_meet = true;
  // The daemon refuses it once; then the rank calls another operation instead, which may meet.
  bool refused_once = false;
};

struct RankScript {
  std::vector<Operation> calls;
  std::size_t ahead = 1;                // The most calls in flight; then it waits for the oldest.
  bool sleeps = false;                  // It sleeps while it waits.
  std::optional<std::uint64_t> last{};  // It waits for this operation after all others.
};

enum class Act : std::uint8_t { kReopen, kClose };

struct Scenario {
  std::vector<RankScript> ranks;
  std::vector<Act> daemon;  // At any time; it also closes on request, or when a rank has died.
  // The page is open before the first call. Otherwise the opening is explored, too.
  bool opened = true;
  std::size_t explored_from = 0;  // The number of the first call whose orders are explored.
};

inline constexpr std::size_t kCalls = 32;  // The most calls of a rank.

template <typename Steps>
class MeetingWorld : public World {
 public:
  explicit MeetingWorld(Scenario scenario)
      : scenario_(std::move(scenario)),
        ranks_(static_cast<std::uint32_t>(scenario_.ranks.size())),
        memory_(static_cast<std::byte*>(::operator new(PageBytes(ranks_), kAlignment))),
        page_(memory_.get(), ranks_),
        explorer_(*this, static_cast<int>(ranks_) + 1, memory_.get(), PageBytes(ranks_)) {
    std::memset(memory_.get(), 0, PageBytes(ranks_));
    page_in_use_ = page_;
  }

  Explorer& explorer() { return explorer_; }
  // For steps with planted mistakes.
  static const PageView& page() { return page_in_use_; }

  // How many operations ended each way, in all schedules: a scenario should have some of each.
  std::uint64_t met() const { return met_in_all_; }
  std::uint64_t submitted() const { return submitted_in_all_; }

  void Reset() override {
    std::memset(memory_.get(), 0, kAreasOffset + ranks_ * sizeof(RankArea));
    for (std::size_t cell = 0; cell < std::size_t{ranks_} * kGenerations; ++cell) {
      std::memset(memory_.get() + CellsOffset(ranks_) + cell * kCellBytes, 0, kBytesMost);
    }
    supervisor_.emplace(page_, 1);
    state_ = {};
    for (auto& side : sides_) side.reset();
  }

  void Run(int party) override {
    if (party == static_cast<int>(ranks_)) return RunDaemon();
    RunRank(static_cast<std::uint32_t>(party));
  }

  bool MayDie(int party) const override { return party < static_cast<int>(ranks_); }
  void Died(int) override { state_.a_rank_died = true; }

  bool Unblock() override {
    bool all_out = true;
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
      all_out &= explorer_.IsOut(static_cast<int>(rank));
      const void* const parked_on = explorer_.ParkedOn(static_cast<int>(rank));
      if (parked_on == nullptr) continue;
      const std::uint64_t number = state_.ranks[rank].looks_at;
      const auto& word = *static_cast<const std::atomic<std::uint64_t>*>(parked_on);
      if (Announces(word.load(), number) || IsAdopted(rank, number)) {
        explorer_.Violated(Named(rank, number) + " sleeps on what has happened");
      }
    }
    if (all_out) return false;
    if (!supervisor_->open() || state_.asked) {
      explorer_.Violated("ranks wait for ever");
      return false;
    }
    // A rank that has waited for a long time asks the daemon.
    state_.asked = true;
    return true;
  }

  void AtEnd() override {
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
      if (explorer_.IsDead(static_cast<int>(rank))) continue;
      for (std::size_t number = 0; number < state_.ranks[rank].called; ++number) {
        if (state_.ways[rank][number] == Ended::kNot) {
          explorer_.Violated(Named(rank, number) + " has not ended");
        }
      }
    }
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
      for (const Ended way : state_.ways[rank]) {
        met_in_all_ += way == Ended::kMet;
        submitted_in_all_ += way == Ended::kSubmitted;
      }
    }
  }

  std::uint64_t StateHash() const override {
    std::uint64_t hash = Mix(state_.acts, (state_.asked ? 1 : 0) | (state_.a_rank_died ? 2 : 0) |
                                              (state_.death_is_known ? 4 : 0));
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
      for (const Ended way : state_.ways[rank]) hash = hash * 3 + static_cast<std::uint64_t>(way);
      hash = Mix(hash, state_.ranks[rank].called);
    }
    for (const bool fails : state_.fails) hash = Mix(hash, fails);
    return hash;
  }

  std::string NameOf(const void* word) const override {
    return explorer::NameOf(PlaceOf(page_, word));
  }

 private:
  static constexpr std::align_val_t kAlignment{4096};
  static constexpr std::size_t kBytesMost = 256;
  struct Free {
    void operator()(std::byte* memory) const { ::operator delete(memory, kAlignment); }
  };
  enum class Ended : std::uint8_t { kNot, kMet, kSubmitted };
  struct RankState {
    std::uint64_t called = 0;
    std::uint64_t looks_at = 0;
    bool arrived = false;
  };
  struct State {
    std::array<std::array<Ended, kCalls>, 4> ways{};
    std::array<RankState, 4> ranks{};
    std::array<bool, kCalls> fails{};
    std::uint64_t acts = 0;  // The daemon's acts so far.
    bool asked = false;
    bool a_rank_died = false;
    bool death_is_known = false;
  };
  struct UnderWay {
    Way way;
    std::uint64_t number;
  };

  static std::string Named(std::uint32_t rank, std::uint64_t number) {
    return "rank " + std::to_string(rank) + ", operation " + std::to_string(number) + ":";
  }
  const Operation& CallOf(std::uint32_t rank, std::uint64_t number) const {
    return scenario_.ranks[rank].calls[number];
  }
  static CallWords WordsOf(const Operation& operation) { return {operation.what, operation.bytes}; }
  static std::byte Brought(std::uint32_t rank, std::uint64_t number, std::size_t at) {
    return static_cast<std::byte>(1 + rank * 64 + number * 7 + at);
  }
  bool IsAdopted(std::uint32_t rank, std::uint64_t number) const {
    return page_.offer(rank, number).adopted_plus_one.load() == number + 1;
  }

  // --- results -------------------------------------------------------------------------

  void Meets(std::uint32_t rank, std::uint64_t number) {
    for (std::uint32_t other = 0; other < ranks_; ++other) {
      if (state_.ways[other][number] == Ended::kSubmitted) {
        explorer_.Violated(Named(rank, number) + " met, but the daemon has rank " +
                           std::to_string(other) + "'s");
      }
    }
    state_.ways[rank][number] = Ended::kMet;
  }

  void Submit(std::uint32_t rank, std::uint64_t number) {
    if (number >= kCalls || state_.ways[rank][number] == Ended::kSubmitted) {
      explorer_.Violated(Named(rank, number) + " submitted twice");
      return;
    }
    for (std::uint32_t other = 0; other < ranks_; ++other) {
      if (state_.ways[other][number] == Ended::kMet) {
        explorer_.Violated(Named(rank, number) + " submitted, but rank " + std::to_string(other) +
                           " met it");
        return;
      }
    }
    state_.ways[rank][number] = Ended::kSubmitted;
  }

  bool AllSubmitted(std::uint64_t number) const {
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
      if (state_.ways[rank][number] != Ended::kSubmitted) return false;
    }
    return true;
  }

  // --- the ranks -----------------------------------------------------------------------------

  void RunRank(std::uint32_t rank) {
    const RankScript& script = scenario_.ranks[rank];
    std::array<UnderWay, kCalls> under_way{};
    std::size_t first = 0;
    std::size_t last = 0;
    auto& side = sides_[rank].emplace(page_, rank, 0);
    if (scenario_.opened) {
      explorer_.WaitUntil([this] { return state_.acts > 0; });
    }
    std::optional<UnderWay> the_last;
    bool failed = false;
    for (std::uint64_t number = 0; number < script.calls.size() && !failed; ++number) {
      if (number == scenario_.explored_from) Arrive(rank);
      const UnderWay called = Call(side, rank, number);
      if (number == script.last) {
        the_last = called;
        continue;
      }
      under_way[last++] = called;
      if (last - first < script.ahead) continue;
      failed = !Finish(side, under_way[first++]);
    }
    while (first < last) Finish(side, under_way[first++]);
    if (the_last) Finish(side, *the_last);
  }

  void Arrive(std::uint32_t rank) {
    state_.ranks[rank].arrived = true;
    const auto all_arrived = [this] {
      for (std::uint32_t other = 0; other < ranks_; ++other) {
        if (!state_.ranks[other].arrived) return false;
      }
      return true;
    };
    if (scenario_.opened) explorer_.WaitUntil(all_arrived);
    if (all_arrived()) explorer_.BeginToExplore();
  }

  UnderWay Call(RankSide<Steps>& side, std::uint32_t rank, std::uint64_t number) {
    const Operation& operation = CallOf(rank, number);
    std::array<std::byte, kBytesMost> data;
    for (std::size_t at = 0; at < operation.bytes; ++at) data[at] = Brought(rank, number, at);
    const auto call = [&](bool may_meet) {
      const Called called = side.Call({WordsOf(operation), may_meet, data.data(), operation.bytes},
                                      Entry(rank, number));
      explorer_.Read(static_cast<std::uint64_t>(called.way));
      if (called.number != number) explorer_.Violated(Named(rank, number) + " has another number");
      return called;
    };
    Called called = call(operation.may_meet);
    if (called.way != Way::kPage && operation.refused_once) {
      explorer_.WaitUntil([] { return true; }, true);  // Until the rank sees it.
      if (!side.TakeBack(number)) explorer_.Violated(Named(rank, number) + " is not taken back");
      called = call(true);
    }
    state_.ranks[rank].called = number + 1;
    if (called.way != Way::kPage) Submit(rank, number);
    if (called.way == Way::kDaemonCloses) state_.asked = true;
    return {called.way, number};
  }

  // False: it failed.
  bool Finish(RankSide<Steps>& side, const UnderWay& called) {
    const std::uint32_t rank = side.rank();
    const std::uint64_t number = called.number;
    if (called.way == Way::kPage) {
      if (WaitOnPage(side, number)) {
        side.End(number);
        return true;
      }
    }
    explorer_.WaitUntil([&] { return AllSubmitted(number) || state_.fails[number]; });
    explorer_.Read(state_.fails[number]);
    if (called.way == Way::kPage) {
      if (state_.ways[rank][number] != Ended::kSubmitted) {
        explorer_.Violated(Named(rank, number) + " adopted, but not submitted");
      }
      side.End(number);
    }
    return !state_.fails[number];
  }

  // False if the daemon has adopted it.
  bool WaitOnPage(RankSide<Steps>& side, std::uint64_t number) {
    const std::uint32_t rank = side.rank();
    const CallWords call = WordsOf(CallOf(rank, number));
    state_.ranks[rank].looks_at = number;
    const std::uint64_t history = explorer_.history();
    std::uint32_t cursor = 0;
    for (;;) {
      const Progress progress = side.Look(number, call, cursor);
      if (progress == Progress::kMet) {
        Meets(rank, number);
        CheckContributions(rank, number);
        return true;
      }
      if (progress == Progress::kAdopted) return false;
      if (progress == Progress::kDiffers) {
        state_.asked = true;
        explorer_.WaitUntil([&] { return IsAdopted(rank, number); });
        continue;
      }
      explorer_.Forget(history, cursor * 2);
      if (scenario_.ranks[rank].sleeps) {
        side.Sleep(number, cursor, 0);
        explorer_.Forget(history, cursor * 2 + 1);
      } else {
        explorer_.WaitUntil([&] {
          return Announces(page_.slot(cursor, number).announced.load(), number) ||
                 IsAdopted(rank, number);
        });
      }
    }
  }

  void CheckContributions(std::uint32_t rank, std::uint64_t number) {
    for (std::uint32_t other = 0; other < ranks_; ++other) {
      if (other == rank) continue;
      const Operation& operation = CallOf(other, number);
      if (WordsOf(operation) != WordsOf(CallOf(rank, number))) {
        explorer_.Violated(Named(rank, number) + " met, though calls differ");
      }
      if (!operation.may_meet) explorer_.Violated(Named(rank, number) + " met, which may not meet");
      std::array<std::byte, kBytesMost> data;
      Steps::Copy(data.data(), page_.contribution(other, number, operation.bytes), operation.bytes);
      for (std::size_t at = 0; at < operation.bytes; ++at) {
        if (data[at] != Brought(other, number, at)) {
          explorer_.Violated(Named(rank, number) + " reads what rank " + std::to_string(other) +
                             " has not brought");
        }
      }
    }
  }

  queue::SubmissionEntry Entry(std::uint32_t rank, std::uint64_t number) const {
    queue::SubmissionEntry entry{};
    entry.ticket = number << 8 | rank;
    entry.timeout_ns = ~entry.ticket;
    return entry;
  }

  // --- the daemon ----------------------------------------------------------------------------

  enum class Reason : std::uint8_t { kAct, kAsked, kDeath };

  bool AllReady() const {
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
      if (page_.area(rank).ready.load() == 0) return false;
    }
    return true;
  }
  bool AllOut() const {
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
      if (!explorer_.IsOut(static_cast<int>(rank))) return false;
    }
    return true;
  }
  std::size_t Reasons(std::array<Reason, 3>& reasons) const {
    std::size_t count = 0;
    if (AllOut()) return 0;
    if (state_.asked) reasons[count++] = Reason::kAsked;
    if (state_.a_rank_died && !state_.death_is_known) reasons[count++] = Reason::kDeath;
    const bool may_act = explorer_.exploring() || (state_.acts == 0 && scenario_.opened);
    if (may_act && state_.acts < scenario_.daemon.size() && !state_.death_is_known) {
      const bool reopens = scenario_.daemon[state_.acts] == Act::kReopen;
      if (reopens == !supervisor_->open() && (!reopens || AllReady())) {
        reasons[count++] = Reason::kAct;
      }
    }
    return count;
  }

  void RunDaemon() {
    std::array<Reason, 3> reasons{};
    for (;;) {
      explorer_.WaitUntil([&] { return AllOut() || Reasons(reasons) > 0; }, true);
      const std::size_t count = Reasons(reasons);
      if (count == 0) return;
      const Reason reason = reasons[explorer_.Choose(count)];
      explorer_.Read(static_cast<std::uint64_t>(reason));
      if (reason == Reason::kAct) {
        const Act act = scenario_.daemon[state_.acts];
        if (act == Act::kClose) {
          ++state_.acts;
          Close();
        } else {
          if (!supervisor_->Reopen()) explorer_.Violated("Reopen says no");
          ++state_.acts;
        }
      } else if (reason == Reason::kAsked) {
        state_.asked = false;
        Close();
      } else {
        state_.death_is_known = true;
        Close();
        for (std::uint64_t number = 0; number < kCalls; ++number) {
          if (!AllSubmitted(number)) state_.fails[number] = true;
        }
      }
    }
  }

  void Close() {
    adopted_.clear();
    supervisor_->Close(adopted_);
    for (const Adopted& taken : adopted_) {
      const queue::SubmissionEntry entry = Entry(taken.rank, taken.number);
      if (std::memcmp(&taken.entry, &entry, sizeof entry) != 0) {
        explorer_.Violated(Named(taken.rank, taken.number) + " adopted with another's entry");
      }
      Submit(taken.rank, taken.number);
    }
  }

  Scenario scenario_;
  std::uint32_t ranks_;
  std::unique_ptr<std::byte, Free> memory_;
  PageView page_;
  static inline PageView page_in_use_;
  Explorer explorer_;
  std::array<std::optional<RankSide<Steps>>, 4> sides_;
  std::optional<SupervisorSide<Steps>> supervisor_;
  std::vector<Adopted> adopted_;
  State state_;
  std::uint64_t met_in_all_ = 0;
  std::uint64_t submitted_in_all_ = 0;
};

}  // namespace mlxcomm::meeting::explorer
