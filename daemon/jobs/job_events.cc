#include "daemon/jobs/job_events.h"

#include "absl/strings/str_cat.h"

namespace mlxcomm::jobs {

using record::EventSeverity;

void JobEvents::OnRankGone(const JobId& job, std::uint32_t rank, std::uint64_t pid,
                           const std::string& why) {
  sink_.Report("rank_gone", EventSeverity::kWarning, absl::StrCat("job ", job.name),
               absl::StrCat("rank ", rank, " (pid ", pid, ") has left: ", why), job.user);
}

void JobEvents::OnJobFormed(const JobId& job, std::uint32_t ranks, std::uint64_t group) {
  history_.OnFormed(group, job, ranks);
  sink_.Report("job_formed", EventSeverity::kNote, absl::StrCat("job ", job.name),
               absl::StrCat("is formed: ", ranks, ranks == 1 ? " rank" : " ranks"), job.user);
}

void JobEvents::OnGroupRemoved(std::uint64_t group, std::uint64_t now_ns) {
  recorder_.OnGroupRemoved(group);
  const v1::EndedJob* const job = history_.OnRemoved(group, now_ns);
  if (job == nullptr) return;
  sink_.Report("job_ended", EventSeverity::kNote, absl::StrCat("job ", job->name()),
               job->code().empty() ? "has ended here: its ranks of this node have left"
                                   : "has ended here, after its failure",
               job->user());
}

void JobEvents::ReportFailures(collective::Collectives& collectives, const Membership& membership) {
  if (!recorder_.AnyFailed()) return;
  for (const OperationRecorder::FailedGroup& failed : recorder_.TakeFailures()) {
    const collective::Group* const group = collectives.Find(failed.group);
    history_.OnFailed(failed.group, failed.verdict, group == nullptr ? nullptr : &group->layout());
    const v1::EndedJob* const job = history_.Find(failed.group);
    std::string user;  // No longer known: visible only to users who see everything.
    if (job != nullptr) {
      user = job->user();
    } else if (const auto* origin = membership.OriginOf(failed.group); origin != nullptr) {
      user = origin->job.user;
    }
    sink_.Report(job != nullptr ? "job_failed" : "group_failed", EventSeverity::kError,
                 absl::StrCat(job != nullptr ? "job " : "group ", failed.name),
                 absl::StrCat(FailureCodeName(failed.verdict.code), ": ", failed.verdict.message),
                 user);
  }
}

}  // namespace mlxcomm::jobs
