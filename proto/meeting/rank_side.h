// A rank's operations on its group's page.
//
//   Call ─kPage──▶ announced ─Look─▶ kMet: combine the ranks' contributions, then End
//     │                        ├──▶ kWaits: look again, or Sleep
//     │                        ├──▶ kDiffers, or a long wait: ask the daemon to close the page
//     │                        └──▶ kAdopted: the daemon runs it and sends a completion
//     └─kDaemon, kDaemonCloses──▶ submit it to the daemon with its number
//
// Owner: the rank's process. Thread: one at a time; Look and Sleep from any, for an operation that
// has not ended. Memory: a view of the page.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "proto/meeting/page.h"
#include "proto/meeting/steps.h"

namespace mlxcomm::meeting {

struct Contribution {
  CallWords call;
  bool may_meet = false;  // False if only the daemon can run it.
  const std::byte* data = nullptr;
  std::uint64_t bytes = 0;  // Up to kCellBytes.
  std::uint64_t called_ns = 0;
};

enum class Way : std::uint8_t {
  kPage,
  kDaemon,
  kDaemonCloses,  // The daemon must close the page, where other ranks may have called it.
};

struct Called {
  Way way = Way::kDaemon;
  std::uint64_t number = 0;  // The operation's number among the rank's collectives.
};

enum class Progress : std::uint8_t { kMet, kWaits, kDiffers, kAdopted };

template <typename Steps = SystemSteps>
class RankSide {
 public:
  // The rank has already called `called` collectives through the daemon.
  RankSide(PageView page, std::uint32_t rank, std::uint64_t called)
      : page_(page), rank_(rank), called_(called), done_(called), all_done_(called) {
    RankArea& own = page_.area(rank_);
    Steps::Store(own.done, called);
    Steps::Store(own.turn, Turn{called, TurnMode::kClosed}.word());
    Steps::Store(own.ready, std::uint32_t{1});
  }

  const PageView& page() const { return page_; }
  std::uint32_t rank() const { return rank_; }

  // `entry` is the submission for the daemon if it takes the operation over.
  Called Call(const Contribution& brings, const queue::SubmissionEntry& entry) {
    RankArea& own = page_.area(rank_);
    std::uint64_t word = Steps::Load(own.turn);
    for (;;) {
      const Turn turn = Turn::Of(word);
      const std::uint64_t number = turn.called;
      const bool open =
          turn.mode == TurnMode::kOpen ||
          (turn.mode == TurnMode::kReopening && number >= Steps::Load(page_.header().reopens_at));
      const bool free = open && number >= taken_back_below_ && IsFree(number);
      const bool meets = free && brings.may_meet;
      if (free) WriteSlot(number, meets ? brings.call : kByDaemon, brings);
      WriteOffer(number, meets, brings.called_ns, entry);
      const Turn next{number + 1, open ? TurnMode::kOpen : turn.mode, turn.opening};
      if (!Steps::CompareExchange(own.turn, word, next.word())) continue;
      called_ = number + 1;
      if (meets) {
        under_way_plus_one_[PageView::IndexOf(number)] = number + 1;
        if (brings.bytes > kInlineBytes) cell_needed_below_[cell_] = number + 1;
      }
      if (free) Announce(number);
      if (!meets) StoreDone();
      if (meets) return {Way::kPage, number};
      return {open && brings.may_meet ? Way::kDaemonCloses : Way::kDaemon, number};
    }
  }

  // `rank` is the next rank to check, at first 0; it is advanced past ranks that have made the same
  // call.
  Progress Look(std::uint64_t number, const CallWords& call, std::uint32_t& rank) const {
    for (; rank < page_.ranks(); ++rank) {
      if (rank == rank_) continue;
      const Slot& slot = page_.slot(rank, number);
      if (!Announces(Steps::Load(slot.announced), number)) {
        return IsAdopted(number) ? Progress::kAdopted : Progress::kWaits;
      }
      CallWords theirs;
      Steps::Copy(&theirs, &slot.call, sizeof theirs);
      if (theirs != call) return IsAdopted(number) ? Progress::kAdopted : Progress::kDiffers;
    }
    return Progress::kMet;
  }

  // Sleeps until the rank may have announced the operation, or the daemon has closed the page.
  void Sleep(std::uint64_t number, std::uint32_t rank, std::uint64_t timeout_ns) const {
    std::atomic<std::uint64_t>& awaited = page_.slot(rank, number).announced;
    Steps::Exchange(page_.offer(rank, number).sleepers, std::uint32_t{1});
    const std::uint64_t seen = Steps::LoadInOrder(awaited);
    if (Announces(seen, number)) return;
    if (Steps::LoadInOrder(page_.offer(rank_, number).adopted_plus_one) == number + 1) return;
    Steps::Park(awaited, seen, timeout_ns);
  }

  bool HasRoom() { return IsFree(called_); }

  // Ends the operation for this rank, which needs no contribution any more. May be called twice.
  void End(std::uint64_t number) {
    std::uint64_t& plus_one = under_way_plus_one_[PageView::IndexOf(number)];
    if (plus_one != number + 1) return;
    plus_one = 0;
    StoreDone();
    // Fetches the next slot back from the caches of the other ranks before it is written.
    __builtin_prefetch(&page_.slot(rank_, number + 1), 1);
  }
  // Takes back an operation that the daemon has refused. False, without effect, if the rank has
  // called another one since. The next call gets the same number and goes to the daemon: the number
  // may have been announced, and other ranks would use a contribution that is not there yet.
  bool TakeBack(std::uint64_t number) {
    std::atomic<std::uint64_t>& turn = page_.area(rank_).turn;
    std::uint64_t word = Steps::Load(turn);
    for (Turn now = Turn::Of(word); now.called == number + 1; now = Turn::Of(word)) {
      if (!Steps::CompareExchange(turn, word, Turn{number, now.mode, now.opening}.word())) continue;
      called_ = number;
      taken_back_below_ = std::max(taken_back_below_, number + 1);
      StoreDone();
      return true;
    }
    return false;
  }
  void Record(const MetRecord& record) {
    RankArea& own = page_.area(rank_);
    const std::uint64_t met = met_++;
    Steps::Copy(&own.records[met % kRecords], &record, sizeof record);
    Steps::Store(own.met, met_);
  }

 private:
  bool IsAdopted(std::uint64_t number) const {
    return Steps::Load(page_.offer(rank_, number).adopted_plus_one) == number + 1;
  }

  // True if the slot is unused: the operation kGenerations before has ended on all ranks.
  bool IsFree(std::uint64_t number) {
    if (number >= done_ + kGenerations) return false;
    if (number >= all_done_ + kGenerations) ReadOthersDone();
    return number < all_done_ + kGenerations;
  }
  void ReadOthersDone() {
    std::uint64_t least = called_;
    for (std::uint32_t rank = 0; rank < page_.ranks(); ++rank) {
      if (rank != rank_) least = std::min(least, Steps::Load(page_.area(rank).done));
    }
    // Never decreases; a call that is taken back decreases `done`, but its number no longer uses
    // the page.
    all_done_ = std::max(all_done_, least);
  }

  // Returns a cell that no rank reads; there is one if the operation's slot is free. The first
  // cells are reused first, so that large contributions stay in the caches.
  std::size_t FreeCell(std::uint64_t bytes) {
    std::size_t cell = FirstFreeCell();
    if (cell < kNearCells || bytes < kWorthToLook) return cell;
    ReadOthersDone();
    return FirstFreeCell();
  }
  std::size_t FirstFreeCell() const {
    const std::uint64_t ended = std::min(done_, all_done_);
    std::size_t cell = 0;
    while (cell + 1 < kGenerations && cell_needed_below_[cell] > ended) ++cell;
    return cell;
  }

  void WriteSlot(std::uint64_t number, const CallWords& call, const Contribution& brings) {
    Slot& slot = page_.slot(rank_, number);
    Steps::Copy(&slot.call, &call, sizeof call);
    if (call == kByDaemon || brings.bytes == 0) return;
    std::byte* to = slot.inline_bytes;
    if (brings.bytes > kInlineBytes) {
      cell_ = FreeCell(brings.bytes);
      *to = static_cast<std::byte>(cell_);
      to = page_.cell(rank_, cell_);
    }
    Steps::Copy(to, brings.data, brings.bytes);
  }

  // Removes the offer of a failed attempt to call on the page.
  void WriteOffer(std::uint64_t number, bool meets, std::uint64_t called_ns,
                  const queue::SubmissionEntry& entry) {
    Offer& offer = page_.offer(rank_, number);
    if (meets) {
      Steps::Copy(&offer.entry, &entry, sizeof entry);
      Steps::Store(offer.called_ns, called_ns);
      Steps::Store(offer.number_plus_one, number + 1);
    } else if (Steps::Load(offer.number_plus_one) == number + 1) {
      Steps::Store(offer.number_plus_one, std::uint64_t{0});
    }
  }

  void Announce(std::uint64_t number) {
    Steps::Exchange(page_.slot(rank_, number).announced, AnnouncedWord(number));
    std::atomic<std::uint32_t>& sleepers = page_.offer(rank_, number).sleepers;
    if (Steps::LoadInOrder(sleepers) == 0) return;
    // If this rank dies or stops here, the daemon wakes the sleepers.
    Steps::Wake(page_.slot(rank_, number).announced);
    Steps::Exchange(sleepers, std::uint32_t{0});
  }

  void StoreDone() {
    done_ = called_;
    for (const std::uint64_t plus_one : under_way_plus_one_) {
      if (plus_one != 0) done_ = std::min(done_, plus_one - 1);
    }
    Steps::Store(page_.area(rank_).done, done_);
  }

  // One cell is written while ranks read the other.
  static constexpr std::size_t kNearCells = 2;
  // Smaller contributions stay in the caches in any cell.
  static constexpr std::uint64_t kWorthToLook = 4096;

  PageView page_;
  std::uint32_t rank_;
  std::uint64_t called_ = 0;
  std::uint64_t met_ = 0;
  std::uint64_t taken_back_below_ = 0;  // Operations below this number go to the daemon.
  std::uint64_t done_;                  // Same as in the page.
  std::uint64_t all_done_;              // The least `done` of the other ranks when last read.
  // Keyed by slot: the number, plus one, of the operation in flight.
  std::array<std::uint64_t, kGenerations> under_way_plus_one_{};
  // Keyed by cell: unused once all ranks have ended the operations below this number.
  std::array<std::uint64_t, kGenerations> cell_needed_below_{};
  std::size_t cell_ = 0;  // The current call's.
};

}  // namespace mlxcomm::meeting
