#include "daemon/fabric/circuit/route_table.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "daemon/rail/text_field.h"
#include "proto/types/plain_text.h"

namespace mlxcomm::fabric {
namespace {

bool IsListed(const std::vector<NodeId>& sorted, const NodeId& node) {
  return std::ranges::binary_search(sorted, node);
}

bool IsNewer(const Advertisement& a, const Advertisement& b) {
  return std::pair(a.number, a.incarnation) > std::pair(b.number, b.incarnation);
}

}  // namespace

std::vector<std::byte> Encode(const Advertisement& advertisement) {
  wire::Advertisement head{};
  head.origin = advertisement.origin.bytes;
  head.incarnation = advertisement.incarnation;
  head.number = advertisement.number;
  head.neighbour_count = static_cast<std::uint32_t>(advertisement.neighbours.size());
  rail::PutText(advertisement.name, head.node_name);
  std::vector<std::byte> payload(sizeof head);
  std::memcpy(payload.data(), &head, sizeof head);
  const std::span<const std::byte> ids = std::as_bytes(std::span(advertisement.neighbours));
  payload.insert(payload.end(), ids.begin(), ids.end());
  return payload;
}

std::optional<Advertisement> Decode(std::span<const std::byte> payload) {
  wire::Advertisement head;
  if (payload.size() < sizeof head) return std::nullopt;
  std::memcpy(&head, payload.data(), sizeof head);
  if (head.number == 0 || head.number > wire::kAdvertisementMax || head.reserved != 0 ||
      head.neighbour_count > wire::kNeighboursMax ||
      payload.size() != sizeof head + head.neighbour_count * sizeof(wire::NodeIdBytes)) {
    return std::nullopt;
  }
  Advertisement advertisement;
  advertisement.origin.bytes = head.origin;
  advertisement.incarnation = head.incarnation;
  advertisement.number = head.number;
  advertisement.name = MakePrintable(rail::TextOf(head.node_name));
  advertisement.neighbours.resize(head.neighbour_count);
  std::ranges::copy(payload.subspan(sizeof head),
                    std::as_writable_bytes(std::span(advertisement.neighbours)).begin());
  const std::vector<NodeId>& neighbours = advertisement.neighbours;
  const bool in_order_once =
      std::ranges::adjacent_find(neighbours, std::greater_equal<>()) == neighbours.end();
  if (!in_order_once || IsListed(neighbours, advertisement.origin)) return std::nullopt;
  return advertisement;
}

RouteTable::RouteTable(const NodeId& self, std::uint64_t incarnation, std::string name)
    : self_(self) {
  Advertisement& own = nodes_[self].reported;
  own.origin = self;
  own.incarnation = incarnation;
  own.number = 1;
  own.name = std::move(name);
}

void RouteTable::SetNeighbours(std::vector<NodeId> neighbours) {
  std::ranges::sort(neighbours);
  if (neighbours.size() > wire::kNeighboursMax) neighbours.resize(wire::kNeighboursMax);
  Advertisement& own = nodes_.at(self_).reported;
  own.neighbours = std::move(neighbours);
  ++own.number;
  changed_ = true;
}

RouteTable::Verdict RouteTable::Take(const Advertisement& advertisement) {
  if (advertisement.origin == self_) {
    Advertisement& own = nodes_.at(self_).reported;
    if (advertisement == own) return Verdict::kKnown;
    if (!IsNewer(advertisement, own)) return Verdict::kOlder;
    if (advertisement.number == wire::kAdvertisementMax) return Verdict::kRefused;
    own.number = advertisement.number + 1;
    return Verdict::kOwn;
  }
  const auto found = nodes_.find(advertisement.origin);
  if (found == nodes_.end()) {
    if (nodes_.size() >= kNodesMax && !MakeRoom()) return Verdict::kRefused;
  } else if (!IsNewer(advertisement, found->second.reported)) {
    return IsNewer(found->second.reported, advertisement) ? Verdict::kOlder : Verdict::kKnown;
  }
  nodes_[advertisement.origin].reported = advertisement;
  changed_ = true;
  return Verdict::kNewer;
}

// Forgets the node that has been unreachable the longest.
bool RouteTable::MakeRoom() {
  const auto oldest = std::ranges::min_element(
      nodes_, {}, [](const auto& entry) { return entry.second.unreachable_since_ns; });
  if (oldest->second.unreachable_since_ns == kNever) return false;
  nodes_.erase(oldest);
  changed_ = true;
  return true;
}

void RouteTable::ForgetUnreachable(std::uint64_t now_ns) {
  std::erase_if(nodes_, [now_ns](const auto& entry) {
    const std::uint64_t since = entry.second.unreachable_since_ns;
    return since != kNever && now_ns >= since && now_ns - since >= kForgetNs;
  });
}

// Breadth first, in order of ids: finds a shortest route, and of several the one over the smallest
// ids.
void RouteTable::FindRoutes(std::uint64_t now_ns) {
  changed_ = false;
  for (auto& [id, node] : nodes_) node.hops = 0;
  std::vector<NodeId> ring = {self_};
  for (std::uint32_t hops = 1; !ring.empty(); ++hops) {
    std::vector<NodeId> next;
    for (const NodeId& from : ring) {
      for (const NodeId& to : nodes_.at(from).reported.neighbours) {
        const auto found = nodes_.find(to);
        if (found == nodes_.end() || to == self_ || found->second.hops != 0) continue;
        if (!IsListed(found->second.reported.neighbours, from)) continue;
        found->second.hops = hops;
        found->second.before = from;
        next.push_back(to);
      }
    }
    std::ranges::sort(next);
    ring.swap(next);
  }
  for (auto& [id, node] : nodes_) {
    if (id == self_ || node.hops != 0) {
      node.unreachable_since_ns = kNever;
    } else if (node.unreachable_since_ns == kNever) {
      node.unreachable_since_ns = now_ns;
    }
  }
}

const Advertisement* RouteTable::Find(const NodeId& node) const {
  const auto found = nodes_.find(node);
  return found == nodes_.end() ? nullptr : &found->second.reported;
}

std::vector<const Advertisement*> RouteTable::All() const {
  std::vector<const Advertisement*> all;
  for (const auto& [id, node] : nodes_) all.push_back(&node.reported);
  return all;
}

std::vector<NodeId> RouteTable::RouteTo(const NodeId& node) const {
  auto at = nodes_.find(node);
  if (at == nodes_.end() || at->second.hops == 0 || at->second.hops + 1 > wire::kRouteNodesMax) {
    return {};
  }
  std::vector<NodeId> route(at->second.hops + 1);
  for (std::size_t i = route.size() - 1; i > 0; --i) {
    route[i] = at->first;
    at = nodes_.find(at->second.before);
  }
  route[0] = self_;
  return route;
}

std::vector<NodeId> RouteTable::Reachable() const {
  std::vector<NodeId> reachable;
  for (const auto& [id, node] : nodes_) {
    if (node.hops != 0) reachable.push_back(id);
  }
  return reachable;
}

std::string RouteTable::NameOf(const NodeId& node) const {
  const Advertisement* const found = Find(node);
  return found == nullptr || found->name.empty() ? node.ToString() : found->name;
}

}  // namespace mlxcomm::fabric
