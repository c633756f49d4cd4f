// Which rank of a job failed first, and the sentences that say so at the end of a launch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mlxcomm/v1/diagnostics.pb.h"
#include "mlxcomm/v1/launch.pb.h"

namespace mlxcomm::ctl {

// The exit code that a shell would report: 128 plus the number of the signal that ended the rank.
int CodeOfEnd(const v1::LaunchEnded& end);

// How a rank ended, in the order in which launch learned of it.
struct RankFate {
  v1::LaunchEnded end;
  std::string host;    // Empty: there is one host.
  bool asked = false;  // Launch had asked it to end.
};

// The one whose exit code is launch's. The daemon saw who left first, whereas a rank that failed for want
// of another may end before that one does. nullptr: none failed by itself.
const RankFate* FirstFailure(const std::vector<RankFate>& fates, const v1::LaunchOutcome& outcome);

// "rank 1 on mac-b (pid 7) was killed by SIGKILL"
std::string DescribeEnd(const RankFate& fate);
// Lines for standard error, without "mlxcommctl: "; none where no rank failed by itself.
std::vector<std::string> FailureSummary(const std::string& job, const std::vector<RankFate>& fates,
                                        const v1::LaunchOutcome& outcome);

// What a status says of a job that began `age_ms` ago; `running` is set if it still has ranks.
v1::LaunchOutcome OutcomeOf(const v1::StatusReply& status, const std::string& job,
                            std::uint64_t age_ms, bool& running);

// "SIGKILL"; "signal 62" where it has no common name.
std::string SignalName(int signal);

}  // namespace mlxcomm::ctl
