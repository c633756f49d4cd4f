// Answers what doctor asks of every node: the interfaces, limits and clock of its machine.
// Examining a machine takes a thousand times as long as a turn, and any user may ask, so it is done
// on another thread (NodePort::CheckSystem), at most once a second; callers in between wait for the
// next examination.
//
//   Doctor, Probe of another node ─fresh enough─▶ the answer
//                   └─▶ CheckSystem ─▶ OnSystemChecked, or kPatienceNs ─▶ all answers
//
// Owner: Node. Thread: the node's; time is an argument. Memory: at most kWaitingMax waiting
// callers and one of this node, and the last result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "daemon/node/node_port.h"
#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::node {

class SystemChecks {
 public:
  static constexpr std::size_t kWaitingMax = 256;
  static constexpr std::uint64_t kKeptNs = 1'000'000'000;
  static constexpr std::uint64_t kPatienceNs = 500'000'000;
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};
  static constexpr std::uint64_t kTooOldNs = 10'000'000'000;
  // Receives the last result; null if no examination has ended within kTooOldNs.
  using Asker = std::function<void(const v1::NodeCheckup&)>;

  explicit SystemChecks(NodePort& port) : port_(port) {}

  // If no room is left, only calls of this node may ask, one at a time (Node::Doctor).
  bool HasRoom() const { return waiting_.size() < kWaitingMax; }
  void Ask(std::uint64_t now_ns, Asker asker);
  void OnSystemChecked(v1::NodeCheckup seen, std::uint64_t now_ns);
  void OnTime(std::uint64_t now_ns);
  std::uint64_t NextDeadline() const { return waiting_.empty() ? kNever : give_up_ns_; }
  // No caller is answered any more.
  void Clear() { waiting_.clear(); }

 private:
  void AnswerAll();

  NodePort& port_;
  v1::NodeCheckup seen_;
  std::uint64_t seen_ns_ = 0;  // 0: never.
  bool looking_ = false;
  std::uint64_t give_up_ns_ = 0;
  std::vector<Asker> waiting_;
};

}  // namespace mlxcomm::node
