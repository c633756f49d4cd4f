#include "client/ctl/launch/failure_summary.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "proto/types/plain_text.h"

namespace mlxcomm::ctl {
namespace {

constexpr std::size_t kOthersNamed = 8;

bool FailedByItself(const RankFate& fate) { return CodeOfEnd(fate.end) != 0 && !fate.asked; }

std::string HowBriefly(const v1::LaunchEnded& end) {
  if (end.signal() != 0) return SignalName(static_cast<int>(end.signal()));
  return "exit code " + std::to_string(end.exit_code());
}

}  // namespace

int CodeOfEnd(const v1::LaunchEnded& end) {
  return static_cast<int>(end.signal() != 0 ? 128 + end.signal() : end.exit_code());
}

std::string SignalName(int signal) {
  constexpr std::pair<int, const char*> kNames[] = {
      {SIGHUP, "SIGHUP"},   {SIGINT, "SIGINT"},   {SIGQUIT, "SIGQUIT"}, {SIGILL, "SIGILL"},
      {SIGTRAP, "SIGTRAP"}, {SIGABRT, "SIGABRT"}, {SIGBUS, "SIGBUS"},   {SIGFPE, "SIGFPE"},
      {SIGKILL, "SIGKILL"}, {SIGSEGV, "SIGSEGV"}, {SIGPIPE, "SIGPIPE"}, {SIGALRM, "SIGALRM"},
      {SIGTERM, "SIGTERM"}, {SIGUSR1, "SIGUSR1"}, {SIGUSR2, "SIGUSR2"}, {SIGXCPU, "SIGXCPU"}};
  for (const auto& [number, name] : kNames) {
    if (number == signal) return name;
  }
  return "signal " + std::to_string(signal);
}

const RankFate* FirstFailure(const std::vector<RankFate>& fates, const v1::LaunchOutcome& outcome) {
  const bool is_lost = outcome.code() == "RANK_LOST" && outcome.size() == fates.size();
  const std::uint64_t pid = is_lost ? outcome.pid() : outcome.first_lost_pid();
  for (const RankFate& fate : fates) {
    if (pid != 0 && FailedByItself(fate) && fate.end.pid() == pid) return &fate;
  }
  const auto first = std::ranges::find_if(fates, FailedByItself);
  return first == fates.end() ? nullptr : &*first;
}

std::string DescribeEnd(const RankFate& fate) {
  std::string text = "rank " + std::to_string(fate.end.rank());
  if (!fate.host.empty()) text += " on " + MakePrintable(fate.host);
  if (fate.end.pid() != 0) text += " (pid " + std::to_string(fate.end.pid()) + ")";
  return text + (fate.end.signal() != 0 ? " was killed by " : " ended with ") +
         HowBriefly(fate.end);
}

std::vector<std::string> FailureSummary(const std::string& job, const std::vector<RankFate>& fates,
                                        const v1::LaunchOutcome& outcome) {
  const RankFate* const first = FirstFailure(fates, outcome);
  if (first == nullptr) return {};
  std::vector<std::string> lines;
  lines.push_back("job " + MakePrintable(job) + " failed: " + DescribeEnd(*first));
  if (first->end.signal() == SIGKILL) lines.back() += "; did the machine run out of memory?";
  // A failure of the shrunk group cannot explain an earlier one.
  const bool explains = outcome.size() == fates.size() || outcome.pid() == first->end.pid();
  if (!outcome.code().empty() && explains)
    lines.push_back("mlxcommd reported " + outcome.code() + ": " + MakePrintable(outcome.detail()));
  std::string others;
  std::size_t count = 0;
  for (const RankFate& fate : fates) {
    if (&fate == first || !FailedByItself(fate) || count++ >= kOthersNamed) continue;
    others += (others.empty() ? "" : ", ") + ("rank " + std::to_string(fate.end.rank())) + " (" +
              HowBriefly(fate.end) + ")";
  }
  if (count > kOthersNamed) others += " and " + std::to_string(count - kOthersNamed) + " more";
  if (count > 0) lines.push_back("then failed: " + others);
  return lines;
}

v1::LaunchOutcome OutcomeOf(const v1::StatusReply& status, const std::string& name,
                            std::uint64_t age_ms, bool& running) {
  v1::LaunchOutcome outcome;
  outcome.set_is_known(true);
  for (const v1::JobStatus& job : status.jobs()) {
    if (job.name() != name) continue;
    outcome.set_joined(true);
    running = running || job.state() != "forming";
  }
  for (const v1::EndedJob& job : status.ended_jobs()) {
    // Ignore an earlier run of this name.
    if (job.name() != name || job.ended_ms_ago() >= age_ms) continue;
    outcome.set_joined(true);
    outcome.set_first_lost_pid(job.first_lost_pid());
    if (!outcome.code().empty() || job.code().empty()) continue;
    outcome.set_code(job.code());
    outcome.set_detail(job.detail());
    outcome.set_pid(job.pid());
    outcome.set_size(job.size());
  }
  return outcome;
}

}  // namespace mlxcomm::ctl
