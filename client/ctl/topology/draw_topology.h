// Draws a TopologyReply for Graphviz: nodes on a circle, sorted by name; a line with figures and
// interfaces for each cable, thick in the ring, dashed and red if it is down.
#pragma once

#include <complex>
#include <string>

#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::ctl {

// Quotes a string and keeps its line breaks.
std::string DotString(const std::string& text);
// The position attribute of a node.
std::string DotAt(std::complex<double> place);

std::string DrawTopology(const v1::TopologyReply& topology);

}  // namespace mlxcomm::ctl
