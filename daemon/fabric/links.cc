#include "daemon/fabric/links.h"

#include <algorithm>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "daemon/rail/status_reason.h"
#include "daemon/rail/text_field.h"
#include "mlxcomm/v1/diagnostics.pb.h"
#include "proto/types/plain_text.h"

namespace mlxcomm::fabric {
namespace {

absl::Status NoLink() { return absl::FailedPreconditionError("no link to this node"); }

absl::Status Busy(const char* why) {
  return rail::WithReason(absl::AbortedError(why), LinkReason::kAnotherConnection);
}

constexpr char kNoPlacePayload[] = "mlxcomm.v1.NoPlace";

}  // namespace

Links::Peer* Links::PeerOf(const NodeId& node) const {
  const auto found = peers_.find(node);
  return found == peers_.end() ? nullptr : found->second.get();
}

// Called during a turn, so it must not forget any link. The remaining capacity is for neighbours.
link::Link* Links::LinkTo(const NodeId& node) {
  Peer* const peer = PeerOf(node);
  if (peer != nullptr && (peer->link->direct_rails() > 0 || IsFar(*peer))) return peer->link.get();
  if (far_nodes() >= kFarNodesMax) return nullptr;
  if (peer != nullptr) return peer->link.get();
  if (peers_.size() >= std::size_t{2} * options_.nodes_max + kFarNodesMax) return nullptr;
  return MakePeer(node).link.get();
}

Links::Peer& Links::MakePeer(const NodeId& node) {
  std::unique_ptr<Peer>& peer = peers_[node];
  peer = std::make_unique<Peer>();
  peer->link =
      std::make_unique<link::Link>(options_, node, listener_, &router_, on_rail_setup_, &early_);
  in_order_.push_back(peer.get());
  return *peer;
}

std::string Links::NameOf(const NodeId& node) const {
  const link::Link* const link = FindLink(node);
  return link != nullptr && !link->peer().name.empty() ? link->peer().name : node.ToString();
}

std::uint64_t Links::IncarnationOf(const NodeId& node) const {
  const link::Link* const link = FindLink(node);
  return link == nullptr ? 0 : link->peer().incarnation;
}

absl::Status Links::Send(const NodeId& node, const wire::FrameHeader& header,
                         const std::byte* payload, std::uint64_t cookie) {
  link::Link* const link = FindLink(node);
  return link == nullptr ? NoLink() : link->Send(header, payload, cookie);
}

absl::Status Links::PostReceive(const NodeId& node, const rail::PostedReceive& receive) {
  link::Link* const link = FindLink(node);
  return link == nullptr ? NoLink() : link->PostReceive(receive);
}

void Links::Withdraw(const NodeId& node, const OperationKey& key) {
  if (link::Link* const link = FindLink(node); link != nullptr) link->Withdraw(key);
}

void Links::Cancel(const NodeId& node, const OperationKey& key) {
  if (link::Link* const link = FindLink(node); link != nullptr) link->Cancel(key);
}

// Circuits that open during the loop may add links.
std::size_t Links::Poll(std::uint64_t now_ns) {
  now_ns_ = now_ns;
  std::size_t count = 0;
  for (std::size_t i = 0; i < in_order_.size(); ++i) {
    count += in_order_[i]->link->Poll(now_ns);
  }
  ObserveNeighbours(now_ns);
  router_.Turn(now_ns);
  return count;
}

// Reports neighbours that have come or gone to the router, and counts lost rails. It compares
// states, because a rail can end in many places: on its own, replaced, with a lost link, during a
// circuit's frame.
void Links::ObserveNeighbours(std::uint64_t now_ns) {
  for (std::size_t i = 0; i < in_order_.size(); ++i) {
    Peer& peer = *in_order_[i];
    const link::Link& link = *peer.link;
    const std::uint64_t rails_gone = link.direct_rails_gone();
    rails_gone_ += rails_gone - std::exchange(peer.rails_gone, rails_gone);
    const link::Link::Standing standing = link.standing();
    Sessions now;
    if (link.is_neighbour()) now = {standing.session, standing.known_peer_session};
    if (link.direct_rails() > 0) {
      peer.near = true;
    } else if (link.has_rail() || !link.reachable()) {
      peer.near = false;
    }
    if (now == peer.observed) continue;
    const NodeId node = link.peer().id;
    if (std::exchange(peer.observed, now) != Sessions{}) {
      const bool reset = link.state() == link::Link::State::kLost || link.lost_by_reset();
      router_.OnNeighbourGone(node, reset, link.down_why(), now_ns);
    }
    if (now != Sessions{}) router_.OnNeighbourUp(node);
  }
}

bool Links::PrepareToSleep() {
  // All links first: circuits acknowledge over neighbours' rails.
  for (Peer* const peer : in_order_) peer->link->AcknowledgeBeforeSleep();
  for (std::size_t i = 0; i < in_order_.size(); ++i) {
    link::Link& link = *in_order_[i]->link;
    if (!link.HasWork() && link.PrepareToSleep()) continue;
    for (std::size_t k = 0; k < i; ++k) in_order_[k]->link->WakeUp();
    return false;
  }
  return true;
}

void Links::WakeUp() {
  for (Peer* const peer : in_order_) peer->link->WakeUp();
}

void Links::Describe(v1::NodeStatus& status) const {
  for (const Peer* const peer : in_order_) peer->link->Describe(*status.add_links());
}

void Links::OnTime(std::uint64_t now_ns) {
  now_ns_ = now_ns;
  const bool tick = MayTick(now_ns);
  if (tick) CheckForPause(now_ns);
  if (tick) PlanTick(now_ns);
  const bool soon = now_ns >= soon_ns_;
  if (soon) soon_ns_ = kNever;
  for (std::size_t i = 0; i < in_order_.size(); ++i) {
    link::Link& link = *in_order_[i]->link;
    if (tick) link.OnTick(now_ns);
    if (soon) link.PingNewRails(now_ns);
    if (link.has_new_rail()) AskSoon(now_ns);
    freed_ = link.OnTime(now_ns) || freed_;
  }
  ObserveNeighbours(now_ns);
  router_.Turn(now_ns);
  if (!tick) return;
  ForgetIdle(now_ns);
  memory_freed_ = std::exchange(freed_, false) || memory_freed_;
}

// A tick this late means that the process was stopped or the machine slept.
void Links::CheckForPause(std::uint64_t now_ns) {
  if (ticked_ns_ == 0 || now_ns <= next_tick_ns_ + options_.heartbeat_interval_ns) return;
  for (Peer* const peer : in_order_) peer->link->OnPause(now_ns - next_tick_ns_, now_ns);
}

// While every peer answers, they are asked half as often (if the timeout permits): an idle daemon
// costs nothing. A daemon that a heartbeat wakes may tick early, and need not wake again.
void Links::PlanTick(std::uint64_t now_ns) {
  const std::uint64_t interval_ns = options_.heartbeat_interval_ns;
  const bool seldom = options_.heartbeat_timeout_ns >= 4 * interval_ns &&
                      std::ranges::all_of(in_order_, [this](const Peer* peer) {
                        return peer->link->HasHeardAllSince(ticked_ns_);
                      });
  early_ns_ = seldom ? interval_ns : 0;
  next_tick_ns_ = now_ns + interval_ns + early_ns_;
  ticked_ns_ = now_ns;
}

void Links::AskSoon(std::uint64_t now_ns) {
  constexpr std::uint64_t kSoonNs = 20'000'000;
  soon_ns_ = std::min(soon_ns_, now_ns + kSoonNs);
}

bool Links::IsUnused(const Peer& peer) const {
  const link::Link& link = *peer.link;
  const NodeId& node = link.peer().id;
  return !link.reachable() && !link.HasWork() && peer.observed == Sessions{} && !IsJoining(node) &&
         !router_.IsOpeningRouteTo(node);
}

// Called only from OnTime: elsewhere, links are in use further up the stack.
void Links::ForgetIdle(std::uint64_t now_ns) {
  const bool crowded = in_order_.size() - nodes() - far_nodes() > options_.nodes_max;
  const std::uint64_t patience_ns = crowded ? kForgetSoonNs : kForgetNs;
  std::erase_if(in_order_, [&](Peer* const peer) {
    if (!IsUnused(*peer) || router_.HasRouteTo(peer->link->peer().id)) {
      peer->idle_since_ns = kNever;
      return false;
    }
    peer->idle_since_ns = std::min(peer->idle_since_ns, now_ns);
    if (now_ns - peer->idle_since_ns < patience_ns) return false;
    const NodeId node = peer->link->peer().id;
    peers_.erase(node);
    freed_ = true;
    return true;
  });
}

std::uint64_t Links::deadline_ns() const {
  std::uint64_t next = std::min({next_tick_ns_, soon_ns_, router_.deadline_ns()});
  for (const Peer* const peer : in_order_) next = std::min(next, peer->link->deadline_ns());
  return next;
}

wire::Introduction Links::OwnIntroduction(const link::Link::Standing& standing) const {
  wire::Introduction own{};
  own.incarnation = options_.self.incarnation;
  own.session = standing.session;
  own.known_peer_session = standing.known_peer_session;
  own.next_expected = standing.next_expected;
  rail::PutText(options_.self.name, own.node_name);
  rail::PutText(options_.self.software_version, own.software_version);
  own.versions = wire::SpokenVersions();
  return own;
}

absl::Status Links::AddSideRail(const NodeId& peer, std::unique_ptr<rail::Rail> rail,
                                const rail::RailPath& path, std::uint64_t now_ns) {
  link::Link* const link = FindLink(peer);
  if (link == nullptr) return NoLink();
  const absl::Status added = link->AddSideRail(std::move(rail), path, now_ns);
  if (added.ok()) AskSoon(now_ns);
  ObserveNeighbours(now_ns);
  return added;
}

bool Links::IsJoining(const NodeId& node) const {
  return std::ranges::any_of(joins_, [&](const PendingJoin& join) { return join.peer == node; });
}

// Returns true if a pending join excludes this one.
bool Links::Excluded(const NodeId& peer, const rail::RailPath& path, bool again,
                     bool as_dialer) const {
  return std::ranges::any_of(joins_, [&](const PendingJoin& join) {
    return join.peer == peer && join.as_dialer == as_dialer &&
           (join.again || again || join.path == path);
  });
}

wire::VerdictCode Links::Judge(const NodeId& peer, const rail::RailPath& path,
                               const Origin& from) const {
  if (peer == options_.self.id) return wire::VerdictCode::kSelf;
  const Peer* const known = PeerOf(peer);
  if (known == nullptr || !HasPlace(*known)) {
    std::vector<Peer*> holders;
    switch (FindPlaceFor(peer, path, from, holders).kind) {
      case PlaceAnswer::Kind::kFull: return wire::VerdictCode::kTooManyNodes;
      case PlaceAnswer::Kind::kAddressFull: return wire::VerdictCode::kTooManyOfAddress;
      case PlaceAnswer::Kind::kFree:
      case PlaceAnswer::Kind::kYields: break;
    }
  } else if (HasTooManyConnections(*known, path, from)) {
    return wire::VerdictCode::kTooManyConnections;
  }
  return PrefersOwnDial(peer, path, !IsReachable(peer)) ? wire::VerdictCode::kAlreadyLinked
                                                        : wire::VerdictCode::kAccepted;
}

Links::RailMark Links::MarkOf(const NodeId& peer, const rail::RailPath& path) const {
  RailMark mark;
  const Peer* const known = PeerOf(peer);
  if (known == nullptr) return mark;
  mark.rails_added = known->rails_added;
  for (const auto& [at, number] : known->rails) {
    if (at == path && known->link->HasRailOver(path)) mark.rail = number;
  }
  return mark;
}

Links::Join Links::Begin(const link::Link& link, const rail::RailPath& path,
                         const link::Link::Standing& standing, bool as_dialer, bool again) {
  joins_.push_back({next_join_, link.peer().id, path, as_dialer, again});
  return {.number = next_join_++,
          .peer = link.peer().id,
          .path = path,
          .standing = standing,
          .own = OwnIntroduction(standing)};
}

void Links::Abandon(const Join& join) {
  std::erase_if(joins_, [&](const PendingJoin& other) { return other.number == join.number; });
}

absl::StatusOr<Links::Join> Links::BeginAsDialer(const NodeId& peer, const rail::RailPath& path,
                                                 const Origin& to) {
  if (HasRailOver(peer, path)) return Busy("linked already");
  const absl::StatusOr<link::Link*> place = TakePlace(peer, path, to);
  if (!place.ok()) return place.status();
  link::Link* const link = *place;
  if (link->direct_rails() >= link::Link::kRailsMax) return link::Link::TooManyRails();
  const bool again = !link->reachable();
  if (Excluded(peer, path, again, true) || Excluded(peer, path, again, false)) {
    return Busy("another connection to it is being made");
  }
  return Begin(*link, path, link->standing(), /*as_dialer=*/true, again);
}

// `theirs` was written after the verdict. It is stale if this side has changed since.
absl::StatusOr<Links::Join> Links::BeginAsAcceptor(const NodeId& peer, const rail::RailPath& path,
                                                   const wire::Introduction& theirs, RailMark mark,
                                                   std::uint64_t now_ns, const Origin& from) {
  const absl::StatusOr<link::Link*> place = TakePlace(peer, path, from);
  if (!place.ok()) return place.status();
  link::Link* const link = *place;
  link->Poll(now_ns);  // Notices that a restarted daemon has closed its former connections.
  const bool again = !link->ContinuesWith(theirs);
  if (again) {
    absl::Status may = link->MayTake(theirs.incarnation, from.address, now_ns);
    if (!may.ok()) return may;
  }
  const RailMark now = MarkOf(peer, path);
  const bool stale =
      (now.rail != 0 && now.rail != mark.rail) || (again && now.rails_added != mark.rails_added);
  if (stale || PrefersOwnDial(peer, path, again) || Excluded(peer, path, again, false)) {
    return Busy("another connection is preferred");
  }
  if (now.rail != 0) {
    link->RemoveRail(
        path, {"replaced by a newer connection", rail::DownCause::kCut, LinkReason::kReplaced},
        now_ns);
    ObserveNeighbours(now_ns);
  } else if (!again && link->direct_rails() >= link::Link::kRailsMax) {
    return link::Link::TooManyRails();
  }
  return Begin(*link, path, link->AnswerTo(theirs), /*as_dialer=*/false, again);
}

absl::Status Links::Finish(const Join& join, std::unique_ptr<rail::Rail> rail,
                           const wire::Introduction& theirs, std::uint64_t now_ns) {
  Abandon(join);
  Peer& peer = *PeerOf(join.peer);
  const link::NodeIdentity identity{
      .id = join.peer,
      .name = MakePrintable(rail::TextOf(theirs.node_name)),
      .software_version = MakePrintable(rail::TextOf(theirs.software_version)),
      .incarnation = theirs.incarnation};
  const absl::Status added =
      peer.link->AddRail(std::move(rail), join.path, identity, theirs, join.standing, now_ns);
  if (added.ok()) {
    std::erase_if(peer.rails, [&](const auto& entry) {
      return entry.first == join.path || !peer.link->HasRailOver(entry.first);
    });
    peer.rails.emplace_back(join.path, ++peer.rails_added);
    AskSoon(now_ns);
  }
  ObserveNeighbours(now_ns);
  return added;
}

void Links::RemoveRail(const NodeId& peer, const rail::RailPath& path, const std::string& why,
                       LinkReason reason, std::uint64_t now_ns) {
  link::Link* const link = FindLink(peer);
  if (link == nullptr) return;
  link->RemoveRail(path, {why, rail::DownCause::kCut, reason}, now_ns);
  ObserveNeighbours(now_ns);
}

void Links::OnInterfaceDown(const std::string& interface, std::uint64_t now_ns) {
  for (std::size_t i = 0; i < in_order_.size(); ++i) {
    in_order_[i]->link->OnInterfaceDown(interface, now_ns);
  }
  ObserveNeighbours(now_ns);
}

void Links::OnGone(const NodeId& node, const std::string& why, LinkReason reason) {
  link::Link* const link = FindLink(node);
  if (link != nullptr && link->lost_by_reset()) {
    link->Lose(rail::WithReason(absl::UnavailableError(why), reason));
  }
}

// Circuits write to the channels of neighbours, so neighbours come second.
bool Links::SendRemaining() {
  bool all_sent = true;
  for (const bool direct : {false, true}) {
    for (Peer* const peer : in_order_) {
      if (peer->link->is_neighbour() == direct) all_sent = peer->link->SendRemaining() && all_sent;
    }
  }
  return all_sent;
}

void Links::FlushAcknowledgements() {
  for (Peer* const peer : in_order_) peer->link->FlushAcknowledgement();
}

bool Links::PrepareRailsToSleep() {
  bool may_sleep = true;
  for (Peer* const peer : in_order_) may_sleep = peer->link->PrepareToSleep() && may_sleep;
  return may_sleep;
}

void Links::FinishRails() {
  for (const bool direct : {false, true}) {
    for (Peer* const peer : in_order_) peer->link->FinishRails(direct);
  }
}

void Links::StopRails() {
  for (Peer* const peer : in_order_) peer->link->StopRails();
}

// --- places ---------------------------------------------------------------------------------

std::size_t Links::far_nodes() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(in_order_, [this](const Peer* peer) { return IsFar(*peer); }));
}

std::size_t Links::nodes() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(in_order_, [this](const Peer* peer) { return HasPlace(*peer); }));
}

link::NodeClaim Links::ClaimOf(const Peer& peer) const {
  return std::max(peer.dialed_as, listener_.ClaimOf(peer.link->peer().id));
}

PlaceAnswer Links::FindPlaceFor(const NodeId& node, const rail::RailPath& path, const Origin& from,
                                std::vector<Peer*>& holders) const {
  std::vector<PlaceHolder> places;
  for (Peer* const peer : in_order_) {
    if (!HasPlace(*peer)) continue;
    holders.push_back(peer);
    // A pending join completes or fails soon, so it keeps its place.
    const bool joins = IsJoining(peer->link->peer().id);
    places.push_back(
        {joins ? link::NodeClaim::kInJob : ClaimOf(*peer), peer->address, peer->interface});
  }
  const Peer* const known = PeerOf(node);
  const link::NodeClaim own = known != nullptr ? ClaimOf(*known) : listener_.ClaimOf(node);
  const link::NodeClaim claim = std::max(from.claim, own);
  return FindPlace({claim, from.address, path.local}, places, options_.nodes_max);
}

// Applies to a node that has a place, unless it replaces its rail over this path.
bool Links::HasTooManyConnections(const Peer& peer, const rail::RailPath& path,
                                  const Origin& from) const {
  if (peer.link->direct_rails() == 0 || peer.link->HasRailOver(path)) return false;
  if (std::max(ClaimOf(peer), from.claim) > link::NodeClaim::kFound) return false;
  std::size_t all = 0;
  std::size_t of_address = 0;
  for (const Peer* const one : in_order_) {
    std::size_t connections = 0;  // Side rails lie beside one of these.
    one->link->ForEachConnection([&](const rail::RailPath& at, const rail::Rail&) {
      connections += at.is_side_rail() ? 0 : 1;
    });
    all += connections;
    if (one->address == from.address) of_address += connections;
  }
  return all >= ConnectionsMax(options_.nodes_max) ||
         (!from.address.empty() && of_address >= ConnectionsOfAddressMax(options_.nodes_max));
}

// Called only while no link is in use further up the stack: another may be lost and forgotten.
absl::StatusOr<link::Link*> Links::TakePlace(const NodeId& node, const rail::RailPath& path,
                                             const Origin& from) {
  Peer* peer = PeerOf(node);
  if (peer == nullptr || !HasPlace(*peer)) {
    std::vector<Peer*> holders;
    const PlaceAnswer answer = FindPlaceFor(node, path, from, holders);
    if (answer.kind == PlaceAnswer::Kind::kFull || answer.kind == PlaceAnswer::Kind::kAddressFull) {
      CountRefused();
      return TooManyNodes(answer.kind);
    }
    if (answer.kind == PlaceAnswer::Kind::kYields) {
      CountRefused();
      const Peer& yields = *holders[answer.who];
      yields.link->Lose(TooManyNodes(answer.kind));
    }
    if (peer == nullptr) {
      const std::size_t most = std::size_t{3} * options_.nodes_max + kFarNodesMax;
      if (peers_.size() >= most && !ForgetOldest()) {
        return TooManyNodes(PlaceAnswer::Kind::kFull);
      }
      peer = &MakePeer(node);
    }
  } else if (HasTooManyConnections(*peer, path, from)) {
    return rail::WithReason(
        absl::ResourceExhaustedError(
            TooManyText(wire::VerdictCode::kTooManyConnections, options_.nodes_max, "here")),
        LinkReason::kTooMany);
  }
  peer->dialed_as = std::max(peer->dialed_as, from.claim);
  // Only the first rail counts, so that a node cannot move to another address and free a place at
  // this one.
  if (peer->link->direct_rails() == 0) {
    peer->address = from.address;
    peer->interface = path.local;
  }
  return peer->link.get();
}

void Links::SetDialedAs(const NodeId& node, link::NodeClaim claim) {
  if (Peer* const peer = PeerOf(node); peer != nullptr) peer->dialed_as = claim;
}

void Links::Prepare(const NodeId& node) {
  if (link::Link* const link = FindLink(node); link != nullptr) link->Prepare();
}

// Prefers a node that no route leads to and that nothing here has asked for.
bool Links::ForgetOldest() {
  Peer* oldest = nullptr;
  const auto rank = [this](const Peer& peer) {
    return std::pair(router_.HasRouteTo(peer.link->peer().id), peer.dialed_as);
  };
  for (Peer* const peer : in_order_) {
    if (!IsUnused(*peer)) continue;
    if (oldest == nullptr || rank(*peer) < rank(*oldest)) oldest = peer;
  }
  if (oldest == nullptr) return false;
  std::erase(in_order_, oldest);
  const NodeId node = oldest->link->peer().id;
  peers_.erase(node);
  return true;
}

absl::Status Links::TooManyNodes(PlaceAnswer::Kind kind) const {
  const bool of_address = kind == PlaceAnswer::Kind::kAddressFull;
  const char* const yields =
      kind == PlaceAnswer::Kind::kYields ? "it gives up its place for another node: " : "";
  absl::Status status =
      rail::WithReason(absl::ResourceExhaustedError(absl::StrCat(
                           yields, TooManyText(of_address ? wire::VerdictCode::kTooManyOfAddress
                                                          : wire::VerdictCode::kTooManyNodes,
                                               options_.nodes_max, "here"))),
                       LinkReason::kTooMany);
  status.SetPayload(kNoPlacePayload, absl::Cord());
  return status;
}

bool Links::IsNoPlace(const absl::Status& status) {
  return status.GetPayload(kNoPlacePayload).has_value();
}

}  // namespace mlxcomm::fabric
