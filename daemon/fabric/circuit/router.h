// Reaches the nodes that are no neighbours: learns which nodes are linked, and keeps a circuit to each
// node that a route leads to and that has no connection to this one. See README.md, Router.
//
//   neighbour's connection up ──▶ own advertisement again, the whole table to it
//   neighbour's connection gone ─▶ own advertisement again, circuits over it end
//   advertisement ──newer──▶ table, on to the other neighbours
//   node in reach, its link without a rail ──▶ circuit along the shortest route
//
// Frames between neighbours never pass through here.
//
// Owner: Links. Thread: the loop's. Memory: the table's, the circuits', one attempt for each node in
// reach.
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

// What the router needs of the fabric: Links.
class RouterPort {
 public:
  virtual ~RouterPort() = default;
  // For a circuit to the node. Makes it if there is none; nullptr: there are too many.
  virtual link::Link* LinkTo(const NodeId& node) = 0;
  virtual link::Link* FindLink(const NodeId& node) const = 0;
  // A connection to it is being made, and will be its rail.
  virtual bool IsJoining(const NodeId& node) const = 0;
  virtual wire::Introduction OwnIntroduction(const link::Link::Standing& standing) const = 0;
  // A deadline may have come nearer: this router's or a link's.
  virtual void OnDeadlineChanged() = 0;
};

class Router final : public link::RoutingListener, private CircuitsPort {
 public:
  Router(const link::FabricOptions& options, RouterPort& port)
      : options_(options),
        port_(port),
        table_(options.self.id, options.self.incarnation, options.self.name),
        circuits_(options.self.id, options.random, *this) {}

  void OnNeighbourUp(const NodeId& node);
  // `reset`: it has probably ended itself.
  void OnNeighbourGone(const NodeId& node, bool reset, const std::string& why,
                       std::uint64_t now_ns);
  void OnRouting(const NodeId& neighbour, const wire::FrameHeader& header,
                 std::span<const std::byte> payload, std::uint64_t now_ns) override;
  // In every turn; does nothing unless something has changed or is due.
  void Turn(std::uint64_t now_ns);
  std::uint64_t deadline_ns() const { return next_look_ns_; }

  bool IsOpeningWayTo(const NodeId& node) const { return circuits_.IsOpening(node); }
  // A circuit to it may be opened at any time.
  bool HasWayTo(const NodeId& node) const { return !table_.WayTo(node).empty(); }

  const RouteTable& table() const { return table_; }
  const Circuits& circuits() const { return circuits_; }
  std::uint64_t violations() const { return violations_ + circuits_.violations(); }

 private:
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};
  // Before the first attempt to reach a node through others.
  static constexpr std::uint64_t kSettleNs = 20'000'000;
  // A circuit that lasted less is opened again after the pause, not at once.
  static constexpr std::uint64_t kSteadyNs = 1'000'000'000;
  // How long a shorter way must have been there.
  static constexpr std::uint64_t kHoldDownNs = 1'000'000'000;
  static constexpr std::uint64_t kLookAgainNs = 1'000'000;
  // When a neighbour's channel was full.
  static constexpr std::uint64_t kReportAgainNs = 100'000'000;
  struct Attempt {
    std::uint64_t next_ns = 0;
    std::uint64_t pause_ns = 0;
    std::uint64_t opened_ns = 0;
    std::size_t way_nodes = 0;                // Of the circuit that was opened last.
    std::uint64_t shorter_since_ns = kNever;  // A shorter way than that.
    std::string detail;                       // Why the last one ended.
  };

  // CircuitsPort
  bool SendToNeighbour(const NodeId& neighbour, const wire::FrameHeader& header,
                       const std::byte* payload) override;
  link::Link* LinkTo(const NodeId& node) override { return port_.LinkTo(node); }
  link::Link* FindLink(const NodeId& node) const override { return port_.FindLink(node); }
  bool IsJoining(const NodeId& node) const override { return port_.IsJoining(node); }
  wire::Introduction OwnIntroduction(const link::Link::Standing& standing) const override {
    return port_.OwnIntroduction(standing);
  }
  std::string NameOf(const NodeId& node) const override { return table_.NameOf(node); }
  void OnCircuitOpened(const NodeId& node, std::size_t way_nodes, std::uint64_t now_ns) override;
  void OnCircuitEnded(const NodeId& node, const std::string& why, std::uint64_t now_ns) override;

  void OnAdvertisement(const NodeId& neighbour, std::span<const std::byte> payload);
  void NeighboursChanged();
  bool Report(const NodeId& neighbour, const Advertisement& advertisement);
  void Flood(const Advertisement& advertisement, const NodeId* but);
  void SendWholeTable(const NodeId& neighbour);
  void OnWaysChanged(std::uint64_t now_ns);
  void LookForShorter(const NodeId& node, Attempt& attempt, std::uint64_t now_ns) const;
  void Look(std::uint64_t now_ns);
  void Reach(const NodeId& node, Attempt& attempt, std::uint64_t now_ns);

  const link::FabricOptions& options_;
  RouterPort& port_;
  RouteTable table_;
  Circuits circuits_;
  // Nodes with a connection; true: something could not be sent, all of it is due.
  std::map<NodeId, bool> neighbours_;
  std::map<NodeId, Attempt> attempts_;
  std::uint64_t next_look_ns_ = kNever;
  std::uint64_t violations_ = 0;
};

}  // namespace mlxcomm::fabric
