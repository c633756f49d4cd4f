// Who is linked to whom, as all nodes tell of themselves, and the ways that follow.
//
// Link-state routing: each node advertises its neighbours, numbered; advertisements are
// flooded, so every node comes to know the same graph and finds the shortest way by
// itself. A link counts only when both of its ends tell of it. Of ways of equal length
// the one over smaller node ids is taken.
//
// What is told comes in at once, ways are found anew when FindWays is called: once for
// many advertisements.
//
//   Take(advertisement) ─▶ kNewer: pass it on to the other neighbours
//                          kOlder: the sender is told the newer one
//                          kOwn:   of an earlier life; Own() has been numbered anew, flood it
//                          kKnown, kRefused: nothing
//
// What others tell is believed as far as it fits the bounds: all of them hold the
// cluster's key. Nodes that no way leads to are forgotten after kForgetNs; until then
// they are kept, for what they tell may have come faster than what leads to them.
//
// Sans-I/O, time is an argument. Owner: Router. Thread: engine. Memory: at most
// kNodesMax nodes of wire::kNeighboursMax neighbours each.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "proto/types/node_id.h"
#include "proto/wire/route.h"

namespace mlxcomm::fabric {

struct Advertisement {
  NodeId origin;
  std::uint64_t incarnation = 0;
  std::uint64_t number = 0;
  std::string name;
  std::vector<NodeId> neighbours;  // In order, each once.

  friend bool operator==(const Advertisement&, const Advertisement&) = default;
};

// The payload of a kTopology frame; nothing: it breaks a bound.
std::vector<std::byte> Encode(const Advertisement& advertisement);
std::optional<Advertisement> Decode(std::span<const std::byte> payload);

class RouteTable {
 public:
  static constexpr std::size_t kNodesMax = 1024;
  static constexpr std::uint64_t kForgetNs = 60'000'000'000;
  enum class Verdict : std::uint8_t { kNewer, kOlder, kOwn, kKnown, kRefused };

  RouteTable(const NodeId& self, std::uint64_t incarnation, std::string name);

  // Beyond wire::kNeighboursMax, those of the greatest ids are not told of: no way leads
  // over the links to them.
  void SetNeighbours(std::vector<NodeId> neighbours);
  Verdict Take(const Advertisement& advertisement);
  // The graph may differ from the one that ways were found in.
  bool changed() const { return changed_; }
  void FindWays(std::uint64_t now_ns);
  void ForgetUnreachable(std::uint64_t now_ns);

  const Advertisement& Own() const { return nodes_.at(self_).told; }
  const Advertisement* Find(const NodeId& node) const;
  std::vector<const Advertisement*> All() const;  // Also of nodes that no way leads to.
  // From this node to that, both included; empty: there is none, or it is too long.
  std::vector<NodeId> WayTo(const NodeId& node) const;
  // In order; without this node.
  std::vector<NodeId> Reachable() const;
  // Its name, or its id while unknown.
  std::string NameOf(const NodeId& node) const;

 private:
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};
  struct Node {
    Advertisement told;
    std::uint32_t hops = 0;  // To it; 0 also where no way leads.
    NodeId before;           // The last node on the way to it.
    std::uint64_t unreachable_since_ns = kNever;
  };
  bool MakeRoom();

  NodeId self_;
  std::map<NodeId, Node> nodes_;
  bool changed_ = true;
};

}  // namespace mlxcomm::fabric
