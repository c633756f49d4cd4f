// The pages on which ranks of one machine carry out small operations by themselves
// (proto/meeting/README.md): one for each group all of whose ranks are here.
//
//   group made ─▶ page, given to each rank's process ─all have mapped it, Reopen─▶ open
//   a rank ends or leaves, the group fails, a rank asks ─Close─▶ closed; what its ranks had called
//       there, and cannot end by themselves, is submitted for them
//   a number of submissions later ─Reopen─▶ open
//
// Owner: Node. Thread: the node's. Memory: a page for each group, at most kPagesMax, of which one
// user has three quarters at most.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/collective/collectives.h"
#include "daemon/intake/submission.h"
#include "daemon/jobs/jobs_port.h"
#include "daemon/jobs/membership.h"
#include "daemon/record/operation_recorder.h"
#include "proto/meeting/supervisor_side.h"

namespace mlxcomm::jobs {

class DirectGroups {
 public:
  static constexpr std::size_t kPagesMax = 1024;
  static constexpr std::size_t kPagesPerUserMax = kPagesMax / 4 * 3;
  // Between two looks at what has ended on open pages.
  static constexpr std::uint64_t kHarvestNs = 1'000'000'000;

  // Submits an operation that a rank had called on a page, so long ago.
  using Submit = std::function<void(SessionId, const intake::Submission&, std::uint64_t number,
                                    std::uint64_t age_ns)>;

  // All outlive it. `now_ns` is the node's time.
  DirectGroups(collective::Collectives& collectives, Membership& membership,
               OperationRecorder& recorder, JobsPort& port, const std::uint64_t& now_ns,
               Submit submit);
  ~DirectGroups();
  DirectGroups(const DirectGroups&) = delete;
  DirectGroups& operator=(const DirectGroups&) = delete;

  // Gives the group a page, if all its ranks are here and the port has memory for one.
  void OnGroupMade(std::uint64_t group);
  void OnGroupRemoved(std::uint64_t group);

  // The number of a collective that comes from the rank's queue; none: as the core counts. Closes
  // the page if the submission says so.
  std::optional<std::uint64_t> NumberOf(std::uint32_t rank, const queue::SubmissionEntry& entry);
  // A collective of the group has been submitted: perhaps the page opens.
  void AfterSubmission(std::uint64_t group);

  void Close(std::uint64_t group);
  // Closed for good: a rank ends or leaves, or the group has failed.
  void CloseForGood(std::uint64_t group);
  void CloseAllOf(SessionId session);

  // Tells the core and the record what has ended on the pages, of each page not too often.
  void Harvest();
  // Also closes pages on which somebody has waited, or should have, for long.
  void OnTime();
  std::uint64_t NextDeadline() const { return all_harvested_ ? collective::kNever : harvest_ns_; }

 private:
  struct Page {
    std::uint64_t group = 0;
    std::string user;
    std::vector<SessionId> sessions;  // By rank.
    meeting::PageView view;
    meeting::SupervisorSide<> side;
    bool for_good = false;  // It stays closed.
    std::uint64_t submissions = 0;
    std::uint64_t quiet_submissions = 1;  // Of each rank, before it opens again.
    std::uint64_t met_at_opening = 0;
    std::uint64_t closed_ns = 0;
    std::uint64_t harvested_ns = 0;
    bool is_harvested = true;                              // Nothing more can have ended on it.
    std::vector<record::OperationCounts::Counts> counted;  // By kind and type.
    // What some ranks have recorded, until all have: by number % kRecords, with room for each rank.
    struct Partly {
      std::uint64_t number_plus_one = 0;
      std::uint32_t calls = 0;
    };
    std::vector<Partly> partly;
    std::vector<MetCall> partly_calls;

    Page(std::uint64_t id, meeting::PageView memory) : group(id), view(memory), side(memory, id) {}
  };
  using Pages = absl::flat_hash_map<std::uint64_t, std::unique_ptr<Page>>;

  void Close(Page& page);
  void Harvest(Page& page);
  void HarvestNow(Page& page);
  void CountTallies(Page& page, std::uint64_t elapsed_ns);
  bool HasRoomFor(const std::string& user, const std::vector<SessionId>& sessions) const;
  void TakeRecord(Page& page, std::uint32_t rank, const meeting::MetRecord& record);
  // Tells the record of an operation of which no more ranks are awaited.
  void Report(Page& page, Page::Partly& partly);
  // What a page needs once it is open, so that nothing is allocated while its ranks compute.
  void MakeRoom(Page& page);
  std::uint64_t MetOn(const Page& page) const;

  collective::Collectives& collectives_;
  Membership& membership_;
  OperationRecorder& recorder_;
  JobsPort& port_;
  const std::uint64_t& now_ns_;
  Submit submit_;
  Pages pages_;
  bool all_harvested_ = true;  // No page is open, nor can anything have ended on one.
  std::uint64_t harvest_ns_ = 0;
  std::size_t reported_ = 0;  // Operations that this harvest has written to the record.
  std::vector<meeting::Adopted> adopted_;
};

}  // namespace mlxcomm::jobs
