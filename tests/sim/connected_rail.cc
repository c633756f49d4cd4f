#include "tests/sim/connected_rail.h"

#include <algorithm>
#include <array>
#include <utility>

#include "daemon/rail/frame_sum.h"
#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::sim {

using rail::DownCause;
using rail::RailCommand;

ConnectedRail::ConnectedRail(Schedule& schedule, RailOwner& owner,
                             std::shared_ptr<Connection> connection, int side, rail::RailPath path,
                             const RailOptions& options, Random random)
    : SimulatedRail(schedule.now_ns(), DownCause::kViolation),
      schedule_(schedule),
      owner_(owner),
      connection_(std::move(connection)),
      side_(side),
      path_(std::move(path)),
      options_(options),
      random_(random),
      alive_(std::make_shared<bool>(true)) {}

ConnectedRail::~ConnectedRail() {
  *alive_ = false;
  Stop();
  if (!kept_) connection_->LetGo(side_);
}

absl::Status ConnectedRail::Start(bool resumed, rail::ArrivalClaims& claims) {
  OnHeard(schedule_.now_ns());
  connection_->Attach(side_, this);
  return SimulatedRail::Start(resumed, claims);
}

bool ConnectedRail::Give(const RailCommand& command) {
  if (is_down()) return true;  // kDown follows; whatever was given does not count.
  // Written frames leave on their own, so they count as given until then.
  if (commands() + connection_->queued(side_) >= options_.commands_max) return false;
  Queue(command);
  ScheduleCommands();
  return true;
}

void ConnectedRail::ScheduleCommands() {
  if (std::exchange(commands_due_, true)) return;
  const std::uint64_t delay =
      options_.command_delay_ns_max > 0 ? random_.Below(options_.command_delay_ns_max) : 0;
  schedule_.After(delay, [this, alive = alive_] {
    if (!*alive) return;
    commands_due_ = false;
    TakeCommands();
  });
}

void ConnectedRail::OnCommand(const RailCommand& command) {
  if (command.kind == RailCommand::Kind::kTransmit) {
    Message message;
    message.header = command.frame.header;
    message.payload = command.frame.payload;
    return connection_->Send(side_, std::move(message));
  }
  wire::FrameHeader header;
  header.type = wire::FrameType::kHeartbeat;
  header.offset = schedule_.now_ns();
  SendHeader(header, command.padded);
}

void ConnectedRail::SendHeader(wire::FrameHeader header, bool padded) {
  static constexpr std::array<std::byte, wire::kPaddedBytes> kPadding = {};
  Message message;
  if (padded) {
    header.payload_bytes = wire::kPaddedBytes;
    message.payload = kPadding.data();
  }
  message.header = header;
  connection_->Send(side_, std::move(message));
}

void ConnectedRail::OnLeft(const Message& message) {
  sent_bytes_ += sizeof message.header + message.header.payload_bytes;
  OnWritten(message.header);
}

void ConnectedRail::OnBegins(const Message& message) {
  wire::FrameHeader header = message.header;
  std::uint32_t sum = 0;
  if (message.has_sums && !rail::TakeSums(header, sum)) return;
  if (is_down() || message.header.type != wire::FrameType::kData) return;
  if (Begin(message.header)) PlaceHalf(message.carried);
}

// By its sums, as in FrameReader. Changed data is requested again; after any other change both
// sides give up the rail.
bool ConnectedRail::IsAsSent(Message& message) {
  is_data_changed_ = false;
  std::uint32_t sum = 0;
  if (!message.has_sums) return true;
  if (rail::TakeSums(message.header, sum)) {
    if (rail::ExtendSum(0, message.carried.data(), message.carried.size()) == sum) return true;
    is_data_changed_ = message.header.type == wire::FrameType::kData;
    if (is_data_changed_) return true;
  }
  GiveUp("bytes were changed on the way");
  return false;
}

void ConnectedRail::GiveUp(const char* why) {
  wire::FrameHeader given_up;
  given_up.type = wire::FrameType::kGivenUp;
  given_up.tag = static_cast<std::uint32_t>(LinkReason::kBytesChanged);
  connection_->GiveUp(side_, given_up);
  GoDown(DownCause::kCut, why, LinkReason::kBytesChanged);
}

bool ConnectedRail::OnArrived(Message& message) {
  if (is_down()) return true;
  const wire::FrameHeader& header = message.header;
  if (events() >= options_.events_max) return false;
  if (!IsAsSent(message)) return true;
  OnHeard(schedule_.now_ns());
  received_bytes_ += sizeof header + header.payload_bytes;
  schedule_.Note(header.sequence ^ Mix(header.acknowledged) ^ Mix(header.group));
  if (!wire::IsWellFormed(header)) {
    GoDown(DownCause::kViolation, "a frame that breaks a bound");
    return true;
  }
  const std::uint64_t frames = frames_++;
  if (is_reliable() && wire::IsSignOfLife(header.type) && header.number != frames) {
    GiveUp("frames that the other side has sent have not come");
    return true;
  }
  switch (header.type) {
    case wire::FrameType::kHeartbeat: {
      wire::FrameHeader echo;
      echo.type = wire::FrameType::kEcho;
      echo.offset = header.offset;
      SendHeader(echo, header.payload_bytes > 0);
      break;
    }
    case wire::FrameType::kGivenUp:
      connection_->Keep(side_);
      GoDown(DownCause::kCut, "the other side has given it up",
             LinkReasonOf(header.tag, LinkReason::kCut));
      break;
    case wire::FrameType::kEcho: OnEcho(header); break;
    default: Take(header, std::move(message.carried), is_data_changed_);
  }
  return true;
}

void ConnectedRail::OnEcho(const wire::FrameHeader& echo) {
  if (echo.payload_bytes > 0) {
    passed_large_ = true;
    return owner_.OnRailHasEvents();
  }
  round_trip_ns_ = schedule_.now_ns() - std::min(echo.offset, schedule_.now_ns());
  if (round_trip_ns_min_ == 0) round_trip_ns_min_ = round_trip_ns_;
  round_trip_ns_min_ = std::min(round_trip_ns_min_, round_trip_ns_);
}

void ConnectedRail::OnPopped(std::size_t left) {
  if (left + 1 == options_.events_max && !is_down()) connection_->ReadOn(side_);
}

void ConnectedRail::Finish() {
  connection_->Close(side_);
  Stop();
}

void ConnectedRail::Stop() {
  if (!is_down()) connection_->Keep(side_);
  GoDown(DownCause::kCut, "stopped");
}

std::shared_ptr<void> ConnectedRail::KeepEnd() {
  class KeptConnection final {
   public:
    KeptConnection(std::shared_ptr<Connection> connection, int side)
        : connection_(std::move(connection)), side_(side) {}
    ~KeptConnection() { connection_->LetGo(side_); }

   private:
    std::shared_ptr<Connection> connection_;
    int side_;
  };
  kept_ = true;
  return std::make_shared<KeptConnection>(connection_, side_);
}

void ConnectedRail::Describe(v1::RailStatus& status) const {
  status.set_local_address(path_.local);
  status.set_remote_address(path_.remote);
}

}  // namespace mlxcomm::sim
