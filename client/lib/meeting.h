// The page of one group whose ranks are all on this machine. They share it, and carry out small
// operations there without the daemon (proto/meeting/README.md).
//
//   daemon ─descriptor─▶ Map ─first collective─▶ Begin: this rank is ready
//   Call ─page─▶ Look, Wait ─▶ Combine, End
//
// Owner: Pages. Thread: LookAtOnce, WaitAwake and Wait by the one thread that waits for an
// operation; everything else under the session's lock. Memory: one mapping.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "client/lib/mapping.h"
#include "proto/meeting/rank_side.h"
#include "proto/queue/adaptive_spin.h"

namespace mlxcomm::client {

class Meeting {
 public:
  // After this long, or at an earlier deadline, a rank that waits asks the daemon to close the
  // page.
  static constexpr std::uint64_t kPatienceNs = 50'000'000;

  // Takes over the descriptor. nullptr: it is not a page of this release.
  static std::unique_ptr<Meeting> Map(int descriptor);

  std::uint64_t group() const { return group_; }
  std::uint32_t ranks() const { return view_.ranks(); }
  bool began() const { return side_.has_value(); }
  // This process is that rank, and has called `called` collectives of the group.
  void Begin(std::uint32_t rank, std::uint64_t called) { side_.emplace(view_, rank, called); }

  // An operation as its rank called it. Calling one sets everything but the entry.
  struct Operation {
    queue::SubmissionEntry entry{};
    Meeting* page = nullptr;   // Set while it is on the page (Pages).
    std::uint64_t number = 0;  // Collectives only; the entry has its lower half.
    meeting::CallWords call;
    std::uint64_t began_ns = 0;

    meeting::Progress Look() const { return page->Look(*this); }
  };
  // Returns how the entry is carried out, and gives it its number. Offsets count from `arena`.
  meeting::Way Call(const std::byte* arena, std::uint64_t input_bytes, std::uint64_t now_ns,
                    Operation& operation);
  meeting::Progress Look(const Operation& operation) const {
    std::uint32_t rank = 0;
    return side_->Look(operation.number, operation.call, rank);
  }
  // Checks at most this often, and keeps the core in between. Returns how often it had to check
  // until the wait was over; `most`: it is not over.
  int LookAtOnce(const Operation& operation, int most) const;
  // Polls until until_ns while no other thread needs the core. Returns false if one does.
  bool WaitAwake(const Operation& operation, std::uint64_t until_ns,
                 std::uint64_t& longest_gap_ns) const;
  // Spins as long as `spin` allows, then sleeps.
  void Wait(const Operation& operation, const queue::AdaptiveSpin& spin,
            std::uint64_t until_ns) const;
  // Writes this rank's output of an operation that all ranks have called.
  void Combine(const Operation& operation, std::byte* arena) const;
  // This rank no longer needs the operation. `ended_ns` 0: it did not end here.
  void End(const Operation& operation, std::uint64_t ended_ns);
  // The daemon has refused the operation, so it has no number. False if others were called after
  // it.
  bool TakeBack(std::uint64_t number) { return side_->TakeBack(number); }
  // False if the next operation would go to the daemon, which would close the page.
  bool HasRoom() { return side_->HasRoom(); }

  int users =
      0;  // Operations, and threads that check without the session's lock. Guarded by that lock.

 private:
  Meeting(Mapping memory, std::uint64_t group, std::uint32_t ranks)
      : memory_(std::move(memory)), group_(group), view_(memory_.get(), ranks) {}
  void Count(const Operation& operation, std::uint64_t duration_ns) const;

  Mapping memory_;
  std::uint64_t group_;
  meeting::PageView view_;
  std::optional<meeting::RankSide<>> side_;
};

}  // namespace mlxcomm::client
