// A TopologyReply as a picture: nodes on a circle in ring order, every cable a line of its
// own with its rate, the ring's way behind them. Pure functions, tested by their text.
//
// As SVG it needs no other program, and is legible on light and on dark pages.
#pragma once

#include <string>

#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::ctl {

std::string DrawTopologySvg(const v1::TopologyReply& topology);
// For Graphviz (neato or circo).
std::string DrawTopologyDot(const v1::TopologyReply& topology);

}  // namespace mlxcomm::ctl
