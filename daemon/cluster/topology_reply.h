// The answer of a Topology call, from what the nodes have reported for Status: nodes, each cable
// once though both of its ends report it, and what they form (topology.h).
//
// A cable is up if either end says so, and as fast as the slower end says; a cable is up at one
// end only for a moment. Lost nodes are listed, but are no part of the shape.
#pragma once

#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::cluster {

v1::TopologyReply TopologyOf(const v1::StatusReply& status);

}  // namespace mlxcomm::cluster
