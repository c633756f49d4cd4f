// What the cables between nodes form, and in which order the nodes make a ring: a pure
// function of who is joined to whom, so that all nodes that see the same cables say the
// same, before and after a node has been restarted.
//
// A port is an interface of a node. Ports that cables join belong together; where more than
// two do, they are on a switch, else it is a cable between two nodes.
//
//   1. Cables between nodes decide, if they connect all: line, ring, mesh; else other.
//      So Macs in a ring of Thunderbolt cables are a ring, also where all are on the
//      office's switch besides.
//   2. Else a switch that all are on.
//
// The ring goes over cables between nodes if they have one, else over all; if neither has,
// it is the longest line that there is of all nodes, else the nodes as met from the first
// on. It begins with the first node by name and goes on to the first of its neighbours.
// Only so many ways are tried (kTriesMax): graphs that need more have an order all the same.
//
// Owner: functions and plain values. Thread: any. Memory: nodes times nodes bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace mlxcomm::cluster {

enum class Shape : std::uint8_t { kAlone, kPair, kRing, kLine, kMesh, kSwitch, kOther };
std::string NameOf(Shape shape);

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
  Shape shape = Shape::kAlone;
  std::vector<std::size_t> ring;  // All nodes, each once.
  bool ring_closed = false;       // Each is joined to the next, and the last to the first.
  std::vector<std::uint32_t>
      switches;  // Of each cable: which one it goes through, from 1; 0: none.
};

inline constexpr std::size_t kTriesMax = 200'000;

Topology FindTopology(const Wiring& wiring);

}  // namespace mlxcomm::cluster
