// A rail over a connection of the simulator, as TcpRail is one over a socket, with a thread.
//
//   Give ──▶ commands ──a moment later──▶ connection        (the rail's thread)
//   Pop  ◀── events   ◀── claimed, placed ── connection
//
// The seed decides the time of each act of the rail's thread: commands are taken a moment after they were
// given, data is placed when it arrives, whatever the loop knows by then, and a payload's first byte may
// arrive long before its last.
//
// Owner: Link. Thread: one. Memory: kCommandsMax commands, kEventsMax events and their payloads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "daemon/transport/posted_receives.h"
#include "daemon/transport/rail.h"
#include "daemon/transport/rail_path.h"
#include "tests/sim/connection.h"
#include "tests/sim/random.h"
#include "tests/sim/schedule.h"

namespace mlxcomm::sim {

// The rail's owner, which is notified that an event waits for Pop.
class RailOwner {
 public:
  virtual ~RailOwner() = default;
  virtual void OnRailHasEvents() = 0;
};

struct RailOptions {
  std::size_t commands_max = 256;
  std::size_t events_max = 256;
  std::uint64_t command_delay_ns_max = 2 * kMicrosecond;
};

class SimulatedRail final : public fabric::Rail, private ConnectionEnd {
 public:
  SimulatedRail(Schedule& schedule, RailOwner& owner, std::shared_ptr<Connection> connection,
                int side, fabric::RailPath path, const RailOptions& options, Random random);
  ~SimulatedRail() override;

  void Expect(const fabric::PostedReceive& receive, fabric::ReceiveBudget::Share share) override;
  absl::Status Start(bool resumed, fabric::ArrivalClaims& claims) override;
  bool Give(const fabric::RailCommand& command) override;
  void Finish() override;
  void Stop() override;
  std::unique_ptr<fabric::KeptEnd> KeepEnd() override;
  bool Pop(fabric::RailEvent& event) override;
  bool PrepareToSleep() override { return events_.empty() && transmitted_ == 0; }
  void WakeUp() override {}
  bool is_reliable() const override { return connection_->cable().options().reliable; }
  std::uint64_t last_received_ns() const override { return last_received_ns_; }
  bool has_passed_large() const override { return !is_reliable() || passed_large_; }
  fabric::RailSnapshot Snapshot() const override;

 private:
  struct Told {
    fabric::RailEvent event;
    std::vector<std::byte> payload;
  };

  // ConnectionEnd
  void OnLeft(const Message& message) override;
  void OnBegins(const Message& message) override;
  bool OnArrived(Message& message) override;
  void OnEnded(fabric::DownCause cause, const std::string& why) override;

  void ScheduleCommands();
  void TakeCommands();
  void TakeCommand(const fabric::RailCommand& command);
  void SendHeader(wire::FrameHeader header, bool padded = false);
  bool Begin(const Message& message);
  void PlacePart(const Message& message);
  Told& Tell(fabric::RailEvent::Kind kind);
  [[nodiscard]] bool IsAsSent(Message& message);
  void GoDown(fabric::DownCause cause, const std::string& why,
              LinkReason reason = LinkReason::kNone);

  Schedule& schedule_;
  RailOwner& owner_;
  std::shared_ptr<Connection> connection_;
  int side_;
  fabric::RailPath path_;
  RailOptions options_;
  Random random_;
  std::shared_ptr<bool> alive_;  // For events that come after it.
  bool down_ = false;
  bool started_ = false;
  bool kept_ = false;  // Its end of the connection was given to another owner.
  std::deque<fabric::RailCommand> commands_;
  bool commands_due_ = false;
  std::deque<Told> events_;
  Told current_;  // The last result of Pop.
  std::uint32_t transmitted_ = 0;
  fabric::PostedReceives posted_;
  bool begun_ = false;            // The frame under way has its place.
  bool is_data_changed_ = false;  // Of the message that arrives.
  fabric::PostedReceives::Place place_ = fabric::PostedReceives::Place::kDropped;
  std::byte* target_ = nullptr;
  std::uint64_t last_received_ns_;
  bool passed_large_ = false;
  std::uint64_t round_trip_ns_ = 0;
  std::uint64_t round_trip_ns_min_ = 0;
  std::uint64_t sent_bytes_ = 0;
  std::uint64_t received_bytes_ = 0;
};

}  // namespace mlxcomm::sim
