// An answer that a test keeps, and where it was requested.
//
// Owner: a test. Thread: its own. Memory: the answer.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "daemon/node/answer.h"
#include "mlxcomm/v1/peer.pb.h"
#include "proto/types/node_id.h"

namespace mlxcomm::node {

inline NodeId IdOf(std::uint8_t number) {
  NodeId id;
  id.bytes[0] = number;
  return id;
}

template <typename Reply>
struct Heard {
  std::optional<Reply> reply;
  std::optional<Failure> failure;
  bool dropped = false;
};

template <typename Reply>
class KeptAnswer final : public Answer<Reply> {
 public:
  explicit KeptAnswer(Heard<Reply>& heard) : heard_(heard) {}
  ~KeptAnswer() override { heard_.dropped = !heard_.reply && !heard_.failure; }
  void Succeed(const Reply& reply) override { heard_.reply = reply; }
  void Fail(const Failure& failure) override { heard_.failure = failure; }

 private:
  Heard<Reply>& heard_;
};

struct Wire {
  void operator()(const NodeId& node, const v1::PeerMessage& message) {
    sent.emplace_back(node, message);
  }
  std::vector<std::pair<NodeId, v1::PeerMessage>> sent;
};

}  // namespace mlxcomm::node
