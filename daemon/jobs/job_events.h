// Logs what happens to jobs, for people: one event for each thing that an operator wants to know,
// never one for a single operation. Also names groups in the record.
//
// Owner: Jobs. Thread: the node's. Memory: job_history.h.
#pragma once

#include <cstdint>
#include <string>

#include "daemon/collective/collectives.h"
#include "daemon/jobs/job_history.h"
#include "daemon/jobs/membership.h"
#include "daemon/record/event_log.h"
#include "daemon/record/operation_recorder.h"
#include "proto/types/job_id.h"

namespace mlxcomm::jobs {

class JobEvents {
 public:
  // Both outlive it.
  JobEvents(record::EventSink& sink, OperationRecorder& recorder)
      : sink_(sink), recorder_(recorder) {}

  void OnRankGone(const JobId& job, std::uint32_t rank, std::uint64_t pid, const std::string& why);
  void OnJobFormed(const JobId& job, std::uint32_t ranks, std::uint64_t group);
  void OnJobShrunk(std::uint64_t group, std::uint64_t new_group, std::uint32_t ranks) {
    history_.OnShrunk(group, new_group, ranks);
  }
  void OnGroupMade(const collective::Group& group, const JobId& job) {
    recorder_.NameGroup(group, job);
  }
  void OnGroupRemoved(std::uint64_t group, std::uint64_t now_ns);
  // Reports the groups that have failed since the last call.
  void ReportFailures(collective::Collectives& collectives, const Membership& membership);
  const JobHistory& history() const { return history_; }

 private:
  record::EventSink& sink_;
  OperationRecorder& recorder_;
  JobHistory history_;
};

}  // namespace mlxcomm::jobs
