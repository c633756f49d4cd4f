// mlxcommctl jobs and mlxcommctl kill.
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "client/ctl/cli/command_line.h"
#include "client/ctl/cli/json_text.h"
#include "client/ctl/cli/output.h"
#include "client/ctl/cli/quantities.h"
#include "client/ctl/cli/terminal.h"
#include "client/ctl/cli/text.h"
#include "client/ctl/daemon/daemon_call.h"
#include "client/ctl/jobs/render_jobs.h"

namespace mlxcomm::ctl {
namespace {

constexpr auto kBetweenKillLooks = std::chrono::milliseconds(100);

struct JobsOptions {
  std::string socket_path;
  bool json = false;
};

struct KillOptions {
  std::string socket_path;
  std::string job;
  std::uint64_t grace_ns = 5'000'000'000;
  bool json = false;
};

int RunJobs(const JobsOptions& options) {
  v1::StatusReply status;
  if (const Failure failure = FetchStatus(options.socket_path, status); !failure.ok())
    return ReportFailure(failure);
  v1::JobList list = JobsOf(status);
  return WriteOut(
      options.json ? JsonOf(std::move(list)) + "\n" : RenderJobList(list, ColoursWanted()), "jobs");
}

// The ranks that are still there, of all jobs of that name.
struct RanksLeft {
  std::vector<v1::RankStatus> ranks;
  std::string own_node;
};
Failure LookForRanks(const KillOptions& options, RanksLeft& left) {
  v1::StatusReply status;
  if (Failure failure = FetchStatus(options.socket_path, status); !failure.ok()) return failure;
  left = {{}, status.node()};
  for (const v1::JobStatus& job : status.jobs()) {
    if (job.name() == options.job)
      left.ranks.insert(left.ranks.end(), job.ranks().begin(), job.ranks().end());
  }
  return {};
}

Failure NoSuchJob(const KillOptions& options) {
  v1::StatusReply status;
  if (Failure failure = FetchStatus(options.socket_path, status); !failure.ok()) return failure;
  std::vector<std::string> names;
  for (const v1::JobStatus& job : status.jobs()) names.push_back(job.name());
  return {FailureCode::kInvalidArgument, kNoRank,
          "no job \"" + Shown(options.job) + "\"" + DidYouMean(options.job, names) +
              (names.empty() ? "; none runs" : "; mlxcommctl jobs lists them")};
}

std::string WhereOf(const v1::RankStatus& rank) {
  return "rank " + std::to_string(rank.rank()) + " on " + Shown(rank.node()) + " (pid " +
         std::to_string(rank.pid()) + ")";
}

// Waits until no rank is left, and asks the processes of this node to end when the grace is over: a signal
// reaches those that compute, too. A daemon that has ended was a private one, and its job is over.
Failure AwaitEnd(const KillOptions& options, RanksLeft& left) {
  const auto grace = std::chrono::nanoseconds(options.grace_ns);
  const auto begun = std::chrono::steady_clock::now();
  bool asked = false;
  for (;;) {
    if (Failure failure = LookForRanks(options, left); !failure.ok()) {
      left.ranks.clear();
      return failure.code == FailureCode::kUnavailable ? Failure{} : failure;
    }
    const auto waited = std::chrono::steady_clock::now() - begun;
    if (left.ranks.empty() || waited >= 2 * grace + kBetweenKillLooks) return {};
    if (waited >= grace && !std::exchange(asked, true)) {
      for (const v1::RankStatus& rank : left.ranks) {
        if (rank.node() == left.own_node && rank.pid() > 1)
          ::kill(static_cast<pid_t>(rank.pid()), SIGTERM);
      }
    }
    std::this_thread::sleep_for(kBetweenKillLooks);
  }
}

int RunKill(const KillOptions& options) {
  RanksLeft left;
  if (const Failure failure = LookForRanks(options, left); !failure.ok())
    return ReportFailure(failure);
  if (left.ranks.empty()) return ReportFailure(NoSuchJob(options));
  const std::size_t ranks = left.ranks.size();
  v1::EndJobReply reply;
  if (const Failure failure = EndJob(options.socket_path, options.job, reply); !failure.ok()) {
    const bool is_elsewhere = failure.code == FailureCode::kInvalidArgument;
    return Fail(kExitFailed, failure.message + (is_elsewhere ? ": run mlxcommctl kill on " +
                                                                   Shown(left.ranks.front().node())
                                                             : ""));
  }
  if (const Failure failure = AwaitEnd(options, left); !failure.ok()) return ReportFailure(failure);
  v1::KillReport report;
  report.set_job(options.job);
  report.set_ranks(static_cast<std::uint32_t>(ranks));
  for (const v1::RankStatus& rank : left.ranks) report.add_left(WhereOf(rank));
  const int code = left.ranks.empty() ? 0 : kExitFailed;
  std::string text;
  if (options.json) {
    text = JsonOf(std::move(report)) + "\n";
  } else if (left.ranks.empty()) {
    text = "job " + Shown(options.job) + " ended: " + Plural(ranks, "rank") + "\n";
  }
  if (const int failed = WriteOut(text, "kill"); failed != 0) return failed;
  if (code == 0 || options.json) return code;
  std::string names;
  for (const v1::RankStatus& rank : left.ranks)
    names += (names.empty() ? "" : ", ") + WhereOf(rank);
  return Fail(code, "job " + Shown(options.job) + " was failed, but did not end: " + names +
                        " is still there; kill -9 its process");
}

}  // namespace

Run AddJobs(CLI::App& jobs, const Invocation&) {
  const auto made = std::make_shared<JobsOptions>();
  JobsOptions& options = *made;
  AddSocket(jobs, options.socket_path);
  jobs.add_flag("--json", options.json, "For programs (JobList of ctl.proto)");
  jobs.footer(
      R"(Jobs that run or still wait for ranks, and those that ended within the last ten minutes.
A user sees its own; root, the daemon's own user and the operators see all.)");
  return [made] { return RunJobs(*made); };
}

Run AddKill(CLI::App& kill, const Invocation&) {
  const auto made = std::make_shared<KillOptions>();
  KillOptions& options = *made;
  kill.add_option("job", options.job, "Name of the job")->required()->type_name("JOB");
  AddSocket(kill, options.socket_path);
  AddDuration(kill, "--grace", options.grace_ns, 0, 3600'000'000'000,
              "Give the ranks this long to end before SIGTERM (5s)");
  kill.add_flag("--json", options.json, "For programs (KillReport of ctl.proto)");
  kill.footer(
      R"(Every rank's pending and next operation raises CANCELLED, on all nodes. Ranks of this node
that are still there after --grace get SIGTERM. The exit code is 0 once no rank is left, and
1 if one still is. Run it on a node that has a rank of the job.)");
  return [made] { return RunKill(*made); };
}

}  // namespace mlxcomm::ctl
