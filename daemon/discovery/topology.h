// What the cables between nodes form, and in which order the nodes make a ring: a pure function of who is
// connected to whom, so that all nodes that see the same cables give the same answer, before and after a
// node has been restarted. README.md, Topology, has the rules.
//
// Owner: functions and plain values. Thread: any. Memory: nodes times nodes bits.
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
    std::string id;  // Its order is decided by the name, then by this.
    std::string name;
  };
  // One interface of each of two different nodes, which are indexes into `nodes`.
  struct Cable {
    std::size_t from = 0;
    std::string from_interface;
    std::size_t to = 0;
    std::string to_interface;
  };
  std::vector<Node> nodes;
  std::vector<Cable> cables;  // Those that carry something.
};

struct Topology {
  std::string_view shape = "alone";  // Or "pair", "ring", "line", "mesh", "switch", "other".
  std::vector<std::size_t> ring;     // All nodes, each once.
  bool ring_closed = false;          // Each is joined to the next, and the last to the first.
  std::vector<std::uint32_t>
      switches;  // Of each cable: which one it goes through, from 1; 0: none.
};

inline constexpr std::size_t kTriesMax = 200'000;

Topology FindTopology(const Wiring& wiring);

// The answer of a Topology call, from what the nodes have reported for Status: nodes, each cable
// once though both of its ends report it, and what they form.
//
// A cable is up if either end says so, and as fast as the slower end says; a cable is up at one
// end only for a moment. Lost nodes are listed, but are no part of the shape.
v1::TopologyReply TopologyOf(const v1::StatusReply& status);

}  // namespace mlxcomm::discovery
