// Renders a TopologyReply as text: nodes, the ring, cables. Pure functions.
#pragma once

#include <string>

#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::ctl {

std::string RenderTopology(const v1::TopologyReply& topology, bool colours);

// Returns the name of the node with this id, or the id if there is none.
std::string NodeNameIn(const v1::TopologyReply& topology, const std::string& id);

}  // namespace mlxcomm::ctl
