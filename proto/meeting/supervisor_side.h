// What the daemon does with a group's page: it opens it, closes it, and takes over what the ranks
// called there and cannot end by themselves.
//
//   closed ──Reopen (all ranks have mapped it)──▶ open ──Close──▶ closed
//
// README.md says which operations are met when it is closed, and which are adopted. A rank may write
// anything at any time: what is copied here is bounded.
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
  queue::SubmissionEntry entry{};  // As the rank wrote it.
};

template <typename Steps = SystemSteps>
class SupervisorSide {
 public:
  // Over memory that is all zeros.
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
  // How many collectives the rank has called, of one that is ready.
  std::uint64_t CalledBy(std::uint32_t rank) const {
    return Turn::Of(Steps::Load(page_.area(rank).turn)).called;
  }
  // Of these, how many ended on the page.
  std::uint64_t MetBy(std::uint32_t rank) const { return Steps::Load(page_.area(rank).met); }

  // Whether some rank has called an operation before that time which not all have called since.
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

  // Ranks go to the page from the operation after the next one on. False: not now.
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
      // A rank that has gone past it meanwhile would not be met there: the page is closed when
      // somebody waits.
      SetMode(rank, TurnMode::kReopening);
    }
    return true;
  }

  // Whether nothing that was called before the last Close is still to be ended.
  bool AllHaveEnded() const {
    for (std::uint32_t rank = 0; rank < called_.size(); ++rank) {
      if (Steps::Load(page_.area(rank).done) < called_[rank]) return false;
    }
    return true;
  }

  // Appends to `adopted`, in order of number and rank.
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

  // Calls visit(rank, record) for operations that ended on the page since the last time; of many,
  // for the last ones. Returns how many were left out.
  template <typename Visitor>
  std::uint64_t TakeRecords(Visitor visit) {
    std::uint64_t left_out = 0;
    for (std::uint32_t rank = 0; rank < page_.ranks(); ++rank) {
      RankArea& area = page_.area(rank);
      const std::uint64_t met = Steps::Load(area.met);
      std::uint64_t& taken = taken_[rank];
      if (met <= taken) continue;
      // The oldest may be overwritten while it is read.
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
  // The first one that a rank may not have begun to call, and one more.
  static constexpr std::uint64_t kCallsBeforeReopening = 2;
  // Only a rank that cheats changes its turn more often than this meanwhile.
  static constexpr int kAttempts = 1024;

  // Returns how many operations the rank has called.
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
  // The number of the operation that lies in a slot of the rank, called on the page.
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
      // All had called it alike, if the rank has ended it meanwhile. Then others may have begun to
      // write their next operation where this one lay.
      if (number < Steps::LoadAfterCopies(area.done)) continue;
      // In order: who does not see it, and sleeps, is seen by WakeSleepers.
      Steps::Exchange(offer.adopted_plus_one, plus_one);
      adopted.push_back(taken);
    }
  }

  // A rank may have died after its call, or be slow, before it announced it.
  void AnnounceForAll(std::uint64_t number) {
    for (std::uint32_t rank = 0; rank < page_.ranks(); ++rank) {
      std::atomic<std::uint64_t>& announced = page_.slot(rank, number).announced;
      if (!Announces(Steps::Load(announced), number)) {
        Steps::Exchange(announced, AnnouncedWord(number));
      }
    }
  }

  // Their words change, so that those who are about to sleep do not.
  void WakeSleepers() {
    for (std::uint32_t rank = 0; rank < page_.ranks(); ++rank) {
      for (std::uint32_t index = 0; index < kGenerations; ++index) {
        if (Steps::LoadInOrder(page_.area(rank).offers[index].sleepers) == 0) continue;
        std::atomic<std::uint64_t>& announced = page_.area(rank).slots[index].announced;
        std::uint64_t word = Steps::Load(announced);
        // Should it fail, its rank has just announced an operation, and wakes them.
        Steps::CompareExchange(announced, word, word ^ 1);
        Steps::Exchange(page_.area(rank).offers[index].sleepers, std::uint32_t{0});
        Steps::Wake(announced);
      }
    }
  }

  PageView page_;
  bool open_ = false;
  std::uint64_t opening_ = 0;
  std::vector<std::uint64_t> called_;  // At the last Close.
  std::vector<std::uint64_t> taken_;   // Records, by rank.
};

}  // namespace mlxcomm::meeting
