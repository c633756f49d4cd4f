// Handles rails that come and go, and how that changes the link's state and sessions.
#include <algorithm>
#include <string>

#include <spdlog/spdlog.h>

#include "absl/strings/str_cat.h"
#include "daemon/link/link.h"
#include "daemon/rail/status_reason.h"
#include "mlxcomm/v1/diagnostics.pb.h"
#include "proto/status_words.h"
#include "proto/types/plain_text.h"

namespace mlxcomm::link {

Link::Link(const FabricOptions& options, const NodeId& peer, FabricListener& listener,
           RoutingListener* routing, OnRailSetup on_rail_setup, EarlyBudget* early)
    : options_(options),
      listener_(listener),
      routing_(routing),
      on_rail_setup_(std::move(on_rail_setup)),
      session_(options.random()),
      channel_({options.queued_frames_max, options.copied_bytes_max}),
      arrivals_(claims_, early) {
  peer_.id = peer;
}

bool Link::is_neighbour() const {
  return direct_.Any([this](std::size_t at) { return rails_[at].carries; });
}

std::size_t Link::PlaceOf(const rail::RailPath& path) const {
  for (const std::size_t at : present_) {
    if (rails_[at].path == path) return at;
  }
  return kNoRail;
}

void Link::RemoveRail(const rail::RailPath& path, const rail::RailEnd& end, std::uint64_t now_ns) {
  if (const std::size_t at = PlaceOf(path); at != kNoRail) RemoveRailAt(at, end, now_ns);
}

void Link::OnInterfaceDown(const std::string& interface, std::uint64_t now_ns) {
  large_.OnInterfaceDown(interface);
  for (const std::size_t at : present_) {
    if (!present_.Has(at) || rails_[at].path.local != interface) continue;
    RemoveRailAt(at,
                 {absl::StrCat("interface ", interface, " of ", options_.self.name, " is down"),
                  rail::DownCause::kCut, LinkReason::kInterfaceDown},
                 now_ns);
  }
}

void Link::DropRail(std::size_t at) {
  OnRail& on = rails_[at];
  if (on.rail->is_direct()) ++direct_rails_gone_;
  OnSmallOnlyEnded(on, now_ns_);
  on.rail.reset();
  present_.Remove(at);
  direct_.Remove(at);
  if (std::exchange(on.carries, false)) {
    --carrying_;
    channel_.OnRailDown(at);
  }
  // Its frames are in the channel and its receives in posted_; its withdrawals are complete.
  waiting_count_ -= on.waiting.size();
  on.waiting = rail::GrowingRing<rail::RailCommand>();
  for (std::uint64_t i = on.withdrawals_taken - first_withdrawal_; i < withdrawals_.size(); ++i) {
    --withdrawals_[static_cast<std::size_t>(i)].rails;
  }
  for (; !withdrawals_.empty() && withdrawals_.front().rails == 0; withdrawals_.pop_front()) {
    withdrawn_.push_back(withdrawals_.front().key);
    ++first_withdrawal_;
  }
  if (delivered_last_ == at) delivered_last_ = kNoRail;
  // Acknowledgements and requests on it may not have arrived.
  acknowledge_now_ = true;
  asked_.OnRailGone();
}

bool Link::HasHeard(const OnRail& on, std::uint64_t since_ns) const {
  const std::uint64_t heard_ns = on.rail->last_received_ns();
  return (on.delivered || heard_ns != on.heard_at_start_ns) && heard_ns > since_ns;
}

void Link::KeepEndOf(std::size_t at, std::uint64_t now_ns) {
  std::shared_ptr<void> end = rails_[at].rail->KeepEnd();
  if (end == nullptr) return;
  if (kept_.size() == kKeptMax) kept_.erase(kept_.begin());
  kept_.push_back({std::move(end), now_ns});
}

// Closes those that were dropped before the peer was last heard on a connection.
void Link::CloseKept() {
  for (const std::size_t at : direct_) {
    while (!kept_.empty() && HasHeard(rails_[at], kept_.front().since_ns)) {
      kept_.erase(kept_.begin());
    }
  }
}

void Link::RemoveRailAt(std::size_t at, const rail::RailEnd& end, std::uint64_t now_ns) {
  now_ns_ = now_ns;
  OnRail& on = rails_[at];
  on.rail->Stop();
  rail::RailEvent event;
  while (on.rail->Pop(event)) {
    Deliver(at, event);
    if (on.rail == nullptr) return;  // Lost while delivering.
  }
  if (end.cause == rail::DownCause::kCut) KeepEndOf(at, now_ns);
  if (on.rail->is_direct()) last_path_ = on.path;
  const bool carried = on.carries;
  if (carried) ReportRail(at, FabricNotice::Kind::kRailDown, end.why);
  DropRail(at);
  if (end.cause == rail::DownCause::kReset) PingSideRails(end, now_ns);
  if (present_.size() > 0) {
    if (carried) {
      spdlog::warn("link to {}: a rail is down ({}), {} left", peer_.name, end.why,
                   present_.size());
    } else {
      spdlog::info("link to {}: a rail ended without passing a large frame ({})", peer_.name,
                   end.why);
    }
    Pump();
  } else if (state_ == State::kGrace) {
    StayInGrace(end, now_ns);
  } else if (state_ == State::kUp) {
    EnterGrace(end, now_ns);
  }
}

// A closed connection means that a daemon has ended or was cut off. Side rails do not notice that,
// so if no connection is left, each gets a heartbeat and must answer soon.
void Link::PingSideRails(const rail::RailEnd& end, std::uint64_t now_ns) {
  if (direct_.Any([this](std::size_t at) { return !rails_[at].path.is_side_rail(); })) return;
  for (const std::size_t at : present_) {
    if (!rails_[at].path.is_side_rail()) continue;
    SendHeartbeat(at, now_ns);
    asked_since_ns_ = now_ns;
    asked_until_ns_ = now_ns + options_.reset_grace_ns / 2;
    asked_why_ = end.why;
  }
}

void Link::RemoveSilentSideRails(std::uint64_t now_ns) {
  asked_until_ns_ = kNever;
  for (const std::size_t at : present_) {
    if (!present_.Has(at) || !rails_[at].path.is_side_rail() ||
        rails_[at].rail->last_received_ns() > asked_since_ns_) {
      continue;
    }
    RemoveRailAt(at, {absl::StrCat("its connection ended: ", asked_why_), rail::DownCause::kReset},
                 now_ns);
  }
}

void Link::ReportRail(std::size_t at, FabricNotice::Kind kind, const std::string& why) {
  const OnRail& on = rails_[at];
  std::string path;
  if (on.rail->is_direct()) {
    if (on.path.is_side_rail()) path = std::string(WordOf(on.path.transport)) + " ";
    absl::StrAppend(&path, on.path.local, " - ", on.path.remote);
  }
  listener_.OnNotice({kind, peer_.name, std::move(path), why});
}

Link::Standing Link::AnswerTo(const wire::Introduction& theirs) const {
  Standing answer = standing();
  if (!reachable() && theirs.known_peer_session == session_) {
    answer.known_peer_session = theirs.session;
  }
  return answer;
}

// Our introduction still holds, or another rail has made it true in the meantime.
bool Link::Holds(const Standing& reported, const wire::Introduction& theirs) const {
  if (reported.session != session_) return false;
  const bool both_name_each_other =
      theirs.known_peer_session == session_ && (!reachable() || theirs.session == peer_session_);
  return reported.known_peer_session == peer_session_ ||
         (reported.known_peer_session == theirs.session && both_name_each_other) ||
         (reported.known_peer_session == 0 && both_name_each_other);
}

absl::Status Link::MayAdd(const rail::Rail& rail, const rail::RailPath& path,
                          const wire::Introduction& theirs, const Standing& reported) const {
  if (!Holds(reported, theirs)) {
    return rail::WithReason(absl::AbortedError("the sessions have changed since the introduction"),
                            LinkReason::kAnotherConnection);
  }
  if (PlaceOf(path) != kNoRail || (is_neighbour() && !rail.is_direct())) {
    return rail::WithReason(absl::AbortedError("another connection was faster"),
                            LinkReason::kAnotherConnection);
  }
  const bool is_full = present_.size() == kRailsMax && ContinuesWith(theirs);
  return is_full ? TooManyRails() : absl::OkStatus();
}

absl::Status Link::TooManyRails() {
  return rail::WithReason(absl::ResourceExhaustedError(absl::StrCat(
                              "the link already has ", kRailsMax, " rails, the maximum")),
                          LinkReason::kTooMany);
}

absl::Status Link::MayTake(std::uint64_t incarnation, const std::string& from,
                           std::uint64_t now_ns) {
  IdClaims::Holder holder{reachable() ? peer_.incarnation : 0};
  for (const std::size_t at : present_)
    holder.heard_ns = std::max(holder.heard_ns, rails_[at].rail->last_received_ns());
  const IdClaims::Answer answer = id_claims_.Judge(incarnation, holder, from, now_ns);
  if (id_claims_.ShouldReport(now_ns)) {
    spdlog::error("node {} ({}): two machines have this node id, the other one at {}", peer_.name,
                  peer_.id.ToString(), from);
    listener_.OnSameId(peer_.id, from);
  }
  if (answer == IdClaims::Answer::kTaken) return absl::OkStatus();
  if (answer == IdClaims::Answer::kRefused)
    return rail::WithReason(absl::AbortedError("another machine has this node id"),
                            LinkReason::kSameId);
  return rail::WithReason(
      absl::AbortedError("the connections of its previous daemon have not ended yet"),
      LinkReason::kAnotherConnection);
}

absl::Status Link::AddRail(std::unique_ptr<rail::Rail> rail, const rail::RailPath& path,
                           const NodeIdentity& peer, const wire::Introduction& theirs,
                           const Standing& reported, std::uint64_t now_ns) {
  now_ns_ = now_ns;
  if (absl::Status status = MayAdd(*rail, path, theirs, reported); !status.ok()) return status;
  const bool continues = ContinuesWith(theirs);
  if (!continues) {
    v1::RailStatus row;
    rail->Describe(row);
    const absl::Status may = MayTake(peer.incarnation, row.remote_address(), now_ns);
    if (!may.ok()) return may;
  }
  if (continues &&
      (theirs.next_expected == 0 || !channel_.OnAcknowledged(theirs.next_expected - 1))) {
    // The peer assumes that the channel continues: it must see this connection end.
    OnViolation("it acknowledges frames that it cannot have");
    return rail::WithReason(absl::DataLossError("its channel cannot be resumed"),
                            LinkReason::kViolation);
  }
  if (reachable() && !continues) {
    Lose(rail::WithReason(absl::UnavailableError(peer.incarnation == peer_.incarnation
                                                     ? "it had dropped its session with this node"
                                                     : "its daemon was restarted"),
                          LinkReason::kPeerRestarted));
  }
  session_ = reported.session;  // Our introduction holds.
  if (!continues) claims_.Reset();
  std::size_t at = 0;
  while (present_.Has(at)) ++at;
  for (auto& [key, posted] : posted_) {
    rail->Expect(posted.receive, posted.share);
    posted.on_several = true;  // An earlier rail may have received a part.
  }
  const std::uint64_t heard_ns = rail->last_received_ns();
  if (absl::Status status = rail->Start(/*resumed=*/continues, claims_); !status.ok())
    return status;
  TakeRail(at, std::move(rail), path, continues, heard_ns, now_ns);
  if (continues) {
    spdlog::info("link to {}: a rail has joined, {} in all", peer_.name, present_.size());
    if (state_ == State::kGrace) OnConnectionInGrace(now_ns);
  } else {
    StartOver(peer, theirs);
  }
  OpenProvenRails(now_ns);
  Pump();
  return absl::OkStatus();
}

absl::Status Link::AddSideRail(std::unique_ptr<rail::Rail> rail, const rail::RailPath& path,
                               std::uint64_t now_ns) {
  if (!is_neighbour()) return absl::AbortedError("its connection has ended");
  wire::Introduction theirs{};
  theirs.session = peer_session_;
  theirs.known_peer_session = session_;
  theirs.next_expected = 1;
  return AddRail(std::move(rail), path, peer_, theirs, standing(), now_ns);
}

void Link::TakeRail(std::size_t at, std::unique_ptr<rail::Rail> rail, const rail::RailPath& path,
                    bool resumed, std::uint64_t heard_at_start_ns, std::uint64_t now_ns) {
  OnRail& on = rails_[at];
  on = OnRail();
  on.rail = std::move(rail);
  present_.Add(at);
  if (on.rail->is_direct()) direct_.Add(at);
  on.path = path;
  on.withdrawals_taken = first_withdrawal_ + withdrawals_.size();
  on.resumed = resumed;
  on.heard_at_start_ns = heard_at_start_ns;
  on.last_tick_ns = now_ns;
  on.since_ns = now_ns;
  if (!on.rail->has_passed_large()) SendHeartbeat(at, now_ns, /*padded=*/true);
  if (prepared_) on.rail->Prepare();
}

void Link::Prepare() {
  if (!reachable() || std::exchange(prepared_, true)) return;
  for (const std::size_t at : present_) rails_[at].rail->Prepare();
}

void Link::DropOlderCircuits(std::size_t newest, std::uint64_t now_ns) {
  for (const std::size_t at : present_) {
    if (at == newest || direct_.Has(at) || !present_.Has(at)) continue;
    RemoveRailAt(at, {"a better route was found", rail::DownCause::kCut, LinkReason::kReplaced},
                 now_ns);
  }
}

void Link::StartOver(const NodeIdentity& peer, const wire::Introduction& theirs) {
  peer_ = peer;
  id_claims_.OnTaken(peer.incarnation);
  peer_session_ = theirs.session;
  state_ = State::kUp;
  reason_ = LinkReason::kNone;
  detail_.clear();
  spdlog::info("link to {} is up (node {})", peer_.name, peer_.id.ToString());
  listener_.OnNodeUp(peer_);
}

// Frees its memory, too.
void Link::ForgetChannel() {
  channel_ = Channel({options_.queued_frames_max, options_.copied_bytes_max});
  arrivals_.Reset();
  claims_.FreeMemory();
  for (auto& [key, posted] : posted_) GiveBackBudget(posted);
  posted_ = absl::flat_hash_map<PostedKey, Posted>();
  withdrawals_ = rail::GrowingRing<Withdrawal>();
  asked_.Clear();
  unacknowledged_ = {};
  acknowledge_now_ = false;
  freed_ = true;
}

void Link::Lose(const absl::Status& why) {
  if (!reachable()) return;
  // A grace period that expires keeps the reason with which it began.
  if (state_ != State::kGrace || rail::ReasonOf(why) != LinkReason::kNone)
    reason_ = rail::ReasonOf(why);
  state_ = State::kLost;
  detail_ = std::string(why.message());
  spdlog::warn("node {} is lost: {}", peer_.name, std::string(why.message()));
  StopRails();
  for (const std::size_t at : present_) DropRail(at);
  ForgetChannel();
  withdrawn_.clear();
  prepared_ = false;
  session_ = options_.random();
  peer_session_ = 0;
  listener_.OnNodeLost(peer_.id, why);
}

void Link::FinishRails(bool direct) {
  for (const std::size_t at : present_) {
    if (direct_.Has(at) == direct) rails_[at].rail->Finish();
  }
}

void Link::StopRails() {
  for (const std::size_t at : present_) rails_[at].rail->Stop();
  kept_.clear();
}

std::uint64_t Link::deadline_ns() const {
  const std::uint64_t next = std::min(channel_.deadline_ns(), asked_until_ns_);
  return state_ == State::kGrace ? std::min(grace_end_ns_, next) : next;
}

bool Link::OnTime(std::uint64_t now_ns) {
  now_ns_ = now_ns;
  if (now_ns >= channel_.deadline_ns()) {
    channel_.OnNow(now_ns);
    Pump();
    channel_.OnNow(now_ns);
  }
  if (now_ns >= asked_until_ns_) RemoveSilentSideRails(now_ns);
  if (state_ == State::kGrace && now_ns >= grace_end_ns_) EndGrace(now_ns);
  return std::exchange(freed_, false);
}

void Link::OnTick(std::uint64_t now_ns) {
  now_ns_ = now_ns;
  for (const std::size_t at : present_) {
    if (present_.Has(at)) TickRail(at, now_ns);
  }
  // Every rail had time to pass a large frame.
  if (state_ == State::kUp && !MayCarry(now_ns)) {
    EnterGrace({"no large frame passes on the remaining rails", rail::DownCause::kCut,
                LinkReason::kSilent},
               now_ns);
  }
  CloseKept();
  large_.ForgetOld(now_ns);
  // The acknowledgement with the request may have been lost.
  if (!asked_.empty()) {
    asked_.AskAgain();
    acknowledge_now_ = true;
  }
  FlushAcknowledgement();
}

void Link::TickRail(std::size_t at, std::uint64_t now_ns) {
  OnRail& on = rails_[at];
  const rail::RailFigures figures = on.rail->figures();
  const double seconds = static_cast<double>(now_ns - on.last_tick_ns) / 1e9;
  if (seconds > 0) {
    const rail::RailFigures& last = on.last_figures;
    on.sent_rate = static_cast<double>(figures.sent_bytes - last.sent_bytes) / seconds;
    on.received_rate = static_cast<double>(figures.received_bytes - last.received_bytes) / seconds;
  }
  channel_.OnRoundTrip(at, figures.round_trip_ns_min);
  const RailMeter& meter = channel_.flight(at).meter();
  if (meter.measured()) {
    // A single rail is fastest with the system's own buffering.
    const double rate = carrying_ > 1 ? meter.bytes_per_second() : rail::Rail::kAnyRate;
    on.rail->OnRate(rate, figures.round_trip_ns_min);
  }
  on.last_figures = figures;
  on.last_tick_ns = now_ns;
  RequestHeartbeat(at, now_ns);
  if (FindGap(at, now_ns)) return;
  if (!IsSilent(on, now_ns)) return;
  // This loop may have slept: data may wait in the socket.
  if (PollRail(at, now_ns) > 0) Pump();
  if (on.rail == nullptr || !IsSilent(on, now_ns)) return;
  // A circuit ends with its route, whichever hop has fallen silent.
  const LinkReason reason = on.rail->is_direct() ? LinkReason::kSilent : LinkReason::kWayEnded;
  const std::uint64_t silent_ms = (now_ns - on.rail->last_received_ns()) / 1'000'000;
  RemoveRailAt(
      at, {absl::StrCat("nothing received for ", silent_ms, " ms"), rail::DownCause::kCut, reason},
      now_ns);
}

// A reliable rail loses nothing. If it is the only one and little but heartbeats has arrived since,
// the missing frame was swallowed or never sent.
bool Link::FindGap(std::size_t at, std::uint64_t now_ns) {
  const OnRail& on = rails_[at];
  const bool is_only = present_.size() == 1 && on.rail->is_direct() && on.rail->is_reliable();
  const bool waits = is_only && on.delivered && arrivals_.has_gaps() && on.received_rate < kQuiet;
  // Counts ticks, because a pause of this process is one tick.
  const std::uint64_t before = std::exchange(gap_after_, arrivals_.received());
  gap_ticks_ = waits && before == gap_after_ ? gap_ticks_ + 1 : 0;
  // The peer may be as silent before it resends from a circuit that this side has dropped.
  const std::uint64_t patience_ns = (kCircuitSilence + 1) * options_.heartbeat_timeout_ns;
  if (gap_ticks_ * options_.heartbeat_interval_ns <= patience_ns) return false;
  gap_ticks_ = 0;
  CountChanged(at);
  RemoveRailAt(at,
               {absl::StrCat("frame ", gap_after_ + 1, " is missing, but later ones arrived"),
                rail::DownCause::kCut, LinkReason::kBytesChanged},
               now_ns);
  return true;
}

void Link::RequestHeartbeat(std::size_t at, std::uint64_t now_ns) {
  OnRail& on = rails_[at];
  if (on.asked < kHeartbeatsMin) ++on.asked;
  if (on.waiting.empty()) SendHeartbeat(at, now_ns);  // A full rail shows life anyway.
}

void Link::SendHeartbeat(std::size_t at, std::uint64_t now_ns, bool padded) {
  rail::RailCommand command;
  command.kind = rail::RailCommand::Kind::kHeartbeat;
  command.clock_ns = now_ns;
  command.padded = padded;
  Give(at, command);
}

bool Link::IsNew(const OnRail& on) { return on.asked < kHeartbeatsMin; }

// Plans do not use the latency of circuits.
bool Link::has_new_rail() const {
  return direct_.Any([this](std::size_t at) { return IsNew(rails_[at]); });
}

void Link::PingNewRails(std::uint64_t now_ns) {
  for (const std::size_t at : direct_) {
    if (IsNew(rails_[at])) RequestHeartbeat(at, now_ns);
  }
}

bool Link::HasHeardAllSince(std::uint64_t since_ns) const {
  return !present_.Any(
      [&](std::size_t at) { return rails_[at].rail->last_received_ns() < since_ns; });
}

bool Link::IsSilent(const OnRail& on, std::uint64_t now_ns) const {
  const std::uint64_t heard = on.rail->last_received_ns();
  const std::uint64_t limit_ns =
      (on.rail->is_direct() ? 1 : kCircuitSilence) * options_.heartbeat_timeout_ns;
  return now_ns >= on.silent_from_ns && now_ns > heard && now_ns - heard > limit_ns;
}

void Link::Describe(v1::LinkStatus& status) const {
  status.set_peer(peer_.name.empty() ? peer_.id.ToString() : peer_.name);
  status.set_peer_id(peer_.id.ToString());
  status.set_state(state_ == State::kUp      ? v1::LinkState::up
                   : state_ == State::kGrace ? v1::LinkState::grace
                                             : v1::LinkState::lost);
  status.set_reason(Reported(reason_));
  status.set_detail(detail_);
  status.set_changed_frames(changed_frames_);
  status.set_changed_on(changed_on_);
  if (changed_frames_ > 0) status.set_changed_ms_ago((now_ns_ - changed_ns_) / 1'000'000);
  if (state_ != State::kUp) {
    status.set_last_local_interface(last_path_.local);
    status.set_last_remote_interface(last_path_.remote);
  }
  status.set_large_lost_on(large_.PathsText());
  status.set_large_lost(!status.large_lost_on().empty());
  if (id_claims_.seen_ns() > 0)
    status.set_same_id_ms_ago((now_ns_ - id_claims_.seen_ns()) / 1'000'000);
  status.set_same_id_at(MakePrintable(id_claims_.address()));
  for (const std::size_t at : present_) {
    DescribeRail(at, *status.add_rails());
    if (rails_[at].rail->is_direct()) continue;
    status.set_detail(absl::StrCat("reached ", status.rails().rbegin()->local_address()));
  }
}

void Link::DescribeRail(std::size_t at, v1::RailStatus& status) const {
  const OnRail& on = rails_[at];
  const rail::RailFigures figures = on.rail->figures();
  const RailMeter& meter = channel_.flight(at).meter();
  on.rail->Describe(status);
  status.set_transport(Reported(on.path.transport));
  status.set_state(figures.up ? v1::RailState::up : v1::RailState::down);
  status.set_sent_bytes(figures.sent_bytes);
  status.set_received_bytes(figures.received_bytes);
  status.set_sent_bytes_per_second(on.sent_rate);
  status.set_received_bytes_per_second(on.received_rate);
  status.set_round_trip_ns(figures.round_trip_ns);
  status.set_round_trip_ns_min(figures.round_trip_ns_min);
  status.set_round_trips(figures.round_trips);
  status.set_delivery_bytes_per_second(meter.bytes_per_second());
  status.set_delivery_bytes_per_second_best(meter.bytes_per_second_best());
  status.set_delivery_busy_bytes(meter.busy_bytes());
  if (!status.security().empty()) status.set_key_id(KeyIdText(on.rail->proved_with()));
  status.set_protocol(
      wire::CommonVersion(wire::SpokenVersions(), on.rail->peers_versions()).value_or(0));
  if (!on.rail->is_direct()) return;
  status.set_local_interface(on.path.local);
  status.set_remote_interface(on.path.remote);
  if (IsSmallOnly(on, now_ns_) || (!on.carries && large_.AreLostOn(on.path))) {
    status.set_state(v1::RailState::down);
    status.set_reason(v1::LinkReason::large_lost);
    status.set_detail("small frames pass on it, but no large one has");
  }
}

}  // namespace mlxcomm::link
