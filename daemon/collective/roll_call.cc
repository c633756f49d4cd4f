#include "daemon/collective/roll_call.h"

#include <algorithm>
#include <utility>

namespace mlxcomm::collective {

std::uint64_t RollCall::Begin(const RankWaits& own, std::uint64_t now_ns) {
  open_ = true;
  deadline_ns_ = now_ns + kAnswerWaitNs;
  stopped_ns_.resize(layout_.rank_count(), kNotStopped);
  known_.assign(layout_.rank_count(), Known{});
  answered_.assign(layout_.node_count(), 0);
  Note(layout_.self(), own);
  return ++number_;
}

void RollCall::Note(std::uint16_t node, const RankWaits& waits) {
  for (const v1::RankWait& wait : waits) {
    if (wait.rank() >= layout_.rank_count() || layout_.node_of(wait.rank()) != node) continue;
    known_[wait.rank()] = {true, wait};
  }
  if (node < answered_.size()) answered_[node] = 1;
}

void RollCall::OnAnswer(std::uint16_t node, std::uint64_t number, const RankWaits& waits) {
  if (open_ && number == number_) Note(node, waits);
}

void RollCall::OnNodeLost(std::uint16_t node) {
  if (open_) answered_[node] = 1;
}

bool RollCall::CloseIfDue(std::uint64_t now_ns) {
  if (!open_) return false;
  const bool all =
      std::ranges::all_of(answered_, [](std::uint8_t answered) { return answered != 0; });
  if (!all && now_ns < deadline_ns_) return false;
  open_ = false;
  closed_ns_ = now_ns;
  last_ = known_;
  for (std::size_t rank = 0; rank < known_.size(); ++rank) {
    const bool stopped = known_[rank].reported && known_[rank].wait.stopped();
    stopped_ns_[rank] = stopped ? std::min(stopped_ns_[rank], now_ns) : kNotStopped;
  }
  return true;
}

RollCall::Verdict RollCall::Judge(const std::vector<std::uint32_t>& awaited,
                                  std::uint64_t long_ns) const {
  std::vector<std::uint32_t> pending = awaited;
  std::vector<std::uint8_t> seen(known_.size(), 0);
  std::vector<std::uint32_t> waiting;
  bool may_come = false;
  bool all_send = true;
  while (!pending.empty()) {
    const std::uint32_t rank = pending.back();
    pending.pop_back();
    if (rank >= known_.size()) continue;
    if (seen[rank] != 0) continue;
    seen[rank] = 1;
    const Known& known = known_[rank];
    const bool stopped = known.reported && known.wait.stopped() && !known.wait.waits();
    if (stopped && closed_ns_ - stopped_ns_[rank] >= std::min(kStoppedNs, long_ns))
      return {Prospect::kStopped, rank, {}, false};
    if (!known.reported || !known.wait.waits() || known.wait.waited_ms() * 1'000'000 < long_ns ||
        known.wait.awaits_more()) {
      may_come = true;  // Another rank may still be stopped.
      continue;
    }
    waiting.push_back(rank);
    all_send = all_send && known.wait.sends();
    pending.insert(pending.end(), known.wait.awaited().begin(), known.wait.awaited().end());
  }
  if (may_come) return {};
  std::ranges::sort(waiting);
  return {Prospect::kAllWait, 0, std::move(waiting), all_send};
}

}  // namespace mlxcomm::collective
