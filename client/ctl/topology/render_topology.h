// A TopologyReply as text for people: nodes, the ring, cables. Pure functions.
#pragma once

#include <string>

#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::ctl {

inline constexpr const char* kRatesAre = "at best, in the slower direction";

std::string RenderTopology(const v1::TopologyReply& topology, bool colours);

// The name of the node with this id; the id where no node has it.
std::string NodeNameIn(const v1::TopologyReply& topology, const std::string& id);
// "3.2 GB/s, 40.0 us"; "not measured yet".
std::string CableFigures(const v1::TopologyCable& cable);
// For a picture: the same, and whether a side rail is up; "down".
std::string CableLabel(const v1::TopologyCable& cable);
// The rails with their speeds, and the reasons of missing ones; empty if it has TCP only and no other was
// tried.
std::string RailsOn(const v1::TopologyCable& cable);

}  // namespace mlxcomm::ctl
