#include "client/ctl/launch/job_watch.h"

#include <sys/stat.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "client/ctl/launch/failure_summary.h"
#include "proto/queue/dial.h"

namespace mlxcomm::ctl {
namespace {

constexpr std::chrono::milliseconds kBetweenTries{50};
constexpr std::chrono::milliseconds kAfterRefusal{5000};
constexpr std::chrono::milliseconds kBetweenOutcomePolls{50};
constexpr std::uint64_t kDialTimeoutNs = 500'000'000;  // A private daemon may be starting.

}  // namespace

void JobWatch::Begin(std::string job, std::string socket_path) {
  job_ = std::move(job);
  socket_path_ = std::move(socket_path);
  begun_ = try_at_ = Clock::now();
  begun_unix_ = std::time(nullptr);
}

void JobWatch::Turn(Clock::time_point now) {
  if (session_ != nullptr && session_->has_ended()) session_.reset();
  if (session_ != nullptr || now < try_at_) return;
  const Failure failure = LauncherSession::Open(socket_path_, kDialTimeoutNs, session_);
  // A daemon that refuses will refuse again; one that does not answer must not delay the ranks'
  // output.
  const bool is_refused = !failure.ok() && failure.code != FailureCode::kUnavailable;
  const auto taken = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - now);
  try_at_ = Clock::now() + (is_refused ? kAfterRefusal : std::max(kBetweenTries, taken));
}

bool JobWatch::Ask(v1::StatusReply& status) {
  try_at_ = std::min(try_at_, Clock::now());
  Turn(Clock::now());
  if (session_ == nullptr) return false;
  constexpr auto kTimeout = std::chrono::nanoseconds(kPatience);
  return session_->FetchStatus(status, static_cast<std::uint64_t>(kTimeout.count())).ok();
}

// A private daemon may have run between two polls; each daemon writes a new log when it starts.
bool JobWatch::DaemonWasStarted() const {
  struct stat facts{};
  const std::string log = queue::PrivateLogFile(queue::PrivateSocketPath());
  return ::stat(log.c_str(), &facts) == 0 && facts.st_mtime >= begun_unix_;
}

std::vector<unsigned> JobWatch::NotJoined(const std::vector<unsigned>& ranks) {
  v1::StatusReply status;
  if (!Ask(status)) return DaemonWasStarted() ? std::vector<unsigned>() : ranks;
  std::vector<unsigned> missing = ranks;
  for (const v1::JobStatus& job : status.jobs()) {
    if (job.name() != job_) continue;
    joined_ = true;
    if (job.state() != "forming") return {};
    for (const v1::RankStatus& rank : job.ranks()) std::erase(missing, rank.rank());
  }
  return missing;
}

v1::LaunchOutcome JobWatch::Outcome() {
  const auto until = Clock::now() + kPatience;
  for (;;) {
    v1::StatusReply status;
    v1::LaunchOutcome outcome;
    bool running = false;
    if (Ask(status)) {
      const auto age = (Clock::now() - begun_) / std::chrono::milliseconds(1);
      outcome = OutcomeOf(status, job_, static_cast<std::uint64_t>(age), running);
    } else {
      outcome.set_is_known(!DaemonWasStarted());
    }
    outcome.set_joined(outcome.joined() || joined_);
    if (!running || Clock::now() >= until) return outcome;
    std::this_thread::sleep_for(kBetweenOutcomePolls);
  }
}

}  // namespace mlxcomm::ctl
