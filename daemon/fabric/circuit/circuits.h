// Circuits: routes through other nodes, each a chain of neighbours that forward frames.
//
//   opener ──CircuitOpen (names the route)──▶ between ──▶ … ──▶ destination
//          ◀──CircuitOpened──────────────────         ◀── …    makes a rail, and so does
//          ◀══CircuitFrame, CircuitCredit═══▶         ◀══▶     the opener, for their links
//          ◀──CircuitClosed (who, why)────── from the node where the route breaks, to both sides
//
// Frames on a circuit are never reordered, and never lost without both ends hearing of it. A forwarder
// trusts neither end, and forwarding cannot deadlock: README.md, Circuits, has the proof.
//
// Owner: Router. Thread: the loop's, time is an argument. Memory: kCircuitsMax entries,
// kCircuitsPerNeighbourMax over one neighbour.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "daemon/fabric/circuit/circuit_rail.h"
#include "daemon/link/link.h"
#include "proto/types/node_id.h"

namespace mlxcomm::fabric {

// What circuits need of the fabric: Router.
class CircuitsPort {
 public:
  virtual ~CircuitsPort() = default;
  // Copied to the channel of a neighbour. False: it is none (any more), or takes no more.
  virtual bool SendToNeighbour(const NodeId& neighbour, const wire::FrameHeader& header,
                               const std::byte* payload) = 0;
  // For a circuit to the node. Makes it if there is none; nullptr: there are too many.
  virtual link::Link* LinkTo(const NodeId& node) = 0;
  virtual link::Link* FindLink(const NodeId& node) const = 0;
  // A connection to it is being made, and will be its rail.
  virtual bool IsJoining(const NodeId& node) const = 0;
  virtual wire::Introduction OwnIntroduction(const link::Link::Standing& standing) const = 0;
  virtual std::string NameOf(const NodeId& node) const = 0;
  // One that was asked for is there; `way_nodes`: how long its way is, with both ends.
  virtual void OnCircuitOpened(const NodeId& node, std::size_t way_nodes, std::uint64_t now_ns) = 0;
  // A circuit to it, or what should have become one, has ended.
  virtual void OnCircuitEnded(const NodeId& node, const std::string& why, std::uint64_t now_ns) = 0;
};

class Circuits final : public CircuitPort {
 public:
  static constexpr std::size_t kCircuitsMax = 2048;
  static constexpr std::size_t kCircuitsPerNeighbourMax = 256;

  Circuits(const NodeId& self, const link::RandomSource& random, CircuitsPort& port)
      : self_(self), random_(random), port_(port) {}

  // Asks for a circuit along the way, self first; it takes the place of one that there
  // is. False: it cannot even be asked for.
  bool Open(const std::vector<NodeId>& way, std::uint64_t deadline_ns, std::uint64_t now_ns);
  bool IsOpening(const NodeId& destination) const { return opening_.contains(destination); }
  // Which nodes circuits of this node's own lead to. Who asks the link instead hears of an end too late:
  // it keeps a rail whose circuit has ended until it is polled.
  absl::flat_hash_set<NodeId> Opened() const;
  // The circuit frames of a neighbour.
  void OnFrame(const NodeId& neighbour, const wire::FrameHeader& header,
               std::span<const std::byte> payload, std::uint64_t now_ns);
  // Its connection is gone, or another one has come. `reset`: it has probably ended itself.
  void OnNeighbourGone(const NodeId& neighbour, bool reset, const std::string& why,
                       std::uint64_t now_ns);
  // Gives up what was asked for too long ago.
  void OnTime(std::uint64_t now_ns);
  std::uint64_t deadline_ns() const;

  std::size_t size() const { return circuits_.size(); }
  // When a frame of others' operations was last passed on, 0: none was. Signs of life of the ends, and
  // what daemons say to each other, pass as long as a circuit is there, and that is between jobs too.
  std::uint64_t operations_passed_ns() const { return operations_passed_ns_; }
  std::uint64_t violations() const { return violations_; }

  // CircuitPort
  bool SendOnCircuit(std::uint64_t circuit, const wire::FrameHeader& outer,
                     const std::byte* payload) override;
  void CloseCircuit(std::uint64_t circuit, wire::CircuitEnd end, const std::string& why) override;

 private:
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};
  enum class Place : std::uint8_t { kOpening, kOpener, kBetween, kDestination };
  // Towards a neighbour; the end itself has one side only.
  struct Side {
    NodeId node;
    std::uint64_t frames = 0;  // Between: sent that way, not yet taken by that end.
    std::uint64_t bytes = 0;
  };
  struct Circuit {
    Place place = Place::kBetween;
    std::array<Side, 2> sides;  // [0] towards the opener, [1] the destination.
    NodeId opener;
    NodeId destination;
    CircuitRail* rail = nullptr;         // The ends; the link owns it.
    link::Link::Standing standing;       // kOpening
    std::uint64_t deadline_ns = kNever;  // kOpening
    std::string through;
    std::size_t way_nodes = 0;  // The ends.
    bool opened = false;        // kBetween: the destination has taken it.
    const NodeId& OtherEnd() const { return place == Place::kDestination ? opener : destination; }
  };

  void OnOpen(const NodeId& neighbour, const wire::FrameHeader& header,
              std::span<const std::byte> payload, std::uint64_t now_ns);
  bool MayCross(const NodeId& neighbour) const;
  void Accept(std::uint64_t circuit, const wire::Introduction& opener, const NodeId& neighbour,
              const std::vector<NodeId>& way, std::uint64_t now_ns);
  void OnOpened(const wire::FrameHeader& header, std::span<const std::byte> payload,
                std::uint64_t now_ns);
  std::vector<std::uint64_t> Sorted() const;
  std::string FaultOfVersions(const wire::Introduction& theirs) const;
  absl::Status AddRail(std::uint64_t circuit, link::Link& link, const wire::Introduction& theirs,
                       const link::Link::Standing& standing, std::uint64_t now_ns);
  static bool IsOfAnOperation(std::span<const std::byte> piece);
  void Forward(std::uint64_t circuit, std::size_t to, const wire::FrameHeader& header,
               std::span<const std::byte> payload);
  void Arrive(Circuit& circuit, const wire::FrameHeader& header, std::span<const std::byte> payload,
              std::uint64_t now_ns);
  void SendClosed(const NodeId& neighbour, std::uint64_t circuit, wire::CircuitEnd end,
                  const std::string& why, LinkReason reason = LinkReason::kWayEnded);
  // One that there is; nobody hears of it.
  Circuit Take(std::uint64_t circuit);
  void EndBroken(std::uint64_t circuit, const std::string& why);
  void End(std::uint64_t circuit, const rail::RailEnd& end, std::uint64_t now_ns);
  std::string Through(const std::vector<NodeId>& way) const;
  void CountViolation(const NodeId& neighbour, const char* what);

  NodeId self_;
  const link::RandomSource& random_;
  CircuitsPort& port_;
  absl::flat_hash_map<std::uint64_t, Circuit> circuits_;
  absl::flat_hash_set<NodeId> opening_;  // Where to.
  std::uint64_t now_ns_ = 0;             // As last told; rails that close tell none.
  std::uint64_t operations_passed_ns_ = 0;
  std::uint64_t violations_ = 0;
};

}  // namespace mlxcomm::fabric
