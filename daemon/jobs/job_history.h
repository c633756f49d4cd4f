// The jobs of this node's ranks: those that run, and those that ended within the last ten minutes.
//
//   OnFormed ─▶ running ─OnFailed─▶ failed ─OnRemoved─▶ kept for kKeptNs ─▶ forgotten
//                  └──── OnShrunk: the job continues as its new group ───┘
//
// Owner: Jobs. Thread: the node's; time is an argument. Memory: an entry for each world group, and
// at most kEndedMax ended jobs, kPerUserMax of each user, with texts of at most kTextBytesMax
// bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>

#include "daemon/collective/group_layout.h"
#include "mlxcomm/v1/diagnostics.pb.h"
#include "proto/types/failure.h"
#include "proto/types/job_id.h"

namespace mlxcomm::jobs {

class JobHistory {
 public:
  static constexpr std::uint64_t kKeptNs = 600'000'000'000;
  static constexpr std::size_t kPerUserMax = 16;
  static constexpr std::size_t kEndedMax = 768;
  static constexpr std::size_t kTextBytesMax = 1000;

  void OnFormed(std::uint64_t group, const JobId& id, std::uint32_t size);
  void OnShrunk(std::uint64_t group, std::uint64_t new_group, std::uint32_t size);
  // `layout` is the group's; nullptr: the group is already gone. False: it was not a job's.
  bool OnFailed(std::uint64_t group, const Failure& failure, const collective::GroupLayout* layout);
  // The job that ended with this group; nullptr: it was not a job's.
  const v1::EndedJob* OnRemoved(std::uint64_t group, std::uint64_t now_ns);

  // Newest first.
  void Write(std::uint64_t now_ns, google::protobuf::RepeatedPtrField<v1::EndedJob>& ended) const;

 private:
  struct Ended {
    std::uint64_t ended_ns = 0;
    v1::EndedJob job;  // Lacks ended_ms_ago.
  };

  std::map<std::uint64_t, v1::EndedJob> jobs_;  // Keyed by group.
  std::deque<Ended> ended_;                     // Newest last.
};

}  // namespace mlxcomm::jobs
