// All links of this daemon and the router over them: the fabric without sockets, threads and
// clocks. TcpFabric adds sockets and proofs; the simulator adds simulated rails and virtual time.
//
// Each rail begins with two introductions (a join). Links decides which joins may continue
// (README.md). A node is a neighbour while a direct rail to it exists on which a large frame has
// passed.
//
// Owner: Node. Thread: the node's; time is an argument, and random numbers come from the options.
// Memory: one Link for each node, at most three times nodes_max and kFarNodesMax, and the caller's
// pending joins.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/fabric/circuit/router.h"
#include "daemon/fabric/node_places.h"
#include "daemon/link/fabric_listener.h"
#include "daemon/link/link.h"
#include "daemon/rail/rail_path.h"
#include "proto/wire/hello.h"

namespace mlxcomm::v1 {
class NodeStatus;
}

namespace mlxcomm::fabric {

class Links final : private RouterPort {
 public:
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};
  // An unused link is forgotten after this long.
  static constexpr std::uint64_t kForgetNs = 600'000'000'000;
  static constexpr std::uint64_t kForgetSoonNs = 1'000'000'000;
  // Nodes that are reached through others, or to which a route is being opened.
  static constexpr std::size_t kFarNodesMax = RouteTable::kNodesMax;
  // A node counts as forwarding until this long after an operation's last frame: longer than a
  // training step.
  static constexpr std::uint64_t kForwardsNs = 600'000'000'000;

  // Both outlive it.
  Links(const link::FabricOptions& options, link::FabricListener& listener)
      : options_(options), listener_(listener), router_(options, *this) {}
  // Circuits must send their last frames before their neighbours' links go.
  ~Links() { StopRails(); }
  Links(const Links&) = delete;
  Links& operator=(const Links&) = delete;

  // Returns true while the node is up or in grace.
  bool IsReachable(const NodeId& node) const {
    const link::Link* const link = FindLink(node);
    return link != nullptr && link->reachable();
  }
  // The incarnation of the daemon that was linked last; 0 if none was.
  std::uint64_t IncarnationOf(const NodeId& node) const;
  // The name with which the node introduced itself, or its id.
  std::string NameOf(const NodeId& node) const;

  // Called for side rails' messages, before the first link is made. It must not call back.
  void SetRailSetup(link::OnRailSetup on_rail_setup) { on_rail_setup_ = std::move(on_rail_setup); }

  // Queues a numbered frame; magic, sequence and acknowledged are filled in. kData keeps a
  // reference to `payload` until OnDataReleased(cookie); other payloads are copied. Frames to one
  // node arrive in order. FAILED_PRECONDITION: the node is not reachable. RESOURCE_EXHAUSTED: too
  // many frames are queued for it.
  absl::Status Send(const NodeId& node, const wire::FrameHeader& header, const std::byte* payload,
                    std::uint64_t cookie);
  // Must come before the grant that lets the node send. The receive ends once all of its bytes are
  // placed.
  absl::Status PostReceive(const NodeId& node, const rail::PostedReceive& receive);
  // Forgets all receives of the operation; OnWithdrawn follows later. Frames that still arrive are
  // dropped.
  void Withdraw(const NodeId& node, const OperationKey& key);
  // Sends the operation's kData frames that no rail is writing as kCancelled; OnDataReleased
  // follows.
  void Cancel(const NodeId& node, const OperationKey& key);
  // Allocates what large data needs on the node's rails: a group has ranks there and here.
  void Prepare(const NodeId& node);
  // Processes rail events, changed neighbours and routes. Returns the number of events.
  std::size_t Poll(std::uint64_t now_ns);
  // Sends due acknowledgements first.
  bool PrepareToSleep();
  void WakeUp();
  void Describe(v1::NodeStatus& status) const;
  // Grows when direct rails have ended: the side that dialed may dial again.
  std::uint64_t rails_gone() const { return rails_gone_; }
  // Returns whether links' memory has been freed since the last call; at most once a tick.
  bool TakeMemoryFreed() { return std::exchange(memory_freed_, false); }
  // Other nodes' operations go through this node now, beyond merely open circuits.
  bool forwards() const {
    const std::uint64_t passed_ns = router_.circuits().operations_passed_ns();
    return passed_ns != 0 && now_ns_ < passed_ns + kForwardsNs;
  }
  template <typename Visitor>
  void ForEach(Visitor visitor) const {
    for (const Peer* const peer : in_order_) visitor(static_cast<const link::Link&>(*peer->link));
  }

  // Runs everything that is due: heartbeats, grace periods, probes, routes.
  void OnTime(std::uint64_t now_ns);
  // When OnTime must run next; after OnTime it is not in the past.
  std::uint64_t deadline_ns() const;
  // True also shortly before the deadline: a loop that is about to sleep need not wake up for it.
  bool MayTick(std::uint64_t now_ns) const { return now_ns + early_ns_ >= next_tick_ns_; }

  using Origin = ConnectionOrigin;
  struct Join {
    std::uint64_t number = 0;
    NodeId peer;
    rail::RailPath path;
    link::Link::Standing standing;
    wire::Introduction own{};  // Lacks only its mac.
  };
  // The rail over a path (0: none), and how many rails the peer has had.
  struct RailMark {
    std::uint64_t rail = 0;
    std::uint64_t rails_added = 0;
  };
  bool HasRailOver(const NodeId& peer, const rail::RailPath& path) const {
    const link::Link* const link = FindLink(peer);
    return link != nullptr && link->HasRailOver(path);
  }
  // Adds a rail that was agreed on over the channel (Link::AddSideRail).
  absl::Status AddSideRail(const NodeId& peer, std::unique_ptr<rail::Rail> rail,
                           const rail::RailPath& path, std::uint64_t now_ns);
  // Judges a proved peer: kAccepted, kSelf, kAlreadyLinked, kTooMany..
  wire::VerdictCode Judge(const NodeId& peer, const rail::RailPath& path,
                          const Origin& from = {}) const;
  RailMark MarkOf(const NodeId& peer, const rail::RailPath& path) const;
  // ABORTED: a rail exists, or another join excludes this one; try later. RESOURCE_EXHAUSTED: too
  // many nodes (IsNoPlace) or connections. Another node may lose its place to this one.
  absl::StatusOr<Join> BeginAsDialer(const NodeId& peer, const rail::RailPath& path,
                                     const Origin& to = {});
  // `mark`: taken before the verdict. Removes a dead rail.
  absl::StatusOr<Join> BeginAsAcceptor(const NodeId& peer, const rail::RailPath& path,
                                       const wire::Introduction& theirs, RailMark mark,
                                       std::uint64_t now_ns, const Origin& from = {});
  // Each join ends with exactly one call: Finish or Abandon. `rail`: not started yet.
  absl::Status Finish(const Join& join, std::unique_ptr<rail::Rail> rail,
                      const wire::Introduction& theirs, std::uint64_t now_ns);
  void Abandon(const Join& join);

  // Sets the claim by which the node is dialed now, whichever side dialed its connection.
  void SetDialedAs(const NodeId& node, link::NodeClaim claim);

  // Direct rails and the side rails beside them. The visitor must not call back.
  template <typename Visitor>
  void ForEachConnection(Visitor visitor) const {
    for (const Peer* const peer : in_order_) {
      peer->link->ForEachConnection([&](const rail::RailPath& path, rail::Rail& rail) {
        visitor(peer->link->peer().id, path, rail);
      });
    }
  }
  void Report(const link::FabricNotice& notice) { listener_.OnNotice(notice); }
  // Gives the rail up, if it exists, without notifying the peer.
  void RemoveRail(const NodeId& peer, const rail::RailPath& path, const std::string& why,
                  LinkReason reason, std::uint64_t now_ns);
  // A local interface lost its carrier or is gone: rails over it end at once.
  void OnInterfaceDown(const std::string& interface, std::uint64_t now_ns);
  void OnInterfaceUp(std::uint64_t now_ns) {
    for (Peer* const peer : in_order_) peer->link->OnInterfaceUp(now_ns);
  }
  // The node's daemon has stopped: after a reset its address refuses connections, or another node
  // answers there. Has no effect unless its link is in grace after a reset.
  void OnGone(const NodeId& node, const std::string& why,
              LinkReason reason = LinkReason::kPeerStopped);

  // Used by an orderly stop: nothing is delivered any more. SendRemaining returns true once all is
  // sent.
  void FlushAcknowledgements();
  bool PrepareRailsToSleep();
  bool SendRemaining();
  // Rails send what they were given, circuits first; then they stop.
  void FinishRails();
  void StopRails();

  // Neighbours that have a place.
  std::size_t nodes() const;
  // Nodes that are reached through others, or about to be; they need no place.
  std::size_t far_nodes() const;
  std::uint64_t nodes_refused() const { return nodes_refused_; }
  std::uint64_t node_refused_ns() const { return node_refused_ns_; }
  // Called for a connection that the verdict refused.
  void CountRefused() {
    ++nodes_refused_;
    node_refused_ns_ = now_ns_;
  }
  static bool IsNoPlace(const absl::Status& status);

 private:
  // The sessions of a neighbour's link; 0: not a neighbour.
  struct Sessions {
    std::uint64_t own = 0;
    std::uint64_t peer = 0;
    friend bool operator==(const Sessions&, const Sessions&) = default;
  };
  struct Peer {
    std::unique_ptr<link::Link> link;
    // Numbers of the direct rails by path; ended ones are removed when the next is added.
    std::vector<std::pair<rail::RailPath, std::uint64_t>> rails;
    link::NodeClaim dialed_as = link::NodeClaim::kComes;
    // A direct rail was added, and since then the node was neither lost nor reached through others.
    bool near = false;
    std::string address;  // Taken from the first direct rail, like `interface`.
    std::string interface;
    std::uint64_t rails_added = 0;
    Sessions observed;             // Last reported to the router.
    std::uint64_t rails_gone = 0;  // The link's number that was counted.
    std::uint64_t idle_since_ns = kNever;
  };
  struct PendingJoin {
    std::uint64_t number = 0;
    NodeId peer;
    rail::RailPath path;
    bool as_dialer = false;
    bool again = false;
  };

  Peer* PeerOf(const NodeId& node) const;
  bool Excluded(const NodeId& peer, const rail::RailPath& path, bool again, bool as_dialer) const;
  bool PrefersOwnDial(const NodeId& peer, const rail::RailPath& path, bool again) const {
    return options_.self.id < peer && Excluded(peer, path, again, /*as_dialer=*/true);
  }
  Join Begin(const link::Link& link, const rail::RailPath& path,
             const link::Link::Standing& standing, bool as_dialer, bool again);
  void ObserveNeighbours(std::uint64_t now_ns);
  void CheckForPause(std::uint64_t now_ns);
  void PlanTick(std::uint64_t now_ns);
  void AskSoon(std::uint64_t now_ns);
  bool IsUnused(const Peer& peer) const;
  void ForgetIdle(std::uint64_t now_ns);
  // A neighbour, or a node that is about to be one or is in grace.
  bool HasPlace(const Peer& peer) const {
    return (peer.near && peer.link->reachable()) || IsJoining(peer.link->peer().id);
  }
  // Reached through others. Further nodes are only remembered.
  bool IsFar(const Peer& peer) const {
    return !HasPlace(peer) &&
           (peer.link->reachable() || router_.IsOpeningRouteTo(peer.link->peer().id));
  }
  link::NodeClaim ClaimOf(const Peer& peer) const;
  PlaceAnswer FindPlaceFor(const NodeId& node, const rail::RailPath& path, const Origin& from,
                           std::vector<Peer*>& holders) const;
  bool HasTooManyConnections(const Peer& peer, const rail::RailPath& path,
                             const Origin& from) const;
  absl::StatusOr<link::Link*> TakePlace(const NodeId& node, const rail::RailPath& path,
                                        const Origin& from);
  bool ForgetOldest();
  Peer& MakePeer(const NodeId& node);
  absl::Status TooManyNodes(PlaceAnswer::Kind kind) const;
  // RouterPort
  link::Link* LinkTo(const NodeId& node) override;
  link::Link* FindLink(const NodeId& node) const override {
    const Peer* const peer = PeerOf(node);
    return peer == nullptr ? nullptr : peer->link.get();
  }
  bool IsJoining(const NodeId& node) const override;
  wire::Introduction OwnIntroduction(const link::Link::Standing& standing) const override;
  bool SendToNeighbour(const NodeId& neighbour, const wire::FrameHeader& header,
                       const std::byte* payload) override {
    link::Link* const link = FindLink(neighbour);
    return link != nullptr && link->is_neighbour() && link->Send(header, payload, 0).ok();
  }

  const link::FabricOptions& options_;
  link::FabricListener& listener_;
  link::OnRailSetup on_rail_setup_;
  Router router_;            // Destroyed after the links, whose rails may be its circuits.
  link::EarlyBudget early_;  // Destroyed after the links, which return their share.
  absl::flat_hash_map<NodeId, std::unique_ptr<Peer>> peers_;
  std::vector<Peer*> in_order_;  // Sorted by time of creation.
  std::vector<PendingJoin> joins_;
  std::uint64_t nodes_refused_ = 0;
  std::uint64_t node_refused_ns_ = 0;
  std::uint64_t now_ns_ = 0;
  std::uint64_t next_join_ = 1;
  std::uint64_t next_tick_ns_ = 0;
  std::uint64_t early_ns_ = 0;  // A tick may come this much earlier if the loop is awake anyway.
  std::uint64_t ticked_ns_ = 0;
  std::uint64_t soon_ns_ = kNever;  // When new rails are asked.
  std::uint64_t rails_gone_ = 0;
  bool freed_ = false;  // Memory, since the last tick.
  bool memory_freed_ = false;
};

}  // namespace mlxcomm::fabric
