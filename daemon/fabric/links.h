// All links of this daemon and the router over them: the fabric without sockets, threads and clocks.
// TcpFabric adds listening, dialing and proving; the simulator adds simulated rails and virtual time.
//
// Each rail begins with two introductions (a join). Links decides which joins may continue, so that both
// ends arrive at the same rails and sessions; README.md, Links, has the protocol and its rules. A node is
// a neighbour while there is a direct rail to it on which a large frame has passed.
//
// Owner: Node. Thread: the node's; time is an argument, and random numbers are the options'. Memory: one
// Link for each node, at most three times nodes_max and kFarNodesMax; as many joins as the caller has under
// way.
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

// What Links needs of its owner. Called from inside its calls; may not call back.
class LinksPort {
 public:
  virtual ~LinksPort() = default;
  // A neighbour says it of a side rail; payload is valid only during the call.
  virtual void OnRailSetup(const NodeId& /*node*/, std::span<const std::byte> /*payload*/) {}
  // A direct rail has gone, in whatever way: the side that dialed may dial again.
  virtual void OnRailGone() = 0;
  // deadline_ns() may have come nearer.
  virtual void OnDeadlineChanged() = 0;
  // Nodes have gone, and what they had needed is free; at most once in a tick. The allocator still has it.
  virtual void OnMemoryFreed() {}
};

class Links final : private RouterPort {
 public:
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};
  // How long a link is kept of which there is nothing but the memory.
  static constexpr std::uint64_t kForgetNs = 600'000'000'000;
  static constexpr std::uint64_t kForgetSoonNs = 1'000'000'000;
  // Nodes that are linked through others, or to which a way is being opened: as many as there may be routes
  // to. Over one neighbour there are at most Circuits::kCircuitsPerNeighbourMax.
  static constexpr std::size_t kFarNodesMax = RouteTable::kNodesMax;
  // A node forwards until this long after the last frame of an operation: longer than a step, an
  // evaluation or a checkpoint takes as a rule, between two operations of one job.
  static constexpr std::uint64_t kForwardsNs = 600'000'000'000;

  // `options` and the others outlive it.
  Links(const link::FabricOptions& options, link::FabricListener& listener, LinksPort& port)
      : options_(options), listener_(listener), port_(port), router_(options, *this) {}
  // Circuits end while there still is what carries their last word.
  ~Links() { StopRails(); }
  Links(const Links&) = delete;
  Links& operator=(const Links&) = delete;

  // True while the node is up or in grace.
  bool IsReachable(const NodeId& node) const {
    const link::Link* const link = FindLink(node);
    return link != nullptr && link->reachable();
  }
  // Of the daemon that this node was linked with last; 0: none.
  std::uint64_t IncarnationOf(const NodeId& node) const;
  // The name by which the node introduced itself; its id if it never did.
  std::string NameOf(const NodeId& node) const;

  // Queues a numbered frame; magic, sequence and acknowledged are filled in. kData: `payload` is
  // referenced until OnDataReleased(cookie). Others: copied. Frames to one node arrive in the order of
  // the calls.
  // FAILED_PRECONDITION: the node is not reachable. RESOURCE_EXHAUSTED: too many wait for it already.
  absl::Status Send(const NodeId& node, const wire::FrameHeader& header, const std::byte* payload,
                    std::uint64_t cookie);
  // Must come before the grant that lets the node send. The receive is forgotten by itself once all of
  // its bytes have been placed.
  absl::Status PostReceive(const NodeId& node, const rail::PostedReceive& receive);
  // Forgets all receives of the operation; OnWithdrawn follows, always later. Frames that still arrive
  // for it are read and dropped.
  void Withdraw(const NodeId& node, const OperationKey& key);
  // kData frames of the operation that no rail is writing are sent as kCancelled; OnDataReleased follows
  // for each frame as soon as it is free.
  void Cancel(const NodeId& node, const OperationKey& key);
  // A group has ranks there and here: its rails get what large data needs.
  void Prepare(const NodeId& node);
  // What rails have delivered; changes of neighbours; the router's turn.
  std::size_t Poll(std::uint64_t now_ns);
  // Acknowledgements that are due go out first.
  bool PrepareToSleep();
  void WakeUp();
  void Describe(v1::NodeStatus& status) const;
  // In the order in which they were made.
  template <typename Visitor>
  void ForEach(Visitor visitor) const {
    for (const Peer* const peer : in_order_) visitor(static_cast<const link::Link&>(*peer->link));
  }

  // Heartbeats, grace periods, probes, routes: all that is due.
  void OnTime(std::uint64_t now_ns);
  // When OnTime has something to do; not in the past after it.
  std::uint64_t deadline_ns() const;
  // Even before the deadline: a loop that is about to sleep need not wake up for it.
  bool MayTick(std::uint64_t now_ns) const { return now_ns + early_ns_ >= next_tick_ns_; }

  using Origin = ConnectionOrigin;
  // A join under way.
  struct Join {
    std::uint64_t number = 0;
    NodeId peer;
    rail::RailPath path;
    link::Link::Standing standing;
    wire::Introduction own{};  // Lacks only its mac.
  };
  // Which rail there is over the path, 0: none; and how many have come so far.
  struct RailMark {
    std::uint64_t rail = 0;
    std::uint64_t rails_added = 0;
  };
  bool HasRailOver(const NodeId& peer, const rail::RailPath& path) const {
    const link::Link* const link = FindLink(peer);
    return link != nullptr && link->HasRailOver(path);
  }
  // As Link: a rail that was agreed on over the channel.
  absl::Status AddSideRail(const NodeId& peer, std::unique_ptr<rail::Rail> rail,
                           const rail::RailPath& path, std::uint64_t now_ns);
  // Once the peer is proved: kAccepted, kSelf, kAlreadyLinked, kTooMany..
  wire::VerdictCode Judge(const NodeId& peer, const rail::RailPath& path,
                          const Origin& from = {}) const;
  RailMark MarkOf(const NodeId& peer, const rail::RailPath& path) const;
  // ABORTED: there is a rail, or another join that excludes this one; try later.
  // RESOURCE_EXHAUSTED: too many nodes (IsNoPlace), or connections. Another node may lose its place for this
  // one.
  absl::StatusOr<Join> BeginAsDialer(const NodeId& peer, const rail::RailPath& path,
                                     const Origin& to = {});
  // `mark`: from before the verdict. Takes a dead rail away.
  absl::StatusOr<Join> BeginAsAcceptor(const NodeId& peer, const rail::RailPath& path,
                                       const wire::Introduction& theirs, RailMark mark,
                                       std::uint64_t now_ns, const Origin& from = {});
  // Of each join either Finish or Abandon is called, once. `rail`: not yet started.
  absl::Status Finish(const Join& join, std::unique_ptr<rail::Rail> rail,
                      const wire::Introduction& theirs, std::uint64_t now_ns);
  void Abandon(const Join& join);

  // By which claim it is dialed now; also where it is linked by a connection that it has dialed itself.
  void SetDialedAs(const NodeId& node, link::NodeClaim claim);

  // Those to neighbours, and side rails beside them: visitor(peer, path, rail); it may not call back.
  template <typename Visitor>
  void ForEachConnection(Visitor visitor) const {
    for (const Peer* const peer : in_order_) {
      peer->link->ForEachConnection([&](const rail::RailPath& path, rail::Rail& rail) {
        visitor(peer->link->peer().id, path, rail);
      });
    }
  }
  // Reports what people want to know of sockets.
  void Report(const link::FabricNotice& notice) { listener_.OnNotice(notice); }
  // Gives it up, if there is one; the other side does not learn of it.
  void RemoveRail(const NodeId& peer, const rail::RailPath& path, const std::string& why,
                  LinkReason reason, std::uint64_t now_ns);
  // A local interface has lost its carrier or is gone: rails over it go at once.
  void OnInterfaceDown(const std::string& interface, std::uint64_t now_ns);
  void OnInterfaceUp(std::uint64_t now_ns) {
    for (Peer* const peer : in_order_) peer->link->OnInterfaceUp(now_ns);
  }
  // Connections to it are refused after its last one was reset, or another node answers
  // at its address: it has ended. Only if its link is in grace after a reset.
  void OnGone(const NodeId& node, const std::string& why,
              LinkReason reason = LinkReason::kPeerStopped);

  // For the orderly end. Nothing is delivered any more. True: all is handed to the rails.
  void FlushAcknowledgements();
  bool PrepareRailsToSleep();
  bool SendRemaining();
  // Rails send what they were given, circuits before what carries them; then they stop.
  void FinishRails();
  void StopRails();

  // Of neighbours: how many have a place, and how often one had none, or yielded it.
  std::size_t nodes() const;
  // Those that are reached through others, or are about to be; they have no place.
  std::size_t far_nodes() const;
  std::uint64_t nodes_refused() const { return nodes_refused_; }
  std::uint64_t node_refused_ns() const { return node_refused_ns_; }  // The last one.
  // For a connection whose other side learns of it by the verdict.
  void CountRefused() {
    ++nodes_refused_;
    node_refused_ns_ = now_ns_;
  }
  static bool IsNoPlace(const absl::Status& status);

 private:
  // Of a neighbour, ours and its own; 0: it is none.
  struct Sessions {
    std::uint64_t own = 0;
    std::uint64_t peer = 0;
    friend bool operator==(const Sessions&, const Sessions&) = default;
  };
  struct Peer {
    std::unique_ptr<link::Link> link;
    // Numbers of the direct rails that were added, by path; those that have gone are
    // forgotten when the next is added.
    std::vector<std::pair<rail::RailPath, std::uint64_t>> rails;
    link::NodeClaim dialed_as = link::NodeClaim::kComes;
    // A direct rail has come, and since then it was neither lost nor reached through others.
    bool near = false;
    std::string address;  // Of the first direct rail, as `interface`.
    std::string interface;
    std::uint64_t rails_added = 0;
    Sessions observed;             // What the router knows of.
    std::uint64_t rails_gone = 0;  // As reported to the port.
    std::uint64_t idle_since_ns = kNever;
  };
  struct UnderWay {
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
  void LookForPause(std::uint64_t now_ns);
  void PlanTick(std::uint64_t now_ns);
  void ReportForwarding(std::uint64_t now_ns);
  void LetOthersBeFirst();
  void AskSoon(std::uint64_t now_ns);
  bool IsUnused(const Peer& peer) const;
  void ForgetIdle(std::uint64_t now_ns);
  // It is a neighbour, or about to be one, or was one and is in grace.
  bool HasPlace(const Peer& peer) const {
    return (peer.near && peer.link->reachable()) || IsJoining(peer.link->peer().id);
  }
  // All others are only remembered.
  bool IsFar(const Peer& peer) const {
    return !HasPlace(peer) &&
           (peer.link->reachable() || router_.IsOpeningWayTo(peer.link->peer().id));
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
  void OnDeadlineChanged() override { port_.OnDeadlineChanged(); }

  const link::FabricOptions& options_;
  link::FabricListener& listener_;
  LinksPort& port_;
  Router router_;            // The links' rails may be its circuits, so it goes after them.
  link::EarlyBudget early_;  // Of the links below, which give it back at their end.
  absl::flat_hash_map<NodeId, std::unique_ptr<Peer>> peers_;
  std::vector<Peer*> in_order_;  // Of their making: what is done to all is done in it.
  std::vector<UnderWay> joins_;
  std::uint64_t nodes_refused_ = 0;
  std::uint64_t node_refused_ns_ = 0;
  std::uint64_t now_ns_ = 0;
  std::uint64_t next_join_ = 1;
  std::uint64_t next_tick_ns_ = 0;
  std::uint64_t early_ns_ = 0;      // So much before it one may come, if we are awake anyway.
  std::uint64_t ticked_ns_ = 0;     // At the last one.
  std::uint64_t soon_ns_ = kNever;  // When new rails are asked.
  bool forwards_ = false;           // As told.
  bool freed_ = false;              // Since the last tick.
};

}  // namespace mlxcomm::fabric
