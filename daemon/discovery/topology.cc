#include "daemon/discovery/topology.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "proto/status_words.h"

namespace mlxcomm::discovery {
namespace {

// The nodes are numbered by name, then id.
class Graph {
 public:
  explicit Graph(std::size_t nodes) : neighbours_(nodes), joined_(nodes * nodes) {}

  void Join(std::size_t a, std::size_t b) {
    if (a == b || joined_[a * size() + b]) return;
    joined_[a * size() + b] = joined_[b * size() + a] = true;
    neighbours_[a].push_back(b);
    neighbours_[b].push_back(a);
  }
  void Sort() {
    for (auto& of_one : neighbours_) std::ranges::sort(of_one);
  }
  std::size_t size() const { return neighbours_.size(); }
  bool AreJoined(std::size_t a, std::size_t b) const { return joined_[a * size() + b]; }
  const std::vector<std::size_t>& NeighboursOf(std::size_t a) const { return neighbours_[a]; }

  // Depth-first, in order; `parts` becomes the number of unconnected parts.
  std::vector<std::size_t> AsMet(std::size_t* parts) const {
    std::vector<std::size_t> order;
    std::vector<bool> met(size());
    *parts = 0;
    for (std::size_t first = 0; first < size(); ++first) {
      if (met[first]) continue;
      ++*parts;
      std::vector<std::size_t> open = {first};
      while (!open.empty()) {
        const std::size_t at = open.back();
        open.pop_back();
        if (met[at]) continue;
        met[at] = true;
        order.push_back(at);
        const auto& next = neighbours_[at];
        open.insert(open.end(), next.rbegin(), next.rend());
      }
    }
    return order;
  }

  bool IsConnected() const {
    std::size_t parts = 0;
    AsMet(&parts);
    return parts <= 1;
  }

  // The number of nodes with this many neighbours.
  std::size_t NodesWith(std::size_t neighbours) const {
    return static_cast<std::size_t>(std::ranges::count(
        neighbours_, neighbours, [](const auto& of_one) { return of_one.size(); }));
  }

 private:
  std::vector<std::vector<std::size_t>> neighbours_;
  std::vector<bool> joined_;
};

// Finds all nodes in a row, each joined to the next, by backtracking; takes at most kTriesMax
// steps.
class RowSearch {
 public:
  RowSearch(const Graph& graph, bool closed) : graph_(graph), closed_(closed) {}

  bool Find(std::size_t first, std::vector<std::size_t>& row) {
    used_.assign(graph_.size(), false);
    row.assign(1, first);
    used_[first] = true;
    std::vector<std::size_t> tried(1, 0);
    while (!row.empty()) {
      if (row.size() == graph_.size() && (!closed_ || graph_.AreJoined(row.back(), first))) {
        return true;
      }
      const std::size_t next = NextFrom(row.back(), tried.back());
      if (++tries_ > kTriesMax) return false;
      if (next == graph_.size()) {
        used_[row.back()] = false;
        row.pop_back();
        tried.pop_back();
        continue;
      }
      used_[next] = true;
      row.push_back(next);
      tried.push_back(0);
    }
    return false;
  }

 private:
  // The next unused neighbour; `tried` moves past it.
  std::size_t NextFrom(std::size_t at, std::size_t& tried) const {
    const std::vector<std::size_t>& all = graph_.NeighboursOf(at);
    while (tried < all.size()) {
      const std::size_t next = all[tried++];
      if (!used_[next]) return next;
    }
    return graph_.size();
  }

  const Graph& graph_;
  const bool closed_;
  std::vector<bool> used_;
  std::size_t tries_ = 0;
};

// False if a search would fail, but only after all its tries.
bool MayBeRow(const Graph& graph, std::size_t ends_max) {
  return graph.NodesWith(0) + graph.NodesWith(1) <= ends_max && graph.IsConnected();
}

bool FindRing(const Graph& graph, std::vector<std::size_t>& row) {
  return graph.size() >= 3 && MayBeRow(graph, 0) && RowSearch(graph, /*closed=*/true).Find(0, row);
}

bool FindLine(const Graph& graph, std::vector<std::size_t>& row) {
  if (!MayBeRow(graph, 2)) return false;
  RowSearch search(graph, /*closed=*/false);
  for (std::size_t first = 0; first < graph.size(); ++first) {
    if (search.Find(first, row)) return true;
  }
  return false;
}

// Finds the switches by merging ports that share a cable (union-find).
class Switches {
 public:
  explicit Switches(const Wiring& wiring) {
    for (const Wiring::Cable& cable : wiring.cables) {
      const std::size_t a = PortOf(cable.from, cable.from_interface);
      const std::size_t b = PortOf(cable.to, cable.to_interface);
      root_[RootOf(a)] = RootOf(b);
      ends_.push_back(a);
    }
    for (std::size_t port = 0; port < root_.size(); ++port) ++ports_[RootOf(port)];
  }

  // Keyed by cable: its switch, numbered in the order of first cables; 0: none.
  std::vector<std::uint32_t> OfCables() {
    std::map<std::size_t, std::uint32_t> numbers;
    std::vector<std::uint32_t> all;
    for (const std::size_t end : ends_) {
      const std::size_t root = RootOf(end);
      if (ports_[root] <= 2) {
        all.push_back(0);
        continue;
      }
      const auto number = static_cast<std::uint32_t>(numbers.size() + 1);
      all.push_back(numbers.try_emplace(root, number).first->second);
    }
    return all;
  }

 private:
  std::size_t PortOf(std::size_t node, const std::string& interface) {
    const auto [found, is_new] = ports_by_name_.try_emplace({node, interface}, root_.size());
    if (is_new) root_.push_back(found->second);
    return found->second;
  }
  std::size_t RootOf(std::size_t port) {
    while (root_[port] != port) port = root_[port] = root_[root_[port]];
    return port;
  }

  std::map<std::pair<std::size_t, std::string>, std::size_t> ports_by_name_;
  std::vector<std::size_t> root_;
  std::vector<std::size_t> ends_;
  std::map<std::size_t, std::size_t> ports_;  // Their number, by root.
};

bool AreAllOnOneSwitch(const Wiring& wiring, const std::vector<std::uint32_t>& switches) {
  std::map<std::uint32_t, std::vector<bool>> on;
  for (std::size_t i = 0; i < wiring.cables.size(); ++i) {
    if (switches[i] == 0) continue;
    std::vector<bool>& nodes = on[switches[i]];
    nodes.resize(wiring.nodes.size());
    nodes[wiring.cables[i].from] = nodes[wiring.cables[i].to] = true;
  }
  return std::ranges::any_of(on, [](const auto& entry) {
    return std::ranges::find(entry.second, false) == entry.second.end();
  });
}

std::string_view ShapeOf(const Graph& direct, bool all_on_one_switch) {
  const std::size_t nodes = direct.size();
  if (!direct.IsConnected()) return all_on_one_switch ? "switch" : "other";
  const std::size_t with_two = direct.NodesWith(2);
  if (with_two == nodes) return "ring";
  if (direct.NodesWith(nodes - 1) == nodes) return "mesh";
  return direct.NodesWith(1) == 2 && with_two == nodes - 2 ? "line" : "other";
}

// The node with the smaller id comes first.
using CableEnds = std::tuple<std::string, std::string, std::string, std::string>;

class TopologyWriter {
 public:
  TopologyWriter(const v1::StatusReply& status, v1::TopologyReply& reply)
      : status_(status), reply_(reply) {}

  void Write() {
    reply_.set_node(status_.node());
    reply_.set_cluster(status_.cluster());
    for (const v1::NodeStatus& node : status_.nodes()) AddNode(node);
    AddLostNodes();
    for (const v1::NodeStatus& node : status_.nodes()) AddCables(node, /*beside=*/false);
    for (const v1::NodeStatus& node : status_.nodes()) AddCables(node, /*beside=*/true);
    for (auto& [ends, cable] : cables_) {
      cable.set_from_node(std::get<0>(ends));
      cable.set_from_interface(std::get<1>(ends));
      cable.set_to_node(std::get<2>(ends));
      cable.set_to_interface(std::get<3>(ends));
      AddRates(cable);
      *reply_.add_cables() = cable;
    }
    AddShape();
    std::ranges::sort(*reply_.mutable_nodes(), {},
                      [](const auto& node) { return std::pair(node.name(), node.id()); });
  }

 private:
  void AddNode(const v1::NodeStatus& node) {
    v1::TopologyNode& reported = *reply_.add_nodes();
    reported.set_id(node.id());
    reported.set_name(node.name());
    reported.set_version(node.version());
    reported.set_state(node.state());
    reported.set_answered(node.answered());
    ids_.insert(node.id());
  }

  // Nodes that others were linked to.
  void AddLostNodes() {
    for (const v1::NodeStatus& node : status_.nodes()) {
      for (const v1::LinkStatus& link : node.links()) {
        if (link.peer_id().empty() || link.state() != v1::LinkState::lost) continue;
        if (!ids_.insert(link.peer_id()).second) continue;
        v1::TopologyNode& reported = *reply_.add_nodes();
        reported.set_id(link.peer_id());
        reported.set_name(link.peer());
        reported.set_state("lost");
      }
    }
  }

  void AddCables(const v1::NodeStatus& node, bool beside) {
    for (const v1::LinkStatus& link : node.links()) {
      for (const v1::RailStatus& rail : link.rails()) {
        const bool is_cable = !rail.local_interface().empty() && !rail.remote_interface().empty() &&
                              IsBeside(rail.transport()) == beside;
        if (is_cable && !link.peer_id().empty()) AddCable(node.id(), link.peer_id(), rail);
      }
    }
  }

  void AddCable(const std::string& node, const std::string& peer, const v1::RailStatus& rail) {
    const CableEnds ends =
        node < peer ? CableEnds(node, rail.local_interface(), peer, rail.remote_interface())
                    : CableEnds(peer, rail.remote_interface(), node, rail.local_interface());
    const bool up = rail.state() == v1::RailState::up;
    // A rail beside a connection is listed while it is down only if its connection is.
    if (IsBeside(rail.transport()) && !up && !cables_.contains(ends)) return;
    const auto [found, is_new] = cables_.try_emplace(ends);
    v1::TopologyCable& cable = found->second;
    v1::TopologyRail& on_it = RailOn(cable, rail.transport());
    if (on_it.state() == v1::RailState::unknown || (up && on_it.state() != v1::RailState::up)) {
      on_it.set_state(rail.state());
      on_it.set_detail(rail.detail());
    }
    if (is_new || (up && cable.state() != v1::RailState::up)) {
      cable.set_state(rail.state());
      cable.set_detail(rail.detail());
    }
    // Perhaps only one end has the other's address in its configuration.
    if (is_new || rail.origin() == "configured") cable.set_origin(rail.origin());
    if (!up) return;
    on_it.set_bytes_per_second(Slower(on_it.bytes_per_second(), rail.delivery_bytes_per_second()));
    on_it.set_bytes_per_second_best(
        Slower(on_it.bytes_per_second_best(), rail.delivery_bytes_per_second_best()));
    cable.set_round_trip_ns(std::max(cable.round_trip_ns(), rail.round_trip_ns()));
  }

  static v1::TopologyRail& RailOn(v1::TopologyCable& cable, v1::Transport::Value transport) {
    for (v1::TopologyRail& rail : *cable.mutable_rails()) {
      if (rail.transport() == transport) return rail;
    }
    v1::TopologyRail& rail = *cable.add_rails();
    rail.set_transport(transport);
    return rail;
  }

  // The rails share the cable, so its rate is the best of theirs and not the sum.
  static void AddRates(v1::TopologyCable& cable) {
    for (const v1::TopologyRail& rail : cable.rails()) {
      cable.set_bytes_per_second(std::max(cable.bytes_per_second(), rail.bytes_per_second()));
      cable.set_bytes_per_second_best(
          std::max(cable.bytes_per_second_best(), rail.bytes_per_second_best()));
    }
    std::ranges::sort(*cable.mutable_rails(), {}, &v1::TopologyRail::transport);
  }

  static double Slower(double one, double other) {
    if (one == 0 || other == 0) return std::max(one, other);
    return std::min(one, other);
  }

  void AddShape() {
    Wiring wiring;
    std::map<std::string, std::size_t> place;
    for (const v1::TopologyNode& node : reply_.nodes()) {
      if (node.state() == "lost") continue;
      place[node.id()] = wiring.nodes.size();
      wiring.nodes.push_back({node.id(), node.name()});
    }
    std::vector<v1::TopologyCable*> up;
    for (v1::TopologyCable& cable : *reply_.mutable_cables()) {
      const auto from = place.find(cable.from_node());
      const auto to = place.find(cable.to_node());
      if (cable.state() != v1::RailState::up || from == place.end() || to == place.end()) continue;
      wiring.cables.push_back(
          {from->second, cable.from_interface(), to->second, cable.to_interface()});
      up.push_back(&cable);
    }
    const Topology found = FindTopology(wiring);
    reply_.set_shape(std::string(found.shape));
    reply_.set_ring_closed(found.ring_closed);
    for (const std::size_t node : found.ring) reply_.add_ring(wiring.nodes[node].id);
    for (std::size_t i = 0; i < up.size(); ++i) up[i]->set_switch_number(found.switches[i]);
  }

  const v1::StatusReply& status_;
  v1::TopologyReply& reply_;
  std::set<std::string> ids_;
  std::map<CableEnds, v1::TopologyCable> cables_;
};

}  // namespace

Topology FindTopology(const Wiring& wiring) {
  Topology topology;
  topology.switches = Switches(wiring).OfCables();
  std::vector<std::size_t> order(wiring.nodes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t node) {
    return std::tie(wiring.nodes[node].name, wiring.nodes[node].id);
  });
  std::vector<std::size_t> place(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) place[order[i]] = i;

  Graph direct(order.size());
  Graph all(order.size());
  for (std::size_t i = 0; i < wiring.cables.size(); ++i) {
    const Wiring::Cable& cable = wiring.cables[i];
    all.Join(place[cable.from], place[cable.to]);
    if (topology.switches[i] == 0) direct.Join(place[cable.from], place[cable.to]);
  }
  direct.Sort();
  all.Sort();

  if (order.size() == 2 && all.IsConnected()) {
    topology.shape = "pair";
  } else if (order.size() > 1) {
    topology.shape = ShapeOf(direct, AreAllOnOneSwitch(wiring, topology.switches));
  }
  std::vector<std::size_t> row;
  topology.ring_closed = FindRing(direct, row) || FindRing(all, row);
  if (topology.shape == "pair") topology.ring_closed = true;
  if (row.size() != order.size() && !FindLine(direct, row) && !FindLine(all, row)) {
    std::size_t parts = 0;
    row = all.AsMet(&parts);
  }
  for (const std::size_t at : row) topology.ring.push_back(order[at]);
  return topology;
}

v1::TopologyReply TopologyOf(const v1::StatusReply& status) {
  v1::TopologyReply reply;
  TopologyWriter(status, reply).Write();
  return reply;
}

}  // namespace mlxcomm::discovery
