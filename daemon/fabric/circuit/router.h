// Reaches nodes that are not neighbours: learns which nodes are linked, and keeps a circuit to each
// reachable node that has no connection to this one (README.md).
//
//   neighbour's connection up ──▶ own advertisement again, the whole table to it
//   neighbour's connection gone ─▶ own advertisement again, circuits over it end
//   advertisement ──newer──▶ table, on to the other neighbours
//   reachable node, its link without a rail ──▶ circuit along the shortest route
//
// Frames between neighbours never pass through here. Owner: Links. Thread: the loop's. Memory: the
// table, the circuits, and one attempt for each reachable node.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "daemon/fabric/circuit/circuits.h"
#include "daemon/fabric/circuit/route_table.h"
#include "daemon/link/fabric_listener.h"
#include "daemon/link/link.h"

namespace mlxcomm::fabric {

class Router final : public link::RoutingListener {
 public:
  Router(const link::FabricOptions& options, RouterPort& port)
      : options_(options),
        port_(port),
        table_(options.self.id, options.self.incarnation, options.self.name),
        circuits_(options.self.id, options.random, port,
                  [this](const NodeId& node) { return table_.NameOf(node); }) {}

  void OnNeighbourUp(const NodeId& node);
  // `reset`: its daemon has probably stopped.
  void OnNeighbourGone(const NodeId& node, bool reset, const std::string& why,
                       std::uint64_t now_ns);
  void OnRouting(const NodeId& neighbour, const wire::FrameHeader& header,
                 std::span<const std::byte> payload, std::uint64_t now_ns) override;
  // Called in every turn; does nothing unless something has changed or is due.
  void Turn(std::uint64_t now_ns);
  std::uint64_t deadline_ns() const { return circuits_.has_events() ? 0 : next_check_ns_; }

  bool IsOpeningRouteTo(const NodeId& node) const { return circuits_.IsOpening(node); }
  bool HasRouteTo(const NodeId& node) const { return !table_.RouteTo(node).empty(); }

  const Circuits& circuits() const { return circuits_; }

 private:
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};
  // Delay before the first attempt to open a circuit.
  static constexpr std::uint64_t kSettleNs = 20'000'000;
  // A circuit that lasted less is reopened after the pause, not at once.
  static constexpr std::uint64_t kSteadyNs = 1'000'000'000;
  // A shorter route must exist for this long before it is used.
  static constexpr std::uint64_t kHoldDownNs = 1'000'000'000;
  static constexpr std::uint64_t kCheckPauseNs = 1'000'000;
  // Delay before resending to a neighbour whose channel was full.
  static constexpr std::uint64_t kReportAgainNs = 100'000'000;
  struct Attempt {
    std::uint64_t next_ns = 0;
    std::uint64_t pause_ns = 0;
    std::uint64_t opened_ns = 0;
    std::size_t route_nodes = 0;              // Counts those of the last circuit.
    std::uint64_t shorter_since_ns = kNever;  // A shorter route has existed since then.
    std::string detail;                       // Why the last circuit ended.
  };

  void OnCircuitEvent(const CircuitEvent& event, std::uint64_t now_ns);
  void OnAdvertisement(const NodeId& neighbour, std::span<const std::byte> payload);
  void NeighboursChanged();
  bool Report(const NodeId& neighbour, const Advertisement& advertisement);
  void Flood(const Advertisement& advertisement, const NodeId* but);
  void SendWholeTable(const NodeId& neighbour);
  void OnRoutesChanged(std::uint64_t now_ns);
  void CheckForShorter(const NodeId& node, Attempt& attempt, std::uint64_t now_ns) const;
  void CheckAll(std::uint64_t now_ns);
  void Reach(const NodeId& node, Attempt& attempt, std::uint64_t now_ns);

  const link::FabricOptions& options_;
  RouterPort& port_;
  RouteTable table_;
  Circuits circuits_;
  // Nodes with a connection; true: the whole table must be sent again.
  std::map<NodeId, bool> neighbours_;
  std::map<NodeId, Attempt> attempts_;
  std::uint64_t next_check_ns_ = kNever;
};

}  // namespace mlxcomm::fabric
