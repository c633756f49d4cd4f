// Finds which rank of a job failed first, and writes the summary at the end of a launch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mlxcomm/v1/diagnostics.pb.h"
#include "mlxcomm/v1/launch.pb.h"

namespace mlxcomm::ctl {

// The exit code as a shell reports it: 128 plus the signal, if one ended the rank.
int CodeOfEnd(const v1::LaunchEnded& end);

// Describes how a rank ended.
struct RankFate {
  v1::LaunchEnded end;
  std::string host;    // Empty if there is only one host.
  bool asked = false;  // Launch had asked it to end.
};

// The rank whose exit code is launch's, by the daemon's report: a rank that failed because another
// was lost may end before that one. `fates` is in the order in which launch learned of them.
// nullptr: none failed.
const RankFate* FirstFailure(const std::vector<RankFate>& fates, const v1::LaunchOutcome& outcome);

// "rank 1 on mac-b (pid 7) was killed by SIGKILL"
std::string DescribeEnd(const RankFate& fate);
// Lines for standard error, without "mlxcommctl: "; none if no rank failed.
std::vector<std::string> FailureSummary(const std::string& job, const std::vector<RankFate>& fates,
                                        const v1::LaunchOutcome& outcome);

// The outcome, from a status, of a job that began `age_ms` ago. Sets `running` if it still has
// ranks.
v1::LaunchOutcome OutcomeOf(const v1::StatusReply& status, const std::string& job,
                            std::uint64_t age_ms, bool& running);

// "SIGKILL"; "signal 62" if it has no common name.
std::string SignalName(int signal);

}  // namespace mlxcomm::ctl
