#include "daemon/fabric/circuit/circuit_rail.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::fabric {

absl::Status CircuitRail::Start(bool resumed, rail::ArrivalClaims& claims) {
  posted_.ShareClaims(claims);
  if (resumed) posted_.AssumeEarlierWithdrawals();
  return absl::OkStatus();
}

// Closes the circuit as a reset, not as a cut: this daemon is stopping.
void CircuitRail::Finish() {
  if (down_) return;
  port_.CloseCircuit(circuit_, wire::CircuitEnd::kReset, "its daemon has stopped");
  GoDown(rail::DownCause::kCut, "stopped", LinkReason::kStopped);
}

// Ends only this circuit; another may still reach the node.
void CircuitRail::GiveUp(const std::string& why) {
  if (down_) return;
  port_.CloseCircuit(circuit_, wire::CircuitEnd::kCut, "the other side closed it: " + why);
  GoDown(rail::DownCause::kCut, why, LinkReason::kWayEnded);
}

void CircuitRail::GoDown(rail::DownCause cause, std::string reason, LinkReason link_reason) {
  if (std::exchange(down_, true)) return;
  queue_.clear();
  rail::RailEvent& event = events_.emplace_back();
  event.kind = rail::RailEvent::Kind::kDown;
  event.cause = cause;
  event.transmitted = std::exchange(transmitted_, 0);
  event.abandoned = posted_.Abandon();
  event.reason = std::move(reason);
  event.link_reason = link_reason;
}

void CircuitRail::Violation(const std::string& what) {
  if (down_) return;
  port_.CloseCircuit(circuit_, wire::CircuitEnd::kCut, "the other side rejected: " + what);
  GoDown(rail::DownCause::kViolation, what, LinkReason::kViolation);
}

bool CircuitRail::Give(const rail::RailCommand& command) {
  if (down_) return true;  // kDown follows.
  switch (command.kind) {
    case rail::RailCommand::Kind::kTransmit:
      if (RenewWaiting(command.frame.header)) return true;
      if (queue_.size() >= kQueueMax) return false;
      queue_.emplace_back() = command.frame;
      SendWhatFits();
      return true;
    case rail::RailCommand::Kind::kPostReceive: Expect(command.receive, command.share); return true;
    case rail::RailCommand::Kind::kForgetCompleted:
      posted_.ForgetCompleted(command.key, command.step);
      return true;
    case rail::RailCommand::Kind::kHeartbeat:
      SendUnqueued(wire::FrameType::kHeartbeat, command.clock_ns);
      return true;
    case rail::RailCommand::Kind::kWithdraw: {
      // Drop the rest of a half-received frame.
      if (posted_.Forget(command.key)) target_ = nullptr;
      rail::RailEvent& event = events_.emplace_back();
      event.kind = rail::RailEvent::Kind::kWithdrawn;
      event.key = command.key;
      return true;
    }
  }
  return true;
}

// Keeps only the newest acknowledgement of each block, so that they cannot fill the queue.
bool CircuitRail::RenewWaiting(const wire::FrameHeader& newer) {
  if (newer.type != wire::FrameType::kAck) return false;
  for (std::size_t i = 0; i < queue_.size(); ++i) {
    wire::FrameHeader& waiting = queue_[i].header;
    if (!wire::MayRenew(waiting, newer)) continue;
    wire::Renew(waiting, newer);
    return true;
  }
  return false;
}

bool CircuitRail::Pop(rail::RailEvent& event) {
  if (!events_.empty()) {
    event = std::move(events_.front());
    events_.pop_front();
    event.transmitted += std::exchange(transmitted_, 0);
    return true;
  }
  if (transmitted_ == 0) return false;
  event = rail::RailEvent();
  event.kind = rail::RailEvent::Kind::kTransmitted;
  event.transmitted = std::exchange(transmitted_, 0);
  return true;
}

void CircuitRail::SendWhatFits() {
  while (!queue_.empty()) {
    const rail::OutgoingFrame& frame = queue_.front();
    const std::uint32_t bytes =
        std::min(frame.header.payload_bytes - front_sent_, wire::kEagerBytesMax);
    if (frames_in_flight_ >= wire::kCircuitFramesMax ||
        bytes_in_flight_ + sizeof frame.header + bytes > wire::kCircuitBytesMax) {
      return;
    }
    if (!SendPiece(frame.header, frame.payload + front_sent_, front_sent_, bytes)) return;
    front_sent_ += bytes;
    if (front_sent_ < frame.header.payload_bytes) continue;
    front_sent_ = 0;
    if (frame.header.sequence != 0) ++transmitted_;
    queue_.pop_front();
  }
}

bool CircuitRail::SendPiece(const wire::FrameHeader& inner, const std::byte* piece,
                            std::uint32_t offset, std::uint32_t bytes) {
  const wire::FrameHeader outer{.type = wire::FrameType::kCircuitFrame,
                                .payload_bytes = static_cast<std::uint32_t>(sizeof inner) + bytes,
                                .group = circuit_,
                                .offset = offset};
  std::memcpy(piece_.data(), &inner, sizeof inner);
  if (bytes > 0) std::memcpy(piece_.data() + sizeof inner, piece, bytes);
  if (!port_.SendOnCircuit(circuit_, outer, piece_.data())) {
    GiveUp("the first node on the route accepts no more frames");
    return false;
  }
  ++frames_in_flight_;
  bytes_in_flight_ += outer.payload_bytes;
  sent_bytes_ += outer.payload_bytes;
  return true;
}

// Bypasses the queue, because heartbeats are not part of the frames' order.
void CircuitRail::SendUnqueued(wire::FrameType type, std::uint64_t clock_ns) {
  if (frames_in_flight_ >= wire::kCircuitFramesMax + kSpareFrames / 2) return;
  SendPiece({.type = type, .offset = clock_ns}, nullptr, 0, 0);
}

void CircuitRail::OnCredit(std::uint64_t frames, std::uint64_t bytes, std::uint64_t now_ns) {
  if (down_) return;
  if (frames > frames_in_flight_ || bytes > bytes_in_flight_) {
    return Violation("a credit for more than was sent");
  }
  last_received_ns_ = now_ns;
  frames_in_flight_ -= frames;
  bytes_in_flight_ -= bytes;
  SendWhatFits();
}

void CircuitRail::OnPiece(const wire::FrameHeader& outer, std::span<const std::byte> payload,
                          std::uint64_t now_ns) {
  if (down_) return;
  last_received_ns_ = now_ns;
  received_bytes_ += payload.size();
  if (!TakePiece(outer, payload)) return;
  if (!down_) ReportTaken(payload.size());
}

void CircuitRail::ReportTaken(std::size_t bytes) {
  ++unreported_frames_;
  unreported_bytes_ += static_cast<std::uint32_t>(bytes);
  if (unreported_frames_ < kUnreportedFrames && unreported_bytes_ < kUnreportedBytes) return;
  const wire::FrameHeader credit{.type = wire::FrameType::kCircuitCredit,
                                 .group = circuit_,
                                 .number = std::exchange(unreported_frames_, 0),
                                 .offset = std::exchange(unreported_bytes_, 0)};
  if (!port_.SendOnCircuit(circuit_, credit, nullptr)) {
    GiveUp("the first node on the way back accepts no more frames");
  }
}

// Returns false if the peer violated the protocol or the rail is down.
bool CircuitRail::TakePiece(const wire::FrameHeader& outer, std::span<const std::byte> payload) {
  wire::FrameHeader inner;
  std::memcpy(&inner, payload.data(), sizeof inner);
  const std::span<const std::byte> piece = payload.subspan(sizeof inner);
  if (!wire::IsWellFormed(inner)) return Violation("a malformed frame"), false;
  if (inner.type == wire::FrameType::kHeartbeat) {
    SendUnqueued(wire::FrameType::kEcho, inner.offset);
    return !down_;
  }
  if (inner.type == wire::FrameType::kEcho) {
    if (inner.offset <= last_received_ns_) round_trip_ns_ = last_received_ns_ - inner.offset;
    return true;
  }
  const bool goes_on =
      gathering_ && outer.offset == have_ && std::memcmp(&inner, &incoming_, sizeof inner) == 0;
  if (!goes_on && (gathering_ || outer.offset != 0)) {
    return Violation("a piece out of order"), false;
  }
  if (!goes_on) {
    incoming_ = inner;
    have_ = 0;
  }
  if (piece.size() > inner.payload_bytes - have_ || (piece.empty() && inner.payload_bytes > 0)) {
    return Violation("a piece of the wrong size"), false;
  }
  const bool whole = piece.size() == inner.payload_bytes;
  if (!goes_on && (!whole || inner.type == wire::FrameType::kData) && !BeginFrame()) return false;
  gathering_ = true;
  if (target_ != nullptr) std::memcpy(target_ + have_, piece.data(), piece.size());
  have_ += static_cast<std::uint32_t>(piece.size());
  if (have_ == inner.payload_bytes) FinishFrame(whole ? piece : std::span<const std::byte>());
  return !down_;
}

bool CircuitRail::BeginFrame() {
  std::byte* direct = nullptr;
  bool staged = true;
  duplicate_ = false;
  if (incoming_.type == wire::FrameType::kData) {
    rail::PostedReceives::Place place = posted_.Begin(incoming_, &direct);
    // No command is ever pending here, so the second answer is final.
    if (place == rail::PostedReceives::Place::kUnknown) place = posted_.Begin(incoming_, &direct);
    if (place == rail::PostedReceives::Place::kOutside) {
      return Violation("data outside the granted range, or more than was granted"), false;
    }
    if (place == rail::PostedReceives::Place::kUnknown) {
      return GiveUp("data that was not requested"), false;
    }
    duplicate_ = place == rail::PostedReceives::Place::kDuplicate;
    staged = place == rail::PostedReceives::Place::kStaged;
  }
  if (staged && staging_ == nullptr) {
    staging_ = std::make_unique_for_overwrite<std::byte[]>(wire::kChunkBytesMax);
  }
  target_ = staged ? staging_.get() : direct;
  return true;
}

// `only_piece`: the payload, if it arrived in one piece.
void CircuitRail::FinishFrame(std::span<const std::byte> only_piece) {
  gathering_ = false;
  std::byte* const gathered = std::exchange(target_, nullptr);
  rail::RailEvent& event = events_.emplace_back();
  event.kind = rail::RailEvent::Kind::kFrame;
  event.header = incoming_;
  if (incoming_.type == wire::FrameType::kData) {
    event.duplicate = std::exchange(duplicate_, false);
    event.placed = !event.duplicate && posted_.Complete(incoming_, gathered);
    return;
  }
  event.payload = only_piece.empty() ? std::span<const std::byte>(gathered, incoming_.payload_bytes)
                                     : only_piece;
  if (incoming_.payload_bytes == 0) event.payload = {};
}

void CircuitRail::Describe(v1::RailStatus& status) const {
  status.set_local_address("through " + through_);
  status.set_remote_address(peer_);
}

}  // namespace mlxcomm::fabric
