#include "daemon/cluster/topology_reply.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "daemon/cluster/topology.h"
#include "proto/status_words.h"

namespace mlxcomm::cluster {
namespace {

// Both nodes of a cable tell of it; the one with the smaller id is its beginning.
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
    std::sort(reply_.mutable_nodes()->begin(), reply_.mutable_nodes()->end(),
              [](const auto& a, const auto& b) {
                return std::pair(a.name(), a.id()) < std::pair(b.name(), b.id());
              });
  }

 private:
  void AddNode(const v1::NodeStatus& node) {
    v1::TopologyNode& told = *reply_.add_nodes();
    told.set_id(node.id());
    told.set_name(node.name());
    told.set_version(node.version());
    told.set_state(node.state());
    told.set_answered(node.answered());
    ids_.insert(node.id());
  }

  // Known to the nodes that were linked to them.
  void AddLostNodes() {
    for (const v1::NodeStatus& node : status_.nodes()) {
      for (const v1::LinkStatus& link : node.links()) {
        if (link.peer_id().empty() || link.state() != v1::LinkState::lost) continue;
        if (!ids_.insert(link.peer_id()).second) continue;
        v1::TopologyNode& told = *reply_.add_nodes();
        told.set_id(link.peer_id());
        told.set_name(link.peer());
        told.set_state("lost");
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
    // One that is not there lies on the cable of the connection beside it, or on none.
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
    // One end may have the address of the other in its configuration, and the other not.
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

  // Rails of one cable share it, so it is as fast as the best of them has shown; not their sum.
  static void AddRates(v1::TopologyCable& cable) {
    for (const v1::TopologyRail& rail : cable.rails()) {
      cable.set_bytes_per_second(std::max(cable.bytes_per_second(), rail.bytes_per_second()));
      cable.set_bytes_per_second_best(
          std::max(cable.bytes_per_second_best(), rail.bytes_per_second_best()));
    }
    std::sort(cable.mutable_rails()->begin(), cable.mutable_rails()->end(),
              [](const auto& a, const auto& b) { return a.transport() < b.transport(); });
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
    reply_.set_shape(NameOf(found.shape));
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

v1::TopologyReply TopologyOf(const v1::StatusReply& status) {
  v1::TopologyReply reply;
  TopologyWriter(status, reply).Write();
  return reply;
}

}  // namespace mlxcomm::cluster
