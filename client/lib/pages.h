// The pages on which ranks of this machine meet directly (meeting.h), one for each group that has
// one, and the numbers of each group's collectives.
//
//   Take: the daemon's page ─▶ Call ─kPage──▶ Look, MeetsAtOnce, Wait ─▶ End
//                               └─otherwise─▶ the daemon carries it out, under the same number
//
// Owner: Connection. Thread: any, under the session's lock; Wait releases the lock that it is
// given. Memory: a mapping for each page, which stays while an operation or a thread uses it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "client/lib/first_looks.h"
#include "client/lib/meeting.h"
#include "proto/queue/adaptive_spin.h"
#include "proto/queue/core_watch.h"
#include "proto/queue/scheduling_policy.h"

namespace mlxcomm::client {

class Pages {
 public:
  static constexpr std::size_t kPagesMax = 1024;

  // `arena` is where the offsets of entries count from.
  Pages(std::byte* arena, const queue::SchedulingPolicy& scheduling);

  // Takes over the descriptor.
  void Take(int descriptor);
  // The group's page if it is in use, otherwise nullptr. May allocate; a later
  // Call for the same group does not.
  Meeting* Find(std::uint64_t group);
  // Numbers a collective, and calls it on its group's page if there is one. An operation that was
  // called there must be ended there.
  meeting::Way Call(std::uint32_t rank, std::uint32_t size, std::uint64_t input_bytes,
                    std::uint64_t now_ns, Meeting::Operation& operation);
  // The daemon has refused the collective, so it does not count. Of several refused ones the last
  // is taken back first, whichever was refused first.
  void TakeBack(std::uint64_t group, std::uint64_t number);
  void Forget(std::uint64_t group);
  void ForgetAll();

  // Ends the operation if all ranks have called it, or the daemon has adopted it. Returns true if
  // all have: then its result is in the arena.
  bool End(Meeting::Operation& operation, meeting::Progress progress, std::uint64_t now_ns);
  // Returns true if all ranks called within a few microseconds. Keeps the lock.
  bool MeetsAtOnce(Meeting::Operation& operation);
  // Waits until there may be something to do, or until_ns. The operation may end in the meantime.
  meeting::Progress Wait(std::unique_lock<std::mutex>& lock, const Meeting::Operation& called,
                         std::uint64_t began_ns, std::uint64_t until_ns);

 private:
  struct Group {
    std::uint64_t called = 0;  // Collectives, before the page was in use.
    std::unique_ptr<Meeting> page;
    std::vector<std::uint64_t> refused;  // Numbers that could not be taken back yet.
  };
  using Groups = std::unordered_map<std::uint64_t, Group>;

  Group& Of(std::uint64_t group);
  void Leave(Group& group);
  void DropUnused();

  std::byte* const arena_;
  const bool is_used_;  // MLXCOMM_RANKS_MEET=0: no page is used.
  Groups groups_;
  Groups::value_type* recent_ = nullptr;        // The group that called last.
  std::vector<std::unique_ptr<Meeting>> left_;  // Groups that were left; still in use.
  const std::uint32_t cores_;
  std::uint32_t ranks_ = 0;  // The most that share a page: as many run on this machine.
  queue::AdaptiveSpin spin_;
  queue::AdaptiveSpin kept_;  // How long a wait may keep its core.
  queue::KeepsCore keeps_;
  FirstLooks looks_;
};

}  // namespace mlxcomm::client
