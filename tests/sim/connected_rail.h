// A rail over a connection of the simulator, as TcpRail is one over a socket, with a thread. The
// seed decides the time of each act of that thread: commands are taken a moment after they were
// given, data is placed when it arrives, whatever the loop knows then, and a payload's first byte
// may arrive long before its last.
//
// Owner: Link. Thread: one. Memory: kCommandsMax commands, kEventsMax events and their payloads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "daemon/rail/rail_path.h"
#include "tests/ground/simulated_rail.h"
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

class ConnectedRail final : public ground::SimulatedRail, private ConnectionEnd {
 public:
  ConnectedRail(Schedule& schedule, RailOwner& owner, std::shared_ptr<Connection> connection,
                int side, rail::RailPath path, const RailOptions& options, Random random);
  ~ConnectedRail() override;

  absl::Status Start(bool resumed, rail::ArrivalClaims& claims) override;
  bool Give(const rail::RailCommand& command) override;
  void Finish() override;
  void Stop() override;
  std::shared_ptr<void> KeepEnd() override;
  bool is_reliable() const override { return connection_->cable().options().reliable; }
  bool has_passed_large() const override { return !is_reliable() || passed_large_; }
  rail::RailFigures figures() const override {
    return {!is_down(), sent_bytes_, received_bytes_, round_trip_ns_, round_trip_ns_min_};
  }
  void Describe(v1::RailStatus& status) const override;

 private:
  // SimulatedRail
  void OnEvents() override { owner_.OnRailHasEvents(); }
  void OnPopped(std::size_t left) override;
  void OnCommand(const rail::RailCommand& command) override;
  void OnDown(rail::DownCause) override { connection_->Close(side_); }

  // ConnectionEnd
  void OnLeft(const Message& message) override;
  void OnBegins(const Message& message) override;
  bool OnArrived(Message& message) override;
  void OnEnded(rail::DownCause cause, const std::string& why) override { GoDown(cause, why); }

  void ScheduleCommands();
  void SendHeader(wire::FrameHeader header, bool padded = false);
  void OnEcho(const wire::FrameHeader& echo);
  [[nodiscard]] bool IsAsSent(Message& message);
  void GiveUp(const char* why);

  Schedule& schedule_;
  RailOwner& owner_;
  std::shared_ptr<Connection> connection_;
  int side_;
  rail::RailPath path_;
  RailOptions options_;
  Random random_;
  std::shared_ptr<bool> alive_;  // For events that follow it.
  bool kept_ = false;            // Its end of the connection was given to another owner.
  bool commands_due_ = false;
  bool is_data_changed_ = false;  // The arriving message's.
  bool passed_large_ = false;
  std::uint64_t frames_ = 0;  // Those that have arrived.
  std::uint64_t round_trip_ns_ = 0;
  std::uint64_t round_trip_ns_min_ = 0;
  std::uint64_t sent_bytes_ = 0;
  std::uint64_t received_bytes_ = 0;
};

}  // namespace mlxcomm::sim
