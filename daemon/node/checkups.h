// What doctor asks of every node: what its machine has (interfaces, limits, clock). To look at a machine
// takes a thousand times as long as a turn, and anybody may ask, so it is done aside
// (NodePort::LookAtSystem), at most once a second; who asks meanwhile waits for the next look's end.
//
//   Doctor, Probe of another node ─fresh enough─▶ the answer
//                   └─▶ LookAtSystem ─▶ OnSystemSeen, or kPatienceNs ─▶ all answers
//
// Owner: Node. Thread: the node's; time is an argument. Memory: at most kWaitingMax who wait; what was
// seen last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "daemon/node/node_port.h"
#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::node {

class Checkups {
 public:
  static constexpr std::size_t kWaitingMax = 256;
  static constexpr std::uint64_t kKeptNs = 1'000'000'000;
  static constexpr std::uint64_t kPatienceNs = 500'000'000;
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};
  // Is given what was seen last; nothing but zeros if that never ended.
  using Asker = std::function<void(const v1::NodeCheckup&)>;

  explicit Checkups(NodePort& port) : port_(port) {}

  // False: too many wait already.
  [[nodiscard]] bool Ask(std::uint64_t now_ns, Asker asker);
  void OnSystemSeen(v1::NodeCheckup seen, std::uint64_t now_ns);
  void OnTime(std::uint64_t now_ns);
  std::uint64_t NextDeadline() const { return waiting_.empty() ? kNever : give_up_ns_; }
  // Nobody is answered any more.
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
