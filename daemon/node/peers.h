// The other nodes, as needed by the parts of a node that query them. Node implements it.
#pragma once

#include "mlxcomm/v1/peer.pb.h"
#include "proto/types/node_id.h"

namespace mlxcomm::node {

class Peers {
 public:
  virtual ~Peers() = default;
  virtual void SendToNode(const NodeId& node, const v1::PeerMessage& message) = 0;
  // True if its link is up, or waits for a rail to come back.
  virtual bool IsReachable(const NodeId& node) const = 0;
};

}  // namespace mlxcomm::node
