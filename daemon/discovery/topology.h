// The shape of the cables between nodes, and the order of the nodes in a ring: a pure function, so
// that all nodes that see the same cables give the same answer. README.md, Topology, has the rules.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::discovery {

struct Wiring {
  struct Node {
    std::string id;  // Nodes are ordered by name, then by id.
    std::string name;
  };
  // Joins two nodes, which are indexes into `nodes`.
  struct Cable {
    std::size_t from = 0;
    std::string from_interface;
    std::size_t to = 0;
    std::string to_interface;
  };
  std::vector<Node> nodes;
  std::vector<Cable> cables;  // Those that are up.
};

struct Topology {
  std::string_view shape = "alone";  // Or "pair", "ring", "line", "mesh", "switch", "other".
  std::vector<std::size_t> ring;     // All nodes, each once.
  bool ring_closed = false;          // Each is joined to the next, the last to the first.
  std::vector<std::uint32_t>
      switches;  // Keyed by cable: the number of its switch, from 1; 0: none.
};

inline constexpr std::size_t kTriesMax = 200'000;

Topology FindTopology(const Wiring& wiring);

// Answers a Topology call from the nodes' statuses. Both ends report a cable, which is listed once:
// it is up if either end reports it up, and as fast as the slower end reports. Lost nodes are
// listed, but do not count for the shape.
v1::TopologyReply TopologyOf(const v1::StatusReply& status);

}  // namespace mlxcomm::discovery
