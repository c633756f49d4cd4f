#include "daemon/node/system_checks.h"

#include <utility>

namespace mlxcomm::node {

void SystemChecks::Ask(std::uint64_t now_ns, Asker asker) {
  if (seen_ns_ != 0 && now_ns - seen_ns_ < kKeptNs) return asker(seen_);
  if (waiting_.empty()) give_up_ns_ = now_ns + kPatienceNs;
  waiting_.push_back(std::move(asker));
  if (!std::exchange(looking_, true)) port_.CheckSystem();
}

void SystemChecks::OnSystemChecked(v1::NodeCheckup seen, std::uint64_t now_ns) {
  looking_ = false;
  seen_ = std::move(seen);
  seen_ns_ = now_ns;
  AnswerAll();
}

void SystemChecks::OnTime(std::uint64_t now_ns) {
  if (now_ns < NextDeadline()) return;
  if (now_ns - seen_ns_ >= kTooOldNs) seen_.Clear();
  AnswerAll();
}

void SystemChecks::AnswerAll() {
  for (const Asker& asker : std::exchange(waiting_, {})) asker(seen_);
}

}  // namespace mlxcomm::node
