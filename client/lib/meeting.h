// A rank's group, where all ranks are on this machine: small operations that the ranks carry out by
// themselves on a page that they share (proto/meeting/README.md).
//
//   daemon ─descriptor─▶ Map ─first collective─▶ Begin: this rank is ready
//   Call ─page─▶ Look, Wait ─▶ Combine, End
//
// Owner: Connection. Thread: LookAtOnce and Wait by the one thread that waits for an operation; all
// else under the connection's lock. Memory: one mapping; nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "proto/meeting/rank_side.h"
#include "proto/queue/adaptive_spin.h"

namespace mlxcomm::client {

class Meeting {
 public:
  // After so long, or at an earlier deadline, a rank that waits asks the daemon to close the page.
  static constexpr std::uint64_t kPatienceNs = 50'000'000;

  // Takes over the descriptor. nullptr: it is no page of this release's.
  static std::unique_ptr<Meeting> Map(int descriptor);
  ~Meeting();
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  std::uint64_t group() const { return group_; }
  std::uint32_t ranks() const { return view_.ranks(); }
  bool began() const { return side_.has_value(); }
  // This process is that rank, and has called `called` collectives of the group.
  void Begin(std::uint32_t rank, std::uint64_t called) { side_.emplace(view_, rank, called); }

  // An operation as its rank called it. `arena` is where the entry's offsets count from.
  struct Operation {
    std::uint64_t number = 0;
    meeting::CallWords call;
    queue::SubmissionEntry entry{};
    std::uint64_t began_ns = 0;
  };
  // The entry's way, and its number, which the entry gets as well.
  meeting::Way Call(const std::byte* arena, std::uint64_t input_bytes, std::uint64_t now_ns,
                    queue::SubmissionEntry& entry, Operation& operation);
  meeting::Progress Look(const Operation& operation) const {
    std::uint32_t rank = 0;
    return side_->Look(operation.number, operation.call, rank);
  }
  // Looks at most so often, and keeps the core meanwhile. Returns how often it has looked before there
  // was something else to do than to wait, `most` if there is nothing yet.
  int LookAtOnce(const Operation& operation, int most) const;
  // Looks for as long as `spin` says, then sleeps.
  void Wait(const Operation& operation, const queue::AdaptiveSpin& spin,
            std::uint64_t until_ns) const;
  // What this rank gets of an operation that all have called.
  void Combine(const Operation& operation, std::byte* arena) const;
  // This rank needs nothing of it any more. `ended_ns` 0: it did not end here.
  void End(const Operation& operation, std::uint64_t ended_ns);
  // The daemon has refused the operation, so it has no number. False: others were called after it.
  bool TakeBack(std::uint64_t number) { return side_->TakeBack(number); }
  // Whether the next operation would have room; else it goes to the daemon, which closes the page.
  bool HasRoom() { return side_->HasRoom(); }

  int waiting = 0;  // Threads that look at it without the connection's lock. Guarded by that lock.

 private:
  Meeting(std::byte* memory, std::size_t bytes, std::uint64_t group, std::uint32_t ranks)
      : memory_(memory), bytes_(bytes), group_(group), view_(memory, ranks) {}
  void Count(const Operation& operation, std::uint64_t duration_ns) const;

  std::byte* memory_;
  std::size_t bytes_;
  std::uint64_t group_;
  meeting::PageView view_;
  std::optional<meeting::RankSide<>> side_;
};

}  // namespace mlxcomm::client
