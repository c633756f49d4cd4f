// Circuits: routes through other nodes. Each is a chain of neighbours that forward frames.
//
//   opener ──CircuitOpen (names the route)──▶ between ──▶ … ──▶ destination
//          ◀──CircuitOpened──────────────────         ◀── …    makes a rail, and so does
//          ◀══CircuitFrame, CircuitCredit═══▶         ◀══▶     the opener, for their links
//          ◀──CircuitClosed (node, reason)── from the node where the route breaks, to both sides
//
// Owner: Router. Thread: the loop's; time is an argument. Memory: kCircuitsMax entries,
// kCircuitsPerNeighbourMax over one neighbour. README.md has the guarantees and their proof.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "daemon/fabric/circuit/circuit_rail.h"
#include "daemon/link/link.h"
#include "proto/types/node_id.h"

namespace mlxcomm::fabric {

// The links of the node, for the router and its circuits. Implemented by Links.
class RouterPort {
 public:
  virtual ~RouterPort() = default;
  // Creates the link if it does not exist; nullptr if there are too many.
  virtual link::Link* LinkTo(const NodeId& node) = 0;
  virtual link::Link* FindLink(const NodeId& node) const = 0;
  // Returns true while a connection to the node is being made.
  virtual bool IsJoining(const NodeId& node) const = 0;
  virtual wire::Introduction OwnIntroduction(const link::Link::Standing& standing) const = 0;
  // Copies the frame to the neighbour's channel. Returns false if there is none, or it is full.
  virtual bool SendToNeighbour(const NodeId& neighbour, const wire::FrameHeader& header,
                               const std::byte* payload) = 0;
};

// A circuit of this node was opened, or it or a request for it has ended.
struct CircuitEvent {
  NodeId node;
  std::size_t route_nodes = 0;  // The length of the route, both ends included; 0: it has ended.
  std::string why;
};

class Circuits final : public CircuitPort {
 public:
  static constexpr std::size_t kCircuitsMax = 2048;
  static constexpr std::size_t kCircuitsPerNeighbourMax = 256;

  using NameOf = std::function<std::string(const NodeId&)>;

  Circuits(const NodeId& self, const link::RandomSource& random, RouterPort& links, NameOf name_of)
      : self_(self), random_(random), links_(links), name_of_(std::move(name_of)) {}

  // What has happened since the last call, also by rails that closed.
  bool has_events() const { return !events_.empty(); }
  std::vector<CircuitEvent> TakeEvents() { return std::exchange(events_, {}); }

  // Requests a circuit along the route, self first. Returns false if the request cannot be sent.
  bool Open(const std::vector<NodeId>& route, std::uint64_t deadline_ns, std::uint64_t now_ns);
  bool IsOpening(const NodeId& destination) const { return opening_.contains(destination); }
  // Destinations of this node's circuits. A link notices the end of a circuit only when it is
  // polled.
  absl::flat_hash_set<NodeId> Opened() const;
  void OnFrame(const NodeId& neighbour, const wire::FrameHeader& header,
               std::span<const std::byte> payload, std::uint64_t now_ns);
  // The neighbour's connection is gone or was replaced. `reset`: its daemon has probably stopped.
  void OnNeighbourGone(const NodeId& neighbour, bool reset, const std::string& why,
                       std::uint64_t now_ns);
  // Drops requests that were not answered in time.
  void OnTime(std::uint64_t now_ns);
  std::uint64_t deadline_ns() const;

  std::size_t size() const { return circuits_.size(); }
  // When this node last forwarded a frame of other nodes' operations; 0 if never.
  std::uint64_t operations_passed_ns() const { return operations_passed_ns_; }

  // CircuitPort
  bool SendOnCircuit(std::uint64_t circuit, const wire::FrameHeader& outer,
                     const std::byte* payload) override;
  void CloseCircuit(std::uint64_t circuit, wire::CircuitEnd end, const std::string& why) override;

 private:
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};
  enum class Place : std::uint8_t { kOpening, kOpener, kBetween, kDestination };
  // One direction; an end has only one.
  struct Side {
    NodeId node;
    std::uint64_t frames = 0;  // kBetween: forwarded and not yet credited.
    std::uint64_t bytes = 0;
  };
  struct Circuit {
    Place place = Place::kBetween;
    std::array<Side, 2> sides;  // [0] towards the opener, [1] towards the destination.
    NodeId opener;
    NodeId destination;
    CircuitRail* rail = nullptr;         // Set at the ends; the link owns it.
    link::Link::Standing standing;       // kOpening
    std::uint64_t deadline_ns = kNever;  // kOpening
    std::string through;
    std::size_t route_nodes = 0;  // Set at the ends.
    bool opened = false;          // kBetween: the destination has accepted it.
    const NodeId& OtherEnd() const { return place == Place::kDestination ? opener : destination; }
  };

  void OnOpen(const NodeId& neighbour, const wire::FrameHeader& header,
              std::span<const std::byte> payload, std::uint64_t now_ns);
  bool MayCross(const NodeId& neighbour) const;
  void Accept(std::uint64_t circuit, const wire::Introduction& opener, const NodeId& neighbour,
              const std::vector<NodeId>& route, std::uint64_t now_ns);
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
  // Removes an existing circuit without notifying anyone.
  Circuit Take(std::uint64_t circuit);
  void EndBroken(std::uint64_t circuit, const std::string& why);
  void End(std::uint64_t circuit, const rail::RailEnd& end, std::uint64_t now_ns);
  std::string Through(const std::vector<NodeId>& route) const;
  void LogViolation(const NodeId& neighbour, const char* what);

  NodeId self_;
  const link::RandomSource& random_;
  RouterPort& links_;
  const NameOf name_of_;
  std::vector<CircuitEvent> events_;
  absl::flat_hash_map<std::uint64_t, Circuit> circuits_;
  absl::flat_hash_set<NodeId> opening_;  // Destinations.
  std::uint64_t now_ns_ = 0;             // Set by the last call; rails that close do not pass it.
  std::uint64_t operations_passed_ns_ = 0;
};

}  // namespace mlxcomm::fabric
