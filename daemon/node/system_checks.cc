#include "daemon/node/system_checks.h"

#include <utility>

namespace mlxcomm::node {

bool SystemChecks::Ask(Caller caller, std::uint64_t now_ns, Asker asker) {
  if (seen_ns_ != 0 && now_ns - seen_ns_ < kKeptNs) {
    asker(seen_);
    return true;
  }
  const std::size_t room = caller == Caller::kLocal ? kWaitingMax : kWaitingMax - kKeptForLocal;
  if (waiting_.size() >= room) return false;
  if (waiting_.empty()) give_up_ns_ = now_ns + kPatienceNs;
  waiting_.push_back(std::move(asker));
  if (!std::exchange(looking_, true)) port_.CheckSystem();
  return true;
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
