// A group's nodes as a ring that is walked in either direction; places count in the direction.
// Direction 0 goes towards higher node numbers.
#pragma once

#include <cstdint>

#include "daemon/collective/plan.h"

namespace mlxcomm::collective {

struct Ring {
  int nodes = 1;
  int direction = 0;

  int Around(int place) const { return ((place % nodes) + nodes) % nodes; }
  // Each is its own inverse.
  int PlaceOf(int node) const { return direction == 0 ? node : Around(-node); }
  int NodeAt(int place) const { return direction == 0 ? Around(place) : Around(-place); }
};

// With two nodes, both directions lead to the same neighbour.
inline int DirectionCount(int nodes) { return nodes > 2 ? 2 : 1; }

// Calls fill(direction, its share of the elements) for each direction.
template <typename Fill>
void ForEachDirection(int nodes, std::uint64_t elements, Fill fill) {
  const auto directions = static_cast<std::uint64_t>(DirectionCount(nodes));
  for (std::uint64_t direction = 0; direction < directions; ++direction) {
    fill(static_cast<int>(direction), PartOf(elements, directions, direction));
  }
}

}  // namespace mlxcomm::collective
