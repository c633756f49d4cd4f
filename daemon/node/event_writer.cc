#include "daemon/node/event_writer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/types/plain_text.h"

namespace mlxcomm::node {

using record::EventSeverity;

void EventWriter::Report(const char* kind, EventSeverity severity, const std::string& object,
                         const std::string& text, std::optional<std::string> user) {
  port_.OnEvent({.kind = kind,
                 .severity = severity,
                 .object = MakePrintable(object),  // Parts of it come from other nodes.
                 .text = MakePrintable(text),
                 .user = std::move(user)});
}

void EventWriter::OnNodeUp(const link::NodeIdentity& node) {
  Report("node_up", EventSeverity::kNote, absl::StrCat("node ", node.name),
         absl::StrCat("is up, mlxcommd ", node.software_version));
}

void EventWriter::OnNodeLost(const std::string& name, const std::string& why) {
  Report("node_lost", EventSeverity::kError, absl::StrCat("node ", name),
         absl::StrCat("is lost: ", why));
}

void EventWriter::OnRankGone(const JobId& job, std::uint32_t rank, std::uint64_t pid,
                             const std::string& why) {
  Report("rank_gone", EventSeverity::kWarning, absl::StrCat("job ", job.name),
         absl::StrCat("rank ", rank, " (pid ", pid, ") has left: ", why), job.user);
}

void EventWriter::OnNotice(const link::FabricNotice& notice) {
  using Kind = link::FabricNotice::Kind;
  const std::string link = absl::StrCat("link to ", notice.node);
  const std::string rail =
      notice.path.empty() ? "the way through other nodes" : absl::StrCat("rail ", notice.path);
  switch (notice.kind) {
    case Kind::kRailUp:
      return Report("rail_up", EventSeverity::kNote, link, absl::StrCat(rail, " is up"));
    case Kind::kRailDown:
      return Report("rail_down", EventSeverity::kWarning, link,
                    absl::StrCat(rail, " is down: ", notice.why));
    case Kind::kLinkWaits:
      return Report(
          "link_waits", EventSeverity::kWarning, link,
          absl::StrCat("no rail is left: ", notice.why, "; waiting for one to come back"));
    case Kind::kDialFails:
      return Report("dial_fails", EventSeverity::kWarning, notice.node, notice.why);
    case Kind::kStrangerRefused:
      return Report("stranger_refused", EventSeverity::kWarning, notice.node,
                    absl::StrCat("refused at the peer port: ", notice.why));
    case Kind::kNodeRefused:
      return Report("node_refused", EventSeverity::kWarning, notice.node,
                    absl::StrCat("refused: ", notice.why));
  }
}

void EventWriter::OnSameId(const std::string& name, const std::string& address) {
  Report("same_id", EventSeverity::kError, absl::StrCat("node ", name),
         absl::StrCat("another machine, at ", address, ", has the same node id"));
}

void EventWriter::OnJobFormed(const JobId& job, std::uint32_t ranks, std::uint64_t group) {
  history_.OnFormed(group, job, ranks);
  Report("job_formed", EventSeverity::kNote, absl::StrCat("job ", job.name),
         absl::StrCat("is formed: ", ranks, ranks == 1 ? " rank" : " ranks"), job.user);
}

void EventWriter::OnGroupRemoved(std::uint64_t group, std::uint64_t now_ns) {
  recorder_.OnGroupRemoved(group);
  const v1::EndedJob* const job = history_.OnRemoved(group, now_ns);
  if (job == nullptr) return;
  Report("job_ended", EventSeverity::kNote, absl::StrCat("job ", job->name()),
         job->code().empty() ? "has ended here: its ranks of this node have left"
                             : "has ended here, after its failure",
         job->user());
}

void EventWriter::ReportFailures(collective::Collectives& collectives,
                                 const jobs::Membership& membership) {
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
    Report(job != nullptr ? "job_failed" : "group_failed", EventSeverity::kError,
           absl::StrCat(job != nullptr ? "job " : "group ", failed.name),
           absl::StrCat(FailureCodeName(failed.verdict.code), ": ", failed.verdict.message),
           std::move(user));
  }
}

}  // namespace mlxcomm::node
