#include "daemon/fabric/link.h"

#include <algorithm>

#include <spdlog/spdlog.h>

#include "absl/strings/str_cat.h"

namespace mlxcomm::fabric {
namespace {

// An acknowledgement goes out by itself after this much, else with the next frame
// or when the engine has nothing else to do.
constexpr std::uint64_t kAcknowledgeFrames = 16;
constexpr std::uint64_t kAcknowledgeBytes = 1024 * 1024;

}  // namespace

Link::Link(const FabricOptions& options, const NodeId& peer, FabricListener& listener,
           RoutingListener* routing)
    : options_(options), listener_(listener), routing_(routing), session_(options.random()) {
  peer_.id = peer;
}

absl::Status Link::Send(const wire::FrameHeader& header, const std::byte* payload,
                        std::uint64_t cookie) {
  if (!reachable()) {
    return absl::FailedPreconditionError(absl::StrCat("node ", peer_.name, " is not reachable"));
  }
  if (absl::Status status = channel_.Send(header, payload, cookie); !status.ok()) return status;
  Pump();
  return absl::OkStatus();
}

// Hands the rail as much as it may have.
void Link::Pump() {
  if (rail_ == nullptr) return;
  RailCommand command;
  while (channel_.NextToHand(command.frame)) {
    unacknowledged_frames_ = 0;
    unacknowledged_bytes_ = 0;
    Give(command);
  }
}

// A grant must not overtake the receive that it is for, so all commands keep their order.
void Link::Give(const RailCommand& command) {
  if (!waiting_.empty() || !rail_->Give(command)) waiting_.emplace_back() = command;
}

void Link::GiveWaiting() {
  while (rail_ != nullptr && !waiting_.empty() && rail_->Give(waiting_.front())) {
    waiting_.pop_front();
  }
}

absl::Status Link::PostReceive(const PostedReceive& receive) {
  if (!reachable()) {
    return absl::FailedPreconditionError(absl::StrCat("node ", peer_.name, " is not reachable"));
  }
  if (waiting_.size() >= kWaitingMax) {
    return absl::ResourceExhaustedError("too many receives are being posted at once");
  }
  posted_[{receive.key, receive.step}] = {receive, {}};
  if (rail_ == nullptr) return absl::OkStatus();
  RailCommand command;
  command.kind = RailCommand::Kind::kPostReceive;
  command.receive = receive;
  Give(command);
  return absl::OkStatus();
}

void Link::Withdraw(const OperationKey& key) {
  absl::erase_if(posted_, [&](const auto& entry) { return entry.first.first == key; });
  if (rail_ == nullptr) return withdrawn_.push_back(key);
  being_withdrawn_.emplace_back() = key;
  RailCommand command;
  command.kind = RailCommand::Kind::kWithdraw;
  command.key = key;
  Give(command);
}

void Link::Cancel(const OperationKey& key) {
  channel_.Cancel(key);
  // Releases are told in the next Poll, never from inside this call.
}

void Link::DeliverReleased() {
  std::vector<std::uint64_t>& released = channel_.released();
  for (std::size_t i = 0; i < released.size(); ++i) listener_.OnDataReleased(peer_.id, released[i]);
  released.clear();
}

std::size_t Link::Poll(std::uint64_t now_ns) {
  now_ns_ = now_ns;
  std::size_t count = 0;
  RailEvent event;
  constexpr std::size_t kEventsPerTurn = 256;
  while (rail_ != nullptr && count < kEventsPerTurn && rail_->Pop(event)) {
    ++count;
    if (event.kind == RailEvent::Kind::kDown) {
      if (event.cause == DownCause::kViolation) {
        OnViolation(event.reason);
      } else {
        RemoveIt(event.reason, event.cause, now_ns);
      }
      break;
    }
    Deliver(event);
  }
  if (!withdrawn_.empty()) {
    std::vector<OperationKey> keys;
    keys.swap(withdrawn_);
    for (const OperationKey& key : keys) listener_.OnWithdrawn(peer_.id, key);
    count += keys.size();
  }
  if (!channel_.released().empty()) {
    DeliverReleased();
    ++count;
  }
  if (!waiting_.empty()) GiveWaiting();
  if (count > 0) Pump();
  if (unacknowledged_frames_ >= kAcknowledgeFrames || unacknowledged_bytes_ >= kAcknowledgeBytes) {
    FlushAcknowledgement();
  }
  return count;
}

void Link::FlushAcknowledgement() {
  if (rail_ == nullptr || unacknowledged_frames_ == 0) return;
  if (!waiting_.empty()) return;  // Busy: it goes out once they have gone.
  RailCommand command;
  command.frame.header.type = wire::FrameType::kAck;
  command.frame.header.acknowledged = channel_.received();
  Give(command);
  unacknowledged_frames_ = 0;
  unacknowledged_bytes_ = 0;
}

void Link::Deliver(RailEvent& event) {
  // Before the frame: it may acknowledge what has just been written.
  channel_.OnTransmitted(event.transmitted);
  switch (event.kind) {
    case RailEvent::Kind::kTransmitted:
    case RailEvent::Kind::kDown: return;
    case RailEvent::Kind::kWithdrawn:
      if (!being_withdrawn_.empty()) being_withdrawn_.pop_front();
      return listener_.OnWithdrawn(peer_.id, event.key);
    case RailEvent::Kind::kFrame:
      if (OnFrame(event)) return;
      return OnViolation(absl::StrCat("frame ", static_cast<int>(event.header.type),
                                      " with sequence ", event.header.sequence,
                                      ", acknowledging ", event.header.acknowledged));
  }
}

// Its state cannot be trusted any more: nothing goes on from there.
void Link::OnViolation(const std::string& what) {
  spdlog::error("node {} broke the protocol ({} times by now): {}", peer_.name, ++violations_,
                what);
  Lose(absl::DataLossError(
      absl::StrCat("it broke the protocol (", what, "); do both run the same version?")));
}

// False: the peer breaks the protocol.
bool Link::OnFrame(RailEvent& event) {
  const wire::FrameHeader& header = event.header;
  if (!channel_.OnAcknowledged(header.acknowledged)) return false;
  // Before the frame: what it says may have been said because those were received.
  DeliverReleased();
  if (header.sequence == 0) return true;
  switch (channel_.OnReceived(header.sequence)) {
    case Channel::Arrival::kViolation: return false;
    // After a resumption the peer begins with what is missing, so this is a peer that
    // counts wrongly; but nothing of it may have been placed.
    case Channel::Arrival::kDuplicate: return !event.placed;
    case Channel::Arrival::kNext: break;
  }
  ++unacknowledged_frames_;
  unacknowledged_bytes_ += header.payload_bytes;
  const NodeId node = peer_.id;
  switch (header.type) {
    case wire::FrameType::kControl: listener_.OnControl(node, event.payload); return true;
    case wire::FrameType::kEager: listener_.OnEager(node, header, event.payload); return true;
    case wire::FrameType::kGrant: listener_.OnGrant(node, header); return true;
    case wire::FrameType::kCredit: listener_.OnCredit(node, header); return true;
    case wire::FrameType::kData: return OnData(event);
    case wire::FrameType::kTopology:
    case wire::FrameType::kCircuitOpen:
    case wire::FrameType::kCircuitOpened:
    case wire::FrameType::kCircuitFrame:
    case wire::FrameType::kCircuitCredit:
    case wire::FrameType::kCircuitClosed:
      if (routing_ != nullptr) routing_->OnRouting(node, header, event.payload, now_ns_);
      return true;
    default: return true;
  }
}

bool Link::OnData(const RailEvent& event) {
  const auto found = posted_.find({KeyOf(event.header), event.header.step});
  if (!event.placed || found == posted_.end()) return true;  // Withdrawn meanwhile.
  Posted& posted = found->second;
  if (!posted.received.Add(event.header.offset, event.header.payload_bytes)) return false;
  if (posted.received.bytes() == posted.receive.bytes) posted_.erase(found);
  listener_.OnDataReceived(peer_.id, event.header);
  return true;
}

void Link::EnterGrace(const std::string& why, bool reset, std::uint64_t now_ns) {
  state_ = State::kGrace;
  grace_after_reset_ = reset;
  grace_why_ = why;
  grace_end_ns_ = now_ns + (reset ? options_.reset_grace_ns : options_.grace_period_ns);
  detail_ = absl::StrCat("rail down: ", why, "; waiting for it to come back");
  spdlog::warn("link to {}: {}", peer_.name, detail_);
}

void Link::RemoveRail(const RailPath& path, const std::string& why, DownCause cause,
                      std::uint64_t now_ns) {
  if (HasRailOver(path)) RemoveIt(why, cause, now_ns);
}

void Link::OnInterfaceDown(const std::string& interface, std::uint64_t now_ns) {
  if (rail_ == nullptr || path_.local != interface) return;
  RemoveIt(absl::StrCat("interface ", interface, " has lost its carrier"), DownCause::kCut, now_ns);
}

void Link::RemoveIt(const std::string& why, DownCause cause, std::uint64_t now_ns) {
  now_ns_ = now_ns;
  if (rail_ == nullptr) return;
  rail_->Stop();
  RailEvent event;
  while (rail_->Pop(event)) {
    Deliver(event);
    if (rail_ == nullptr) return;  // Lost while delivering.
  }
  last_snapshot_ = rail_->Snapshot();
  rail_.reset();
  channel_.OnRailDown();
  // Frames wait in the channel, receives in posted_; withdrawals have come true.
  waiting_.clear();
  for (; !being_withdrawn_.empty(); being_withdrawn_.pop_front()) {
    withdrawn_.push_back(being_withdrawn_.front());
  }
  if (state_ == State::kUp) EnterGrace(why, cause == DownCause::kReset, now_ns);
}

absl::Status Link::AddRail(std::unique_ptr<Rail> rail, const RailPath& path,
                           const NodeIdentity& peer,
                           const wire::Introduction& theirs, const Standing& told,
                           std::uint64_t now_ns) {
  if (told.session != session_ || told.known_peer_session != peer_session_ ||
      (is_neighbour() && theirs.session == peer_session_)) {
    return absl::AbortedError("another connection was faster");
  }
  if (rail_ != nullptr) RemoveIt("replaced", DownCause::kCut, now_ns);
  const bool goes_on = reachable() && theirs.session == peer_session_ &&
                       theirs.known_peer_session == session_;
  if (goes_on && !channel_.Resume(theirs.next_expected)) {
    // The peer believes that it goes on: it must see this connection end.
    OnViolation("it names a frame that cannot be the next");
    return absl::DataLossError("its channel cannot be resumed");
  }
  if (reachable() && !goes_on) {
    Lose(absl::UnavailableError(peer.incarnation == peer_.incarnation
                                    ? "it had given up on this node"
                                    : "its daemon was restarted"));
    session_ = told.session;  // What the peer has been told holds.
  }
  if (goes_on) {
    for (const auto& [key, posted] : posted_) rail->Expect(posted.receive, posted.received);
  }
  if (absl::Status status = rail->Start(/*resumed=*/goes_on); !status.ok()) return status;
  rail_ = std::move(rail);
  path_ = path;
  last_snapshot_ = {};
  last_tick_ns_ = now_ns;
  if (goes_on) {
    GoOn();
  } else {
    BeginAnew(peer, theirs);
  }
  Pump();
  return absl::OkStatus();
}

void Link::GoOn() {
  spdlog::info("link to {}: rail is back, going on", peer_.name);
  state_ = State::kUp;
  detail_.clear();
}

void Link::BeginAnew(const NodeIdentity& peer, const wire::Introduction& theirs) {
  peer_ = peer;
  peer_session_ = theirs.session;
  channel_.Reset();
  state_ = State::kUp;
  detail_.clear();
  spdlog::info("link to {} is up (node {})", peer_.name, peer_.id.ToString());
  listener_.OnNodeUp(peer_);
}

void Link::Lose(const absl::Status& why) {
  if (!reachable()) return;
  state_ = State::kLost;
  detail_ = absl::StrCat("lost: ", std::string(why.message()));
  spdlog::warn("node {} is lost: {}", peer_.name, std::string(why.message()));
  if (rail_ != nullptr) {
    rail_->Stop();
    last_snapshot_ = rail_->Snapshot();
    rail_.reset();
  }
  channel_.Reset();
  posted_.clear();
  waiting_.clear();
  being_withdrawn_.clear();
  withdrawn_.clear();
  unacknowledged_frames_ = 0;
  unacknowledged_bytes_ = 0;
  session_ = options_.random();
  peer_session_ = 0;
  listener_.OnNodeLost(peer_.id, why);
}

bool Link::HandTheRest() {
  RailEvent event;
  while (rail_ != nullptr && rail_->Pop(event)) {
    channel_.OnTransmitted(event.transmitted);
    if (event.kind != RailEvent::Kind::kDown) continue;
    rail_.reset();
    state_ = State::kLost;
    detail_ = "this daemon has stopped";
  }
  if (rail_ == nullptr) return true;
  GiveWaiting();
  Pump();
  return waiting_.empty() && channel_.all_handed();
}

void Link::OnTime(std::uint64_t now_ns) {
  if (state_ != State::kGrace || now_ns < grace_end_ns_) return;
  Lose(absl::UnavailableError(absl::StrCat(
      grace_after_reset_ ? "its daemon closed the connection and did not come back within "
                         : "no connection to it for ",
      (grace_after_reset_ ? options_.reset_grace_ns : options_.grace_period_ns) / 1'000'000,
      " ms (", grace_why_, ")")));
}

void Link::OnTick(std::uint64_t now_ns) {
  if (rail_ == nullptr) return;
  const RailSnapshot snapshot = rail_->Snapshot();
  const double seconds = static_cast<double>(now_ns - last_tick_ns_) / 1e9;
  if (seconds > 0) {
    sent_rate_ = static_cast<double>(snapshot.sent_bytes - last_snapshot_.sent_bytes) / seconds;
    received_rate_ =
        static_cast<double>(snapshot.received_bytes - last_snapshot_.received_bytes) / seconds;
  }
  last_snapshot_ = snapshot;
  last_tick_ns_ = now_ns;
  const std::uint64_t heard = rail_->last_received_ns();
  if (now_ns > heard && now_ns - heard > options_.heartbeat_timeout_ns) {
    return RemoveIt(absl::StrCat("nothing heard for ", (now_ns - heard) / 1'000'000, " ms"),
                      DownCause::kCut, now_ns);
  }
  RailCommand command;
  command.kind = RailCommand::Kind::kHeartbeat;
  if (waiting_.empty()) Give(command);  // Otherwise there is enough to be heard.
}

LinkSnapshot Link::Snapshot() const {
  LinkSnapshot snapshot;
  snapshot.peer = peer_.name.empty() ? peer_.id.ToString() : peer_.name;
  snapshot.peer_id = peer_.id;
  snapshot.state = state_ == State::kUp ? "up" : state_ == State::kGrace ? "grace" : "lost";
  snapshot.detail = detail_;
  if (rail_ != nullptr) {
    snapshot.rails.push_back(rail_->Snapshot());
    snapshot.rails.back().sent_bytes_per_second = sent_rate_;
    snapshot.rails.back().received_bytes_per_second = received_rate_;
    if (!rail_->is_direct()) {
      snapshot.detail = absl::StrCat("reached ", snapshot.rails.back().local_address);
    }
  }
  return snapshot;
}

}  // namespace mlxcomm::fabric
