// The daemon's side of a group's page: opens it, closes it, and takes over operations that the
// ranks cannot end.
//
//   closed ──Reopen (all ranks have mapped it)──▶ open ──Close──▶ closed
//
// README.md describes which operations are met and which are adopted when the page is closed. A
// rank may write anything at any time: what is copied here is bounded.
//
// Owner: DirectGroups. Thread: one. Memory: a view of the page; a little for each rank.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "proto/meeting/page.h"
#include "proto/meeting/steps.h"

namespace mlxcomm::meeting {

struct Adopted {
  std::uint64_t number = 0;
  std::uint32_t rank = 0;
  std::uint64_t called_ns = 0;
  queue::SubmissionEntry entry{};  // Unchecked.
};

template <typename Steps = SystemSteps>
class SupervisorSide {
 public:
  // The page must be zeroed memory.
  SupervisorSide(PageView page, std::uint64_t group) : page_(page), taken_(page.ranks()) {
    PageHeader& header = page_.header();
    header.magic = kPageMagic;
    header.version = kPageVersion;
    header.ranks = page_.ranks();
    header.group = group;
    for (std::uint32_t rank = 0; rank < page_.ranks(); ++rank) {
      Steps::Store(page_.area(rank).turn, Turn{0, TurnMode::kClosed}.word());
    }
  }

  bool open() const { return open_; }
  bool IsReady(std::uint32_t rank) const { return Steps::Load(page_.area(rank).ready) != 0; }
  // The number of collectives that a ready rank has called.
  std::uint64_t CalledBy(std::uint32_t rank) const {
    return Turn::Of(Steps::Load(page_.area(rank).turn)).called;
  }
  // The number of these that ended on the page.
  std::uint64_t MetBy(std::uint32_t rank) const { return Steps::Load(page_.area(rank).met); }

  // True if a rank called an operation before `before_ns` that other ranks have not called yet.
  bool HasWaitedSince(std::uint64_t before_ns) const {
    for (std::uint32_t rank = 0; rank < page_.ranks(); ++rank) {
      const RankArea& area = page_.area(rank);
      const std::uint64_t called = CalledBy(rank);
      const std::uint64_t done = Steps::Load(area.done);
      for (const Offer& offer : area.offers) {
        const std::uint64_t number = Steps::Load(offer.number_plus_one) - 1;
        if (number >= called || number < done) continue;
        if (Steps::Load(offer.called_ns) < before_ns && !AllHaveCalled(number)) return true;
      }
    }
    return false;
  }

  // Opens the page from the operation after the next one on. False if it is open, or a rank is not
  // ready.
  bool Reopen() {
    if (open_) return false;
    std::uint64_t most = 0;
    for (std::uint32_t rank = 0; rank < page_.ranks(); ++rank) {
      if (!IsReady(rank)) return false;
      most = std::max(most, CalledBy(rank));
    }
    Steps::Store(page_.header().reopens_at, most + kCallsBeforeReopening);
    open_ = true;
    opening_ = (opening_ + 1) % Turn::kOpenings;
    for (std::uint32_t rank = 0; rank < page_.ranks(); ++rank) {
      // If a rank has already passed reopens_at, the others wait for it, and the page is closed
      // again.
      SetMode(rank, TurnMode::kReopening);
    }
    return true;
  }

  // True if all operations that were called before the last Close have ended.
  bool AllHaveEnded() const {
    for (std::uint32_t rank = 0; rank < called_.size(); ++rank) {
      if (Steps::Load(page_.area(rank).done) < called_[rank]) return false;
    }
    return true;
  }

  // Closes the page, and appends the adopted operations ordered by number and rank.
  void Close(std::vector<Adopted>& adopted) {
    if (!open_) return;
    open_ = false;
    called_.resize(page_.ranks());
    for (std::uint32_t rank = 0; rank < page_.ranks(); ++rank) {
      called_[rank] = SetMode(rank, TurnMode::kClosed);
    }
    const std::size_t before = adopted.size();
    for (std::uint32_t rank = 0; rank < page_.ranks(); ++rank) Settle(rank, adopted);
    std::sort(adopted.begin() + static_cast<std::ptrdiff_t>(before), adopted.end(),
              [](const Adopted& a, const Adopted& b) {
                return a.number != b.number ? a.number < b.number : a.rank < b.rank;
              });
    WakeSleepers();
  }

  // Calls visit(rank, record) for the last operations that ended on the page since the last call,
  // and returns the number of skipped ones.
  template <typename Visitor>
  std::uint64_t TakeRecords(Visitor visit) {
    std::uint64_t left_out = 0;
    for (std::uint32_t rank = 0; rank < page_.ranks(); ++rank) {
      RankArea& area = page_.area(rank);
      const std::uint64_t met = Steps::Load(area.met);
      std::uint64_t& taken = taken_[rank];
      if (met <= taken) continue;
      // The oldest records may be overwritten while they are read.
      const std::uint64_t kept = std::min<std::uint64_t>(met - taken, kRecords - kRecords / 4);
      left_out += met - taken - kept;
      for (std::uint64_t at = met - kept; at < met; ++at) {
        MetRecord record;
        Steps::Copy(&record, &area.records[at % kRecords], sizeof record);
        if (Steps::LoadAfterCopies(area.met) - at >= kRecords) {
          ++left_out;
          continue;
        }
        visit(rank, record);
      }
      taken = met;
    }
    return left_out;
  }

 private:
  // The first operation that no rank can be calling yet, and one more.
  static constexpr std::uint64_t kCallsBeforeReopening = 2;
  // Only a hostile rank changes its turn this often during SetMode().
  static constexpr int kAttempts = 1024;

  // Returns the number of operations that the rank has called.
  std::uint64_t SetMode(std::uint32_t rank, TurnMode mode) {
    std::atomic<std::uint64_t>& turn = page_.area(rank).turn;
    std::uint64_t word = Steps::Load(turn);
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      const std::uint64_t called = Turn::Of(word).called;
      if (Steps::CompareExchange(turn, word, Turn{called, mode, opening_}.word())) return called;
    }
    const std::uint64_t called = Turn::Of(word).called;
    Steps::Exchange(turn, Turn{called, mode, opening_}.word());
    return called;
  }

  bool AllHaveCalled(std::uint64_t number) const {
    for (std::uint32_t rank = 0; rank < page_.ranks(); ++rank) {
      if (CalledBy(rank) <= number) return false;
    }
    return true;
  }
  bool HasCalled(std::uint32_t rank, std::uint64_t number) const {
    return number < called_[rank] &&
           Steps::Load(page_.offer(rank, number).number_plus_one) == number + 1;
  }
  CallWords CallOf(std::uint32_t rank, std::uint64_t number) const {
    CallWords call;
    Steps::Copy(&call, &page_.slot(rank, number).call, sizeof call);
    return call;
  }
  bool AllCalledAlike(std::uint64_t number) const {
    const CallWords first = CallOf(0, number);
    for (std::uint32_t rank = 0; rank < page_.ranks(); ++rank) {
      if (!HasCalled(rank, number) || CallOf(rank, number) != first) return false;
    }
    return true;
  }

  void Settle(std::uint32_t rank, std::vector<Adopted>& adopted) {
    RankArea& area = page_.area(rank);
    const std::uint64_t done = Steps::Load(area.done);
    for (std::uint32_t index = 0; index < kGenerations; ++index) {
      Offer& offer = area.offers[index];
      const std::uint64_t plus_one = Steps::Load(offer.number_plus_one);
      if (plus_one == 0 || PageView::IndexOf(plus_one - 1) != index) continue;
      const std::uint64_t number = plus_one - 1;
      if (number >= called_[rank] || number < done) continue;
      if (Steps::Load(offer.adopted_plus_one) == plus_one) continue;
      if (AllCalledAlike(number)) {
        AnnounceForAll(number);
        continue;
      }
      Adopted taken{number, rank, Steps::Load(offer.called_ns), {}};
      Steps::Copy(&taken.entry, &offer.entry, sizeof taken.entry);
      // If the rank has already ended the operation, all ranks had made the same call, and may
      // already have overwritten their slots.
      if (number < Steps::LoadAfterCopies(area.done)) continue;
      // Sequentially consistent: WakeSleepers() sees a rank that sleeps without seeing this store.
      Steps::Exchange(offer.adopted_plus_one, plus_one);
      adopted.push_back(taken);
    }
  }

  // A rank may have died or stopped between its call and the announcement.
  void AnnounceForAll(std::uint64_t number) {
    for (std::uint32_t rank = 0; rank < page_.ranks(); ++rank) {
      std::atomic<std::uint64_t>& announced = page_.slot(rank, number).announced;
      if (!Announces(Steps::Load(announced), number)) {
        Steps::Exchange(announced, AnnouncedWord(number));
      }
    }
  }

  // Changes the words, so that ranks that are about to sleep do not.
  void WakeSleepers() {
    for (std::uint32_t rank = 0; rank < page_.ranks(); ++rank) {
      for (std::uint32_t index = 0; index < kGenerations; ++index) {
        if (Steps::LoadInOrder(page_.area(rank).offers[index].sleepers) == 0) continue;
        std::atomic<std::uint64_t>& announced = page_.area(rank).slots[index].announced;
        std::uint64_t word = Steps::Load(announced);
        // If this fails, the rank has just announced an operation, and wakes the sleepers.
        Steps::CompareExchange(announced, word, word ^ 1);
        Steps::Exchange(page_.area(rank).offers[index].sleepers, std::uint32_t{0});
        Steps::Wake(announced);
      }
    }
  }

  PageView page_;
  bool open_ = false;
  std::uint64_t opening_ = 0;
  std::vector<std::uint64_t> called_;  // Each rank's calls at the last Close.
  std::vector<std::uint64_t> taken_;   // Records, by rank.
};

}  // namespace mlxcomm::meeting
