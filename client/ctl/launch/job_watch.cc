#include "client/ctl/launch/job_watch.h"

#include <thread>
#include <utility>

#include "client/ctl/launch/failure_summary.h"

namespace mlxcomm::ctl {
namespace {

constexpr std::chrono::milliseconds kBetweenTries{50};
constexpr std::uint64_t kDialTimeoutNs = 200'000'000;

std::uint64_t MsSince(Clock::time_point then) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - then).count());
}

}  // namespace

void JobWatch::Begin(std::string job, std::string socket_path) {
  job_ = std::move(job);
  socket_path_ = std::move(socket_path);
  begun_ = try_at_ = Clock::now();
}

void JobWatch::Turn(Clock::time_point now) {
  if (session_ != nullptr && session_->has_ended()) session_.reset();
  if (session_ != nullptr || now < try_at_) return;
  session_ = LauncherSession::Open(socket_path_, kDialTimeoutNs);
  // One that does not answer must not hold up the ranks' output.
  const bool is_slow = Clock::now() - now > kBetweenTries;
  try_at_ = Clock::now() + (is_slow ? kPatience : kBetweenTries);
}

bool JobWatch::Ask(v1::StatusReply& status) {
  Turn(Clock::now());
  if (session_ == nullptr) return false;
  constexpr auto kTimeout = std::chrono::nanoseconds(kPatience);
  return session_->FetchStatus(status, static_cast<std::uint64_t>(kTimeout.count())).ok();
}

std::vector<unsigned> JobWatch::NotJoined(const std::vector<unsigned>& ranks) {
  v1::StatusReply status;
  if (!Ask(status)) return ranks;
  std::vector<unsigned> missing = ranks;
  for (const v1::JobStatus& job : status.jobs()) {
    if (job.name() != job_) continue;
    if (job.state() != "forming") return {};
    for (const v1::RankStatus& rank : job.ranks()) std::erase(missing, rank.rank());
  }
  return missing;
}

JobOutcome JobWatch::Outcome() {
  const auto until = Clock::now() + kPatience;
  for (;;) {
    v1::StatusReply status;
    if (!Ask(status)) return {};
    bool running = false;
    const JobOutcome outcome = OutcomeOf(status, job_, MsSince(begun_), running);
    if (!running || Clock::now() >= until) return outcome;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // Until it sees that they ended.
  }
}

}  // namespace mlxcomm::ctl
