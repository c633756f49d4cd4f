// The answer of a Topology call, of what the nodes have told for Status: nodes, each cable
// once though both of its ends tell of it, and what they form (topology.h).
//
// A cable is up if either end says so, and as fast as the slower end says; to be up at one end
// only is what a cable is for a moment. Nodes that are lost are told, but are no part of the shape.
#pragma once

#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::cluster {

v1::TopologyReply TopologyOf(const v1::StatusReply& status);

}  // namespace mlxcomm::cluster
