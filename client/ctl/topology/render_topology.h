// Renders a TopologyReply as text: nodes, the ring, cables. Pure functions.
#pragma once

#include <string>

#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::ctl {

inline constexpr const char* kRatesAre = "at best, in the slower direction";

std::string RenderTopology(const v1::TopologyReply& topology, bool colours);

// Returns the name of the node with this id, or the id if there is none.
std::string NodeNameIn(const v1::TopologyReply& topology, const std::string& id);
// "3.2 GB/s, 40.0 us"; "not measured yet".
std::string CableFigures(const v1::TopologyCable& cable);
// The picture's label: CableFigures, and the transport beside TCP or that it is missing; or "down".
std::string CableLabel(const v1::TopologyCable& cable);
// Rails with their rates, or why one is missing; "" if only TCP was tried.
std::string RailsOn(const v1::TopologyCable& cable);

}  // namespace mlxcomm::ctl
