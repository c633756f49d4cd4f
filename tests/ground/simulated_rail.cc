#include "tests/ground/simulated_rail.h"

#include <cstring>
#include <utility>

namespace mlxcomm::ground {

using rail::DownCause;
using rail::RailCommand;
using rail::RailEvent;
using Place = rail::PostedReceives::Place;

absl::Status SimulatedRail::Start(bool resumed, rail::ArrivalClaims& claims) {
  posted_.ShareClaims(claims);
  if (resumed) posted_.AssumeEarlierWithdrawals();
  started_ = true;
  return absl::OkStatus();
}

void SimulatedRail::TakeCommands() {
  while (!commands_.empty() && !down_) {
    const RailCommand command = commands_.front();
    commands_.pop_front();
    switch (command.kind) {
      case RailCommand::Kind::kPostReceive: Expect(command.receive, command.share); break;
      case RailCommand::Kind::kForgetCompleted:
        posted_.ForgetCompleted(command.key, command.step);
        break;
      case RailCommand::Kind::kWithdraw:
        if (posted_.Forget(command.key)) target_ = nullptr;
        Add(RailEvent::Kind::kWithdrawn).event.key = command.key;
        break;
      case RailCommand::Kind::kTransmit:
      case RailCommand::Kind::kHeartbeat: OnCommand(command); break;
    }
  }
}

void SimulatedRail::OnWritten(const wire::FrameHeader& header) {
  if (header.sequence == 0) return;
  ++transmitted_;
  OnEvents();
}

bool SimulatedRail::Begin(const wire::FrameHeader& header) {
  if (begun_) return true;
  place_ = posted_.Begin(header, &target_);
  if (place_ == Place::kUnknown) {
    TakeCommands();
    place_ = posted_.Begin(header, &target_);
  }
  if (place_ == Place::kUnknown || place_ == Place::kOutside) {
    GoDown(place_ == Place::kUnknown ? unknown_ : DownCause::kViolation,
           "data outside of what was granted");
    return false;
  }
  if (place_ != Place::kDirect) target_ = nullptr;
  begun_ = true;
  return true;
}

void SimulatedRail::PlaceHalf(const std::vector<std::byte>& payload) {
  if (target_ != nullptr) std::memcpy(target_, payload.data(), payload.size() / 2);
}

void SimulatedRail::Take(const wire::FrameHeader& header, std::vector<std::byte> payload,
                         bool changed) {
  if (header.type != wire::FrameType::kData) {
    Event& added = Add(RailEvent::Kind::kFrame);
    added.event.header = header;
    added.payload = std::move(payload);
    return;
  }
  if (!Begin(header)) return;
  begun_ = false;
  if (target_ != nullptr && !payload.empty()) std::memcpy(target_, payload.data(), payload.size());
  target_ = nullptr;
  if (changed && posted_.is_placing()) {
    RailEvent& event = Add(RailEvent::Kind::kTransmitted).event;
    event.abandoned = posted_.Disown();
    event.link_reason = LinkReason::kBytesChanged;
    return;
  }
  const bool duplicate = place_ == Place::kDuplicate;
  const bool placed =
      !duplicate && posted_.Complete(header, payload.empty() ? nullptr : payload.data());
  RailEvent& event = Add(RailEvent::Kind::kFrame).event;
  event.header = header;
  event.placed = placed;
  event.duplicate = duplicate;
}

SimulatedRail::Event& SimulatedRail::Add(RailEvent::Kind kind) {
  Event& added = events_.emplace_back();
  added.event.kind = kind;
  OnEvents();
  return added;
}

void SimulatedRail::GoDown(DownCause cause, const std::string& why, LinkReason reason) {
  if (std::exchange(down_, true)) return;
  OnDown(cause);
  commands_.clear();
  if (!started_) return;
  target_ = nullptr;
  RailEvent& event = Add(RailEvent::Kind::kDown).event;
  event.cause = cause;
  event.abandoned = posted_.Abandon();
  event.reason = why;
  event.link_reason = reason;
}

bool SimulatedRail::Pop(RailEvent& event) {
  if (events_.empty() && transmitted_ == 0) return false;
  popped_ = {};
  if (events_.empty()) {
    popped_.event.kind = RailEvent::Kind::kTransmitted;
  } else {
    popped_ = std::move(events_.front());
    events_.pop_front();
    OnPopped(events_.size());
  }
  event = std::move(popped_.event);
  event.transmitted = std::exchange(transmitted_, 0);
  event.payload = popped_.payload;
  return true;
}

}  // namespace mlxcomm::ground
