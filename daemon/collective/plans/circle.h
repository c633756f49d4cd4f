// The nodes of a group as a circle that is walked in either direction, so that a ring planner is
// written once, for "the next" and "the one before".
//
// Way 0 goes towards higher node numbers, way 1 towards lower ones. A place on the
// circle is counted in the direction of the way.
//
// Owner: a planner, for one call. Thread: the loop's. Memory: a plain value.
#pragma once

#include <cstdint>

#include "daemon/collective/plan.h"

namespace mlxcomm::collective {

struct Circle {
  int nodes = 1;
  int way = 0;

  int Around(int place) const { return ((place % nodes) + nodes) % nodes; }
  // The two are their own inverse.
  int PlaceOf(int node) const { return way == 0 ? node : Around(-node); }
  int NodeAt(int place) const { return way == 0 ? Around(place) : Around(-place); }
};

// With two nodes both ways lead to the same neighbour.
inline int WaysAround(int nodes) { return nodes > 2 ? 2 : 1; }

// Calls fill(way, its share of the elements) for each way.
template <typename Fill>
void ForEachWay(int nodes, std::uint64_t elements, Fill fill) {
  const auto ways = static_cast<std::uint64_t>(WaysAround(nodes));
  for (std::uint64_t way = 0; way < ways; ++way) {
    fill(static_cast<int>(way), PartOf(elements, ways, way));
  }
}

}  // namespace mlxcomm::collective
