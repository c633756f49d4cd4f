#include "tests/sim/simulated_rail.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "daemon/transport/frame_sum.h"

namespace mlxcomm::sim {

using fabric::DownCause;
using fabric::PostedReceives;
using fabric::RailCommand;
using fabric::RailEvent;

SimulatedRail::SimulatedRail(Schedule& schedule, RailOwner& owner,
                             std::shared_ptr<Connection> connection, int side,
                             fabric::RailPath path, const RailOptions& options, Random random)
    : schedule_(schedule),
      owner_(owner),
      connection_(std::move(connection)),
      side_(side),
      path_(std::move(path)),
      options_(options),
      random_(random),
      alive_(std::make_shared<bool>(true)),
      last_received_ns_(schedule.now_ns()) {}

SimulatedRail::~SimulatedRail() {
  *alive_ = false;
  Stop();
  if (!kept_) connection_->LetGo(side_);
}

void SimulatedRail::Expect(const fabric::PostedReceive& receive,
                           fabric::ReceiveBudget::Share share) {
  posted_.Expect(receive, share);
}

absl::Status SimulatedRail::Start(bool resumed, fabric::ArrivalClaims& claims) {
  posted_.ShareClaims(claims);
  if (resumed) posted_.DoNotKnowAllWithdrawn();
  started_ = true;
  last_received_ns_ = schedule_.now_ns();
  connection_->Attach(side_, this);
  return absl::OkStatus();
}

bool SimulatedRail::Give(const RailCommand& command) {
  if (down_) return true;  // kDown follows; whatever was given does not count.
  // Written frames leave by themselves, so they count as given until then.
  if (commands_.size() + connection_->queued(side_) >= options_.commands_max) return false;
  commands_.push_back(command);
  ScheduleCommands();
  return true;
}

void SimulatedRail::ScheduleCommands() {
  if (commands_due_ || commands_.empty()) return;
  commands_due_ = true;
  const std::uint64_t delay =
      options_.command_delay_ns_max > 0 ? random_.Below(options_.command_delay_ns_max) : 0;
  schedule_.After(delay, [this, alive = alive_] {
    if (!*alive) return;
    commands_due_ = false;
    TakeCommands();
  });
}

void SimulatedRail::TakeCommands() {
  while (!commands_.empty() && !down_) {
    const RailCommand command = commands_.front();
    commands_.pop_front();
    TakeCommand(command);
  }
}

void SimulatedRail::TakeCommand(const RailCommand& command) {
  switch (command.kind) {
    case RailCommand::Kind::kTransmit: {
      Message message;
      message.header = command.frame.header;
      message.payload = command.frame.payload;
      return connection_->Send(side_, std::move(message));
    }
    case RailCommand::Kind::kPostReceive: return posted_.Expect(command.receive, command.share);
    case RailCommand::Kind::kForgetCompleted:
      return posted_.ForgetCompleted(command.key, command.step);
    case RailCommand::Kind::kWithdraw:
      if (posted_.Forget(command.key)) target_ = nullptr;
      Tell(RailEvent::Kind::kWithdrawn).event.key = command.key;
      return;
    case RailCommand::Kind::kHeartbeat: {
      wire::FrameHeader header;
      header.type = wire::FrameType::kHeartbeat;
      header.offset = schedule_.now_ns();
      return SendHeader(header, command.padded);
    }
  }
}

void SimulatedRail::SendHeader(wire::FrameHeader header, bool padded) {
  static constexpr std::array<std::byte, wire::kPaddedBytes> kPadding = {};
  Message message;
  if (padded) {
    header.payload_bytes = wire::kPaddedBytes;
    message.payload = kPadding.data();
  }
  message.header = header;
  connection_->Send(side_, std::move(message));
}

void SimulatedRail::OnLeft(const Message& message) {
  sent_bytes_ += sizeof message.header + message.header.payload_bytes;
  if (message.header.sequence == 0) return;
  ++transmitted_;
  owner_.OnRailHasEvents();
}

// The header of data has been read.
bool SimulatedRail::Begin(const Message& message) {
  if (begun_) return true;
  place_ = posted_.Begin(message.header, &target_);
  if (place_ == PostedReceives::Place::kUnknown) {
    TakeCommands();
    place_ = posted_.Begin(message.header, &target_);
  }
  if (place_ == PostedReceives::Place::kUnknown || place_ == PostedReceives::Place::kOutside) {
    GoDown(DownCause::kViolation, "data outside of what was granted");
    return false;
  }
  if (place_ != PostedReceives::Place::kDirect) target_ = nullptr;
  begun_ = true;
  return true;
}

void SimulatedRail::OnBegins(const Message& message) {
  wire::FrameHeader header = message.header;
  std::uint32_t sum = 0;
  if (message.has_sums && !fabric::TakeSums(header, sum)) return;
  if (down_ || message.header.type != wire::FrameType::kData || !Begin(message)) return;
  PlacePart(message);
}

// Half of it has arrived: what a receive holds until the rest arrives, perhaps on another rail.
void SimulatedRail::PlacePart(const Message& message) {
  if (place_ != PostedReceives::Place::kDirect || target_ == nullptr) return;
  std::memcpy(target_, message.carried.data(), message.carried.size() / 2);
}

// By its sums, as FrameReader has it. Data that was changed is asked for again; of anything else that was
// changed both sides give the rail up.
bool SimulatedRail::IsAsSent(Message& message) {
  is_data_changed_ = false;
  std::uint32_t sum = 0;
  if (!message.has_sums) return true;
  if (fabric::TakeSums(message.header, sum)) {
    if (fabric::ExtendSum(0, message.carried.data(), message.carried.size()) == sum) return true;
    is_data_changed_ = message.header.type == wire::FrameType::kData;
    if (is_data_changed_) return true;
  }
  wire::FrameHeader told;
  told.type = wire::FrameType::kGivenUp;
  told.tag = static_cast<std::uint32_t>(LinkReason::kBytesChanged);
  connection_->GiveUp(side_, told);
  GoDown(DownCause::kCut, "bytes were changed on the way", LinkReason::kBytesChanged);
  return false;
}

bool SimulatedRail::OnArrived(Message& message) {
  if (down_) return true;
  const wire::FrameHeader& header = message.header;
  if (events_.size() >= options_.events_max) return false;
  if (!IsAsSent(message)) return true;
  last_received_ns_ = schedule_.now_ns();
  received_bytes_ += sizeof header + header.payload_bytes;
  schedule_.Note(header.sequence ^ Mix(header.acknowledged) ^ Mix(header.group));
  if (!wire::IsWellFormed(header)) {
    GoDown(DownCause::kViolation, "a frame that breaks a bound");
    return true;
  }
  if (header.type == wire::FrameType::kHeartbeat) {
    wire::FrameHeader echo;
    echo.type = wire::FrameType::kEcho;
    echo.offset = header.offset;
    SendHeader(echo, header.payload_bytes > 0);
    return true;
  }
  if (header.type == wire::FrameType::kGivenUp) {
    connection_->Keep(side_);
    GoDown(DownCause::kCut, "the other side has given it up",
           LinkReasonOf(header.tag, LinkReason::kCut));
    return true;
  }
  if (header.type == wire::FrameType::kEcho) {
    if (header.payload_bytes > 0) {
      passed_large_ = true;
      owner_.OnRailHasEvents();
      return true;
    }
    round_trip_ns_ = schedule_.now_ns() - std::min(header.offset, schedule_.now_ns());
    if (round_trip_ns_min_ == 0) round_trip_ns_min_ = round_trip_ns_;
    round_trip_ns_min_ = std::min(round_trip_ns_min_, round_trip_ns_);
    return true;
  }
  if (header.type != wire::FrameType::kData) {
    Told& told = Tell(RailEvent::Kind::kFrame);
    told.event.header = header;
    told.payload = std::move(message.carried);
    return true;
  }
  if (!Begin(message)) return true;
  begun_ = false;
  if (target_ != nullptr && !message.carried.empty()) {
    std::memcpy(target_, message.carried.data(), message.carried.size());
  }
  target_ = nullptr;
  if (is_data_changed_ && posted_.is_placing()) {
    Told& told = Tell(RailEvent::Kind::kTransmitted);
    told.event.abandoned = posted_.Disown();
    told.event.link_reason = LinkReason::kBytesChanged;
    return true;
  }
  bool placed = false;
  if (place_ != PostedReceives::Place::kDuplicate) {
    placed = posted_.Complete(header, message.carried.empty() ? nullptr : message.carried.data());
  }
  Told& told = Tell(RailEvent::Kind::kFrame);
  told.event.header = header;
  told.event.placed = placed;
  told.event.duplicate = place_ == PostedReceives::Place::kDuplicate;
  return true;
}

SimulatedRail::Told& SimulatedRail::Tell(RailEvent::Kind kind) {
  Told& told = events_.emplace_back();
  told.event.kind = kind;
  owner_.OnRailHasEvents();
  return told;
}

void SimulatedRail::OnEnded(DownCause cause, const std::string& why) { GoDown(cause, why); }

void SimulatedRail::Finish() {
  connection_->Close(side_);
  Stop();
}

void SimulatedRail::Stop() {
  if (!down_) connection_->Keep(side_);
  GoDown(DownCause::kCut, "stopped");
}

std::unique_ptr<fabric::KeptEnd> SimulatedRail::KeepEnd() {
  class KeptConnection final : public fabric::KeptEnd {
   public:
    KeptConnection(std::shared_ptr<Connection> connection, int side)
        : connection_(std::move(connection)), side_(side) {}
    ~KeptConnection() override { connection_->LetGo(side_); }

   private:
    std::shared_ptr<Connection> connection_;
    int side_;
  };
  kept_ = true;
  return std::make_unique<KeptConnection>(connection_, side_);
}

void SimulatedRail::GoDown(DownCause cause, const std::string& why, LinkReason reason) {
  if (std::exchange(down_, true)) return;
  connection_->Close(side_);
  commands_.clear();
  if (!started_) return;
  target_ = nullptr;
  Told& told = Tell(RailEvent::Kind::kDown);
  told.event.cause = cause;
  told.event.abandoned = posted_.Abandon();
  told.event.reason = why;
  told.event.link_reason = reason;
}

bool SimulatedRail::Pop(RailEvent& event) {
  if (events_.empty() && transmitted_ == 0) return false;
  current_ = {};
  if (events_.empty()) {
    current_.event.kind = RailEvent::Kind::kTransmitted;
  } else {
    current_ = std::move(events_.front());
    events_.pop_front();
    if (events_.size() + 1 == options_.events_max && !down_) connection_->ReadOn(side_);
  }
  event = std::move(current_.event);
  event.transmitted = std::exchange(transmitted_, 0);
  event.payload = current_.payload;
  return true;
}

fabric::RailSnapshot SimulatedRail::Snapshot() const {
  fabric::RailSnapshot snapshot;
  snapshot.local_address = path_.local;
  snapshot.remote_address = path_.remote;
  snapshot.up = !down_;
  snapshot.sent_bytes = sent_bytes_;
  snapshot.received_bytes = received_bytes_;
  snapshot.round_trip_ns = round_trip_ns_;
  snapshot.round_trip_ns_min = round_trip_ns_min_;
  return snapshot;
}

}  // namespace mlxcomm::sim
