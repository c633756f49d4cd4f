// A TopologyReply as a picture for Graphviz: nodes on a circle, in places that depend on their names
// alone, every cable a line of its own with its figures and interfaces; cables of the ring are thick,
// those that are down dashed and red.
#pragma once

#include <complex>
#include <string>

#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::ctl {

// A quoted string; a line break in `text` stays one.
std::string DotString(const std::string& text);
// That attribute of a node.
std::string DotAt(std::complex<double> place);

std::string DrawTopology(const v1::TopologyReply& topology);

}  // namespace mlxcomm::ctl
