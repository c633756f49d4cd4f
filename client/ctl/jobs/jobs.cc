// mlxcommctl jobs and mlxcommctl kill.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "client/ctl/cli/command_line.h"
#include "client/ctl/cli/json_text.h"
#include "client/ctl/cli/output.h"
#include "client/ctl/cli/quantities.h"
#include "client/ctl/cli/terminal.h"
#include "client/ctl/cli/text.h"
#include "client/ctl/daemon/daemon_call.h"
#include "client/ctl/status/health.h"
#include "client/ctl/status/status_parts.h"
#include "mlxcomm/v1/ctl.pb.h"
#include "proto/types/did_you_mean.h"

namespace mlxcomm::ctl {
namespace {

constexpr auto kBetweenKillPolls = std::chrono::milliseconds(100);

struct JobsOptions {
  std::string socket_path;
  bool json = false;
};

struct KillOptions {
  std::string socket_path;
  std::string job;
  std::optional<std::string> user;
  std::uint64_t grace_ns = 5'000'000'000;
  bool json = false;
};

std::string NodesOf(const v1::JobStatus& job) {
  std::vector<std::string> nodes;
  for (const v1::RankStatus& rank : job.ranks()) {
    const std::string node = Shown(rank.node());
    if (std::ranges::find(nodes, node) == nodes.end()) nodes.push_back(node);
  }
  return absl::StrJoin(nodes, ", ");
}

AlignedRows::Row RowOfJob(const v1::JobStatus& job) {
  const auto there = static_cast<std::uint32_t>(job.ranks_size());
  const std::string ranks =
      (there < job.size() ? std::to_string(there) + " of " : "") + std::to_string(job.size());
  return {Shown(job.name()), Shown(job.state()), ranks, NodesOf(job), Shown(job.detail())};
}

AlignedRows::Row RowOfEnded(const v1::EndedJob& job) {
  std::string how = HumanTime(job.ended_ms_ago()) + " ago";
  if (!job.code().empty()) how += ": " + job.code() + ": " + job.detail();
  return {Shown(job.name()), HasFailed(job) ? "failed" : "ended", std::to_string(job.size()),
          job.code().empty() ? "" : Shown(job.node()), Shown(how)};
}

std::string RenderJobList(const v1::JobList& list, bool colours) {
  if (list.jobs_size() == 0 && list.ended_jobs_size() == 0) return "no jobs\n";
  const Painter paint(colours);
  constexpr std::size_t kState = 1;
  AlignedRows table;
  table.Add({"job", "state", "ranks", "nodes"});
  for (const v1::JobStatus& job : list.jobs()) table.Add(RowOfJob(job));
  for (const v1::EndedJob& job : list.ended_jobs()) table.Add(RowOfEnded(job));
  std::string text = table.Line(0, AlignedRows::kNoColour, paint) + "\n";
  for (std::size_t row = 1; row < table.size(); ++row)
    text += table.Line(row, kState, paint) + "\n";
  return text;
}

int RunJobs(const JobsOptions& options) {
  v1::StatusReply status;
  if (const Failure failure = FetchStatus(options.socket_path, status); !failure.ok())
    return ReportFailure(failure);
  v1::JobList list;
  *list.mutable_jobs() = status.jobs();
  *list.mutable_ended_jobs() = status.ended_jobs();
  if (!options.json) return WriteOut(RenderJobList(list, ColoursWanted()), "jobs");
  return WriteOut(JsonOf(std::move(list)) + "\n", "jobs");
}

constexpr std::uint64_t kKillTimeoutNs = 5'000'000'000;

class DoomedJob {
 public:
  explicit DoomedJob(const KillOptions& options) : options_(options) {}

  // The session keeps a private daemon running until the last reply.
  Failure Open() { return LauncherSession::Open(options_.socket_path, kKillTimeoutNs, session_); }
  // Finds the job. INVALID_ARGUMENT: there is none, or there are several.
  Failure Find() {
    v1::StatusReply status;
    if (Failure failure = session_->FetchStatus(status, kKillTimeoutNs); !failure.ok())
      return failure;
    std::vector<std::string> names;
    std::set<std::string> users;
    for (const v1::JobStatus& job : status.jobs()) {
      names.push_back(job.name());
      if (job.name() == options_.job && job.user() == options_.user.value_or(job.user()))
        users.insert(job.user());
    }
    if (users.size() == 1) {
      request_.set_job(options_.job);
      request_.set_user(*users.begin());
      return Poll();
    }
    const std::string job = "job \"" + Shown(options_.job) + "\"";
    std::string why = users.empty()
                          ? "no " + job + DidYouMean(options_.job, names) +
                                (names.empty() ? "; none runs" : "; mlxcommctl jobs lists them")
                          : "several users have a " + job + "; name one (--user):";
    for (const std::string& user : users) why += " " + Shown(user);
    return Invalid(why);
  }
  Failure Poll() {
    v1::StatusReply status;
    if (Failure failure = session_->FetchStatus(status, kKillTimeoutNs); !failure.ok())
      return failure;
    ranks_.clear();
    for (const v1::JobStatus& job : status.jobs()) {
      if (job.name() != request_.job() || job.user() != request_.user()) continue;
      ranks_.insert(ranks_.end(), job.ranks().begin(), job.ranks().end());
    }
    return {};
  }
  Failure End(v1::EndJobReply& reply) { return session_->EndJob(request_, reply); }
  // A job ends with its daemon.
  bool daemon_has_ended() const { return session_->has_ended(); }
  const std::vector<v1::RankStatus>& ranks() const { return ranks_; }
  std::vector<std::string> Places() const {
    std::vector<std::string> places;
    for (const v1::RankStatus& rank : ranks_) {
      places.push_back("rank " + std::to_string(rank.rank()) + " on " + Shown(rank.node()) +
                       " (pid " + std::to_string(rank.pid()) + ")");
    }
    return places;
  }

 private:
  const KillOptions& options_;
  std::unique_ptr<LauncherSession> session_;
  v1::EndJobRequest request_;
  std::vector<v1::RankStatus> ranks_;
};

// Ends ranks that are computing. Signals only processes that are connected to the daemon now, and
// none if it sees different process numbers from ours.
void TerminateHere(DoomedJob& job) {
  v1::EndJobReply reply;
  if (!job.End(reply).ok() || reply.caller_pid() != static_cast<std::uint64_t>(::getpid())) return;
  for (const std::uint64_t pid : reply.pids()) {
    if (pid > 1) ::kill(static_cast<pid_t>(pid), SIGTERM);
  }
}

// Waits until no rank is left, at most for twice the grace; after the first one, ranks of this node
// get SIGTERM. Not ok if the daemon does not answer.
Failure AwaitEnd(const KillOptions& options, DoomedJob& job) {
  const auto grace = std::chrono::nanoseconds(options.grace_ns);
  const auto begun = std::chrono::steady_clock::now();
  bool asked = false;
  for (;;) {
    const Failure failure = job.Poll();
    if (job.daemon_has_ended() || (failure.ok() && job.ranks().empty())) return {};
    const auto waited = std::chrono::steady_clock::now() - begun;
    if (waited >= 2 * grace + kBetweenKillPolls) return failure;
    if (failure.ok() && waited >= grace && !std::exchange(asked, true)) TerminateHere(job);
    std::this_thread::sleep_for(kBetweenKillPolls);
  }
}

int RunKill(const KillOptions& options) {
  DoomedJob job(options);
  Failure failure = job.Open();
  if (failure.ok()) failure = job.Find();
  if (!failure.ok()) return ReportFailure(failure);
  const std::size_t ranks = job.ranks().size();
  const std::vector<std::string> places = job.Places();
  v1::EndJobReply reply;
  if (failure = job.End(reply); failure.code == FailureCode::kInvalidArgument && !places.empty())
    failure.message += ", but " + places.front() + " is running: run mlxcommctl kill on that node";
  if (failure.ok()) failure = AwaitEnd(options, job);
  if (!failure.ok()) return ReportFailure(failure);
  v1::KillReport report;
  report.set_job(options.job);
  report.set_ranks(static_cast<std::uint32_t>(ranks));
  const std::vector<std::string> left =
      job.daemon_has_ended() ? std::vector<std::string>() : job.Places();
  report.mutable_left()->Assign(left.begin(), left.end());
  std::string text = options.json ? JsonOf(std::move(report)) + "\n" : std::string();
  if (!options.json && left.empty())
    text = "job " + Shown(options.job) + " ended: " + Plural(ranks, "rank") + "\n";
  if (const int failed = WriteOut(text, "kill"); failed != 0) return failed;
  if (left.empty()) return 0;
  return Fail(kExitFailed, "job " + Shown(options.job) +
                               " was cancelled, but did not end: " + absl::StrJoin(left, ", ") +
                               "; for ranks of another node, run mlxcommctl kill there");
}

}  // namespace

Run AddJobs(CLI::App& jobs, const Invocation&) {
  const auto options = std::make_shared<JobsOptions>();
  AddSocket(jobs, options->socket_path);
  jobs.add_flag("--json", options->json, "Print JSON (JobList in ctl.proto)");
  jobs.footer(
      R"(Lists jobs that run or wait for ranks, and those that ended within the last ten minutes.
You see your own; root, the daemon's own user and the operators see all.)");
  return [options] { return RunJobs(*options); };
}

Run AddKill(CLI::App& kill, const Invocation&) {
  const auto options = std::make_shared<KillOptions>();
  kill.add_option("job", options->job, "Name of the job")->required()->type_name("JOB");
  AddSocket(kill, options->socket_path);
  AddDuration(kill, "--grace", options->grace_ns, 0, 3600'000'000'000,
              "Send SIGTERM to ranks that have not ended after this time (5s)");
  kill.add_option_function<std::string>(
          "--user", [options](const std::string& user) { options->user = user; },
          "End this user's job, if several users have one of that name")
      ->type_name("USER");
  kill.add_flag("--json", options->json, "Print JSON (KillReport in ctl.proto)");
  kill.footer(
      R"(Every rank's pending or next operation fails with CANCELLED, on all nodes. Ranks of this
node that have not ended after --grace get SIGTERM. The exit code is 0 if all ranks ended, 1
if not, and 3 if the daemon does not answer. Run it on a node that has a rank of the job. If
the job still waits for ranks, it ends the ranks of that node only.)");
  return [options] { return RunKill(*options); };
}

}  // namespace mlxcomm::ctl
