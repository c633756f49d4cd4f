#include "daemon/fabric/link.h"

#include <algorithm>

#include <spdlog/spdlog.h>

#include "absl/strings/str_cat.h"
#include "daemon/fabric/authentication.h"

namespace mlxcomm::fabric {
namespace {

// An acknowledgement goes out by itself after this much, else with the next frame
// or when the engine has nothing else to do.
constexpr std::uint64_t kAcknowledgeFrames = 16;
constexpr std::uint64_t kAcknowledgeBytes = 1024 * 1024;

}  // namespace

Link::Link(const FabricOptions& options, const NodeId& peer, FabricListener& listener)
    : options_(options), listener_(listener), session_(RandomNumber()) {
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
  Channel::Frame frame;
  while (channel_.NextToHand(frame)) {
    unacknowledged_frames_ = 0;
    unacknowledged_bytes_ = 0;
    // The window is smaller than the rail's ring, so there is always a place.
    if (!rail_->Transmit(frame)) {
      spdlog::critical("rail to {}: command ring overflows its window", peer_.name);
      std::abort();
    }
  }
}

absl::Status Link::PostReceive(const PostedReceive& receive) {
  if (!reachable()) {
    return absl::FailedPreconditionError(absl::StrCat("node ", peer_.name, " is not reachable"));
  }
  if (rail_ != nullptr && !rail_->PostReceive(receive, receive.bytes)) {
    return absl::ResourceExhaustedError("too many receives are being posted at once");
  }
  posted_[{receive.key, receive.step}] = {receive, receive.bytes};
  return absl::OkStatus();
}

void Link::Withdraw(const OperationKey& key) {
  absl::erase_if(posted_, [&](const auto& entry) { return entry.first.first == key; });
  // Full ring: the rail would still place data. Without it nothing does.
  if (rail_ != nullptr && !rail_->Withdraw(key)) RemoveRail("its command ring is full", false, 0);
  if (rail_ == nullptr) withdrawn_.push_back(key);
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
  std::size_t count = 0;
  RailEvent event;
  constexpr std::size_t kEventsPerTurn = 256;
  while (rail_ != nullptr && count < kEventsPerTurn && rail_->Pop(event)) {
    ++count;
    if (event.kind == RailEvent::Kind::kDown) {
      RemoveRail(event.reason, event.reset, now_ns);
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
  if (count > 0) Pump();
  if (unacknowledged_frames_ >= kAcknowledgeFrames || unacknowledged_bytes_ >= kAcknowledgeBytes) {
    FlushAcknowledgement();
  }
  return count;
}

void Link::FlushAcknowledgement() {
  if (rail_ == nullptr || unacknowledged_frames_ == 0) return;
  Channel::Frame frame;
  frame.header.type = wire::FrameType::kAck;
  frame.header.acknowledged = channel_.received();
  if (!rail_->Transmit(frame)) return;  // Busy: the next frame carries it.
  unacknowledged_frames_ = 0;
  unacknowledged_bytes_ = 0;
}

void Link::Deliver(RailEvent& event) {
  switch (event.kind) {
    case RailEvent::Kind::kTransmitted: channel_.OnTransmitted(event.frames); return;
    case RailEvent::Kind::kWithdrawn: listener_.OnWithdrawn(peer_.id, event.key); return;
    case RailEvent::Kind::kDown: return;
    case RailEvent::Kind::kFrame:
      if (!OnFrame(event)) {
        spdlog::error("node {} broke the protocol: frame {} with sequence {}", peer_.name,
                      static_cast<int>(event.header.type), event.header.sequence);
        Lose(absl::DataLossError("it broke the protocol; do both run the same version?"));
      }
      return;
  }
}

bool Link::OnFrame(RailEvent& event) {
  const wire::FrameHeader& header = event.header;
  if (!channel_.OnAcknowledged(header.acknowledged)) return false;
  if (header.sequence == 0) return true;
  switch (channel_.OnReceived(header.sequence)) {
    case Channel::Arrival::kViolation: return false;
    case Channel::Arrival::kDuplicate: return true;
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
    case wire::FrameType::kData: {
      const auto found = posted_.find({KeyOf(header), header.step});
      if (!event.placed || found == posted_.end()) return true;  // Withdrawn meanwhile.
      found->second.bytes_left -= std::min<std::uint64_t>(header.payload_bytes,
                                                          found->second.bytes_left);
      if (found->second.bytes_left == 0) posted_.erase(found);
      listener_.OnDataReceived(node, header);
      return true;
    }
    default: return true;
  }
}

void Link::EnterGrace(const std::string& why, bool reset, std::uint64_t now_ns) {
  state_ = State::kGrace;
  grace_after_reset_ = reset;
  grace_end_ns_ = now_ns + (reset ? options_.reset_grace_ns : options_.grace_period_ns);
  detail_ = absl::StrCat("rail down: ", why, "; waiting for it to come back");
  spdlog::warn("link to {}: {}", peer_.name, detail_);
}

void Link::RemoveRail(const std::string& why, bool reset, std::uint64_t now_ns) {
  if (rail_ == nullptr) return;
  rail_->Stop();
  RailEvent event;
  while (rail_->Pop(event)) {
    if (event.kind == RailEvent::Kind::kDown) continue;
    Deliver(event);
    if (rail_ == nullptr) return;  // Lost while delivering.
  }
  last_snapshot_ = rail_->Snapshot();
  rail_.reset();
  channel_.OnRailDown();
  if (state_ == State::kUp) EnterGrace(why, reset, now_ns);
}

void Link::AddRail(std::unique_ptr<Rail> rail, const NodeIdentity& peer,
                   const wire::Introduction& theirs, std::uint64_t now_ns) {
  const bool goes_on = reachable() && theirs.session == peer_session_ &&
                       theirs.known_peer_session == session_ &&
                       channel_.Resume(theirs.next_expected);
  if (!goes_on && reachable()) {
    Lose(absl::UnavailableError(peer.incarnation == peer_.incarnation
                                    ? "it had given up on this node"
                                    : "its daemon was restarted"));
  }
  rail_ = std::move(rail);
  last_tick_ns_ = now_ns;
  if (!goes_on) {
    BeginAnew(peer, theirs.session);
    listener_.OnNodeUp(peer_);
  } else {
    spdlog::info("link to {}: rail is back, going on", peer_.name);
    state_ = State::kUp;
    detail_.clear();
    for (const auto& [key, posted] : posted_) {
      if (rail_->PostReceive(posted.receive, posted.bytes_left)) continue;
      return Lose(absl::ResourceExhaustedError("too many receives to post again"));
    }
  }
  Pump();
}

void Link::BeginAnew(const NodeIdentity& peer, std::uint64_t peer_session) {
  peer_ = peer;
  peer_session_ = peer_session;
  channel_.Reset();
  state_ = State::kUp;
  detail_.clear();
  spdlog::info("link to {} is up (node {})", peer_.name, peer_.id.ToString());
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
  withdrawn_.clear();
  unacknowledged_frames_ = 0;
  unacknowledged_bytes_ = 0;
  session_ = RandomNumber();
  peer_session_ = 0;
  listener_.OnNodeLost(peer_.id, why);
}

void Link::OnTime(std::uint64_t now_ns) {
  if (state_ != State::kGrace || now_ns < grace_end_ns_) return;
  Lose(absl::UnavailableError(absl::StrCat(
      grace_after_reset_ ? "its daemon closed the connection and did not come back within "
                         : "no connection to it for ",
      (grace_after_reset_ ? options_.reset_grace_ns : options_.grace_period_ns) / 1'000'000,
      " ms")));
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
    return RemoveRail(absl::StrCat("nothing heard for ", (now_ns - heard) / 1'000'000, " ms"),
                      /*reset=*/false, now_ns);
  }
  rail_->Heartbeat();
}

LinkSnapshot Link::Snapshot() const {
  LinkSnapshot snapshot;
  snapshot.peer = peer_.name;
  snapshot.peer_id = peer_.id;
  snapshot.state = state_ == State::kUp ? "up" : state_ == State::kGrace ? "grace" : "lost";
  snapshot.detail = detail_;
  if (rail_ != nullptr) {
    snapshot.rails.push_back(rail_->Snapshot());
    snapshot.rails.back().sent_bytes_per_second = sent_rate_;
    snapshot.rails.back().received_bytes_per_second = received_rate_;
  }
  return snapshot;
}

}  // namespace mlxcomm::fabric
