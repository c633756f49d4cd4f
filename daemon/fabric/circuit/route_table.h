// Which nodes are linked, as all nodes advertise it, and the shortest routes that follow (link-state
// routing; see README.md, RouteTable).
//
//   Take(advertisement) ─▶ kNewer: pass it on to the other neighbours
//                          kOlder: send the newer one to the sender
//                          kOwn:   of an earlier life; Own() has a new number, flood it
//                          kKnown, kRefused: nothing
//
// Advertisements take effect at once; routes are computed when FindWays is called, once for many of them.
//
// Sans-I/O, time is an argument. Owner: Router. Thread: the loop's. Memory: at most kNodesMax nodes of
// wire::kNeighboursMax neighbours each.
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

  // Beyond wire::kNeighboursMax, those of the greatest ids are not advertised: no route leads
  // over the links to them.
  void SetNeighbours(std::vector<NodeId> neighbours);
  Verdict Take(const Advertisement& advertisement);
  // The graph may differ from the one that ways were found in.
  bool changed() const { return changed_; }
  void FindWays(std::uint64_t now_ns);
  void ForgetUnreachable(std::uint64_t now_ns);

  const Advertisement& Own() const { return nodes_.at(self_).reported; }
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
    Advertisement reported;
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
