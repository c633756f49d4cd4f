// The links that all nodes advertise, and the shortest routes over them (link-state routing,
// README.md).
//
//   Take(advertisement) ─▶ kNewer: pass it on to the other neighbours
//                          kOlder: send the newer one to the sender
//                          kOwn:   from an earlier run; Own() has a new number, flood it
//                          kKnown, kRefused: nothing
//
// FindRoutes computes the routes, once for many advertisements. Sans-I/O, time is an argument.
// Owner: Router. Thread: the loop's. Memory: at most kNodesMax nodes of wire::kNeighboursMax
// neighbours each.
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
  std::vector<NodeId> neighbours;  // Sorted, without duplicates.

  friend bool operator==(const Advertisement&, const Advertisement&) = default;
};

// The payload of a kTopology frame. Decode returns nothing if it is malformed.
std::vector<std::byte> Encode(const Advertisement& advertisement);
std::optional<Advertisement> Decode(std::span<const std::byte> payload);

class RouteTable {
 public:
  static constexpr std::size_t kNodesMax = 1024;
  static constexpr std::uint64_t kForgetNs = 60'000'000'000;
  enum class Verdict : std::uint8_t { kNewer, kOlder, kOwn, kKnown, kRefused };

  RouteTable(const NodeId& self, std::uint64_t incarnation, std::string name);

  // Beyond wire::kNeighboursMax, the greatest ids are not advertised, so no route uses their links.
  void SetNeighbours(std::vector<NodeId> neighbours);
  Verdict Take(const Advertisement& advertisement);
  // True if the graph may have changed since FindRoutes.
  bool changed() const { return changed_; }
  void FindRoutes(std::uint64_t now_ns);
  void ForgetUnreachable(std::uint64_t now_ns);

  const Advertisement& Own() const { return nodes_.at(self_).reported; }
  const Advertisement* Find(const NodeId& node) const;
  std::vector<const Advertisement*> All() const;  // Unreachable nodes included.
  // From this node to `node`, both included; empty if no route exists or it is too long.
  std::vector<NodeId> RouteTo(const NodeId& node) const;
  // Sorted; without this node.
  std::vector<NodeId> Reachable() const;
  // The node's name, or its id while the name is unknown.
  std::string NameOf(const NodeId& node) const;

 private:
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};
  struct Node {
    Advertisement reported;
    std::uint32_t hops = 0;  // 0 for this node, or if unreachable.
    NodeId before;           // The last node on the route to it.
    std::uint64_t unreachable_since_ns = kNever;
  };
  bool MakeRoom();

  NodeId self_;
  std::map<NodeId, Node> nodes_;
  bool changed_ = true;
};

}  // namespace mlxcomm::fabric
