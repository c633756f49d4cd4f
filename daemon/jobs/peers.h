// The other nodes, as the state machines of this folder see them. Their ports are made of this and of
// what each of them decides.
//
// Owner: node::Node and node::Jobs implement it. Thread: the node's.
#pragma once

#include "mlxcomm/v1/peer.pb.h"
#include "proto/types/node_id.h"

namespace mlxcomm::jobs {

class Peers {
 public:
  virtual ~Peers() = default;
  virtual void SendToNode(const NodeId& node, const v1::PeerMessage& message) = 0;
  // It is up, or its link waits for a rail to come back.
  virtual bool IsReachable(const NodeId& node) const = 0;
};

}  // namespace mlxcomm::jobs
