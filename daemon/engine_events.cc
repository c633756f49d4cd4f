// The half of Engine that tells people what happens: one line for what a person would want
// to have been told, never one for an operation.
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/engine.h"
#include "daemon/platform/system_facts.h"
#include "proto/types/plain_text.h"

namespace mlxcomm {

using telemetry::EventSeverity;

void Engine::TellEvent(const char* kind, EventSeverity severity, const std::string& object,
                       const std::string& text, std::optional<std::string> user) {
  telemetry::LoggedEvent event;
  event.unix_ns = platform::UnixNow();
  event.kind = kind;
  event.severity = severity;
  event.object = MakePrintable(object);  // Some of it other nodes have said.
  event.text = MakePrintable(text);
  event.user = std::move(user);
  events_.Add(std::move(event));
}

void Engine::OnNotice(const fabric::FabricNotice& notice) {
  using Kind = fabric::FabricNotice::Kind;
  const std::string link = absl::StrCat("link to ", notice.node);
  const std::string rail =
      notice.path.empty() ? "the way through other nodes" : absl::StrCat("rail ", notice.path);
  switch (notice.kind) {
    case Kind::kRailUp:
      return TellEvent("rail_up", EventSeverity::kNote, link, absl::StrCat(rail, " is up"));
    case Kind::kRailDown:
      return TellEvent("rail_down", EventSeverity::kWarning, link,
                       absl::StrCat(rail, " is down: ", notice.why));
    case Kind::kLinkWaits:
      return TellEvent(
          "link_waits", EventSeverity::kWarning, link,
          absl::StrCat("no rail is left: ", notice.why, "; waiting for one to come back"));
    case Kind::kDialFails:
      return TellEvent("dial_fails", EventSeverity::kWarning, notice.node, notice.why);
    case Kind::kStrangerRefused:
      return TellEvent("stranger_refused", EventSeverity::kWarning, notice.node,
                       absl::StrCat("refused at the peer port: ", notice.why));
  }
}

void Engine::TellOfFormed(const JobId& job, std::size_t ranks, std::uint64_t group) {
  told_jobs_[group].job = job;
  TellEvent("job_formed", EventSeverity::kNote, absl::StrCat("job ", job.name),
            absl::StrCat("is formed: ", ranks, ranks == 1 ? " rank" : " ranks"), job.user);
}

void Engine::TellOfRemoved(const std::vector<std::uint64_t>& groups) {
  for (const std::uint64_t group : groups) {
    const auto found = told_jobs_.find(group);
    if (found == told_jobs_.end()) continue;
    const ToldJob& told = found->second;
    TellEvent("job_ended", EventSeverity::kNote, absl::StrCat("job ", told.job.name),
              told.failed ? "has ended here, after its failure"
                          : "has ended here: its ranks of this node have left",
              told.job.user);
    told_jobs_.erase(found);
  }
}

void Engine::TellOfFailures() {
  for (const OperationRecorder::FailedGroup& failed : operation_recorder_.TakeFailures()) {
    const auto told = told_jobs_.find(failed.group);
    std::string user;  // Not known any more: those see it who see all.
    if (told != told_jobs_.end()) {
      told->second.failed = true;
      user = told->second.job.user;
    } else if (const auto* origin = membership_.OriginOf(failed.group); origin != nullptr) {
      user = origin->job.user;
    }
    TellEvent(told != told_jobs_.end() ? "job_failed" : "group_failed", EventSeverity::kError,
              absl::StrCat(told != told_jobs_.end() ? "job " : "group ", failed.name),
              absl::StrCat(FailureCodeName(failed.verdict.code), ": ", failed.verdict.message),
              std::move(user));
  }
}

}  // namespace mlxcomm
