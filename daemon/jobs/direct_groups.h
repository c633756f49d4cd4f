// The pages on which ranks of one machine carry out small operations without the daemon
// (proto/meeting/README.md): one for each group whose ranks are all local.
//
//   group made ─▶ page, given to each rank's process ─all have mapped it, Reopen─▶ open
//   a rank ends or leaves, the group fails, a rank asks ─Close─▶ closed; operations that its ranks
//       had called there, and cannot finish there, are submitted for them
//   a number of submissions later ─Reopen─▶ open
//
// Owner: Jobs. Thread: the node's. Memory: a page for each group, at most kPagesMax, of which one
// user has at most three quarters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/collective/collectives.h"
#include "daemon/intake/processes.h"
#include "daemon/jobs/membership.h"
#include "daemon/record/operation_recorder.h"
#include "proto/meeting/supervisor_side.h"

namespace mlxcomm::jobs {

class DirectGroups {
 public:
  static constexpr std::size_t kPagesMax = 1024;
  static constexpr std::size_t kPagesPerUserMax = kPagesMax / 4 * 3;
  // The interval of harvests of open pages.
  static constexpr std::uint64_t kHarvestNs = 1'000'000'000;

  // Submits an operation that a rank called on a page `age_ns` ago.
  using Submit = std::function<void(collective::Call& call, std::uint64_t age_ns)>;

  // All outlive it. `now_ns` is the node's time.
  DirectGroups(collective::Collectives& collectives, Membership& membership,
               OperationRecorder& recorder, intake::Processes& processes,
               const std::uint64_t& now_ns, Submit submit);
  ~DirectGroups();
  DirectGroups(const DirectGroups&) = delete;
  DirectGroups& operator=(const DirectGroups&) = delete;

  // Gives the group a page, if all its ranks are here and there is memory for one.
  void OnGroupMade(std::uint64_t group);
  void OnGroupRemoved(std::uint64_t group);

  // The number of a collective from the rank's queue; none: the next one. Closes the page if the
  // call asks for it.
  std::optional<std::uint64_t> NumberOf(const collective::Call& call);
  // A collective of the group has been submitted; opens the page if it is time.
  void AfterSubmission(std::uint64_t group);

  void Close(std::uint64_t group);
  // For a group that has failed, or lost a rank.
  void CloseForGood(std::uint64_t group);
  void CloseAllOf(SessionId session);

  // Reports operations that have ended on pages to the core and the record; limits the rate for
  // each page.
  void Harvest();
  // Also closes pages on which a rank has waited for a long time.
  void OnTime();
  std::uint64_t NextDeadline() const { return all_harvested_ ? collective::kNever : harvest_ns_; }

 private:
  struct Page {
    std::uint64_t group = 0;
    std::string user;
    std::vector<SessionId> sessions;  // Indexed by rank.
    meeting::PageView view;
    meeting::SupervisorSide<> side;
    bool for_good = false;  // Stays closed.
    std::uint64_t submissions = 0;
    std::uint64_t quiet_submissions = 1;  // By each rank, before the page opens again.
    std::uint64_t met_at_opening = 0;
    std::uint64_t closed_ns = 0;
    std::uint64_t harvested_ns = 0;
    bool is_harvested = true;                              // No more operations can end on it.
    std::vector<record::OperationCounts::Counts> counted;  // Indexed by kind and type.
    // Operations that not all ranks have recorded yet: by number % kRecords, with room for each
    // rank.
    struct Partly {
      std::uint64_t number_plus_one = 0;
      std::uint32_t calls = 0;
    };
    std::vector<Partly> partly;
    std::vector<MetCall> partly_calls;

    Page(std::uint64_t id, meeting::PageView memory) : group(id), view(memory), side(memory, id) {}
  };
  void Close(Page& page);
  void CloseForGood(Page& page);
  void Harvest(Page& page);
  void HarvestNow(Page& page);
  void CountTallies(Page& page, std::uint64_t elapsed_ns);
  bool HasRoomFor(const std::string& user, const std::vector<SessionId>& sessions) const;
  void TakeRecord(Page& page, std::uint32_t rank, const meeting::MetRecord& record);
  // Writes an operation to the record, with the ranks that have recorded it.
  void Report(Page& page, Page::Partly& partly);
  // Allocates what an open page needs, so that nothing is allocated while its ranks compute.
  void MakeRoom(Page& page);
  std::uint64_t MetOn(const Page& page) const;

  collective::Collectives& collectives_;
  Membership& membership_;
  OperationRecorder& recorder_;
  intake::Processes& processes_;
  const std::uint64_t& now_ns_;
  Submit submit_;
  std::map<std::uint64_t, std::unique_ptr<Page>> pages_;  // Keyed by group.
  bool all_harvested_ = true;                             // No operation can end on a page.
  std::uint64_t harvest_ns_ = 0;
  std::size_t reported_ = 0;  // Operations that this harvest has recorded.
  std::vector<meeting::Adopted> adopted_;
};

}  // namespace mlxcomm::jobs
