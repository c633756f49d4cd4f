// A rail of virtual time, as a link sees it: receives, placed data and events. Commands wait until
// the rail's own turn; data lies where PostedReceives says, perhaps in two parts; events wait for
// Pop.
//
//   Give ──▶ commands ──TakeCommands──▶ receives, or the wire
//   Pop  ◀── events   ◀── claimed, placed ── Begin, Take ◀── the wire
//
// The wire is the derived class's: cables between two links (unit/daemon/link/two_sides.h), or the
// simulator's connections (sim/connected_rail.h).
//
// Owner: Link. Thread: one. Memory: what waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "daemon/rail/posted_receives.h"
#include "daemon/rail/rail.h"

namespace mlxcomm::ground {

class SimulatedRail : public rail::Rail {
 public:
  void Expect(const rail::PostedReceive& receive, rail::ReceiveBudget::Share share) override {
    posted_.Expect(receive, share);
  }
  absl::Status Start(bool resumed, rail::ArrivalClaims& claims) override;
  bool Pop(rail::RailEvent& event) override;
  bool PrepareToSleep() override { return events_.empty() && transmitted_ == 0; }
  void WakeUp() override {}
  std::uint64_t last_received_ns() const override { return last_received_ns_; }

  // The rail's own turn: all commands that wait.
  void TakeCommands();
  void GoDown(rail::DownCause cause, const std::string& why, LinkReason reason = LinkReason::kNone);
  bool is_down() const { return down_; }

 protected:
  // `unknown` is the cause if data arrives without a receive.
  SimulatedRail(std::uint64_t now_ns, rail::DownCause unknown)
      : unknown_(unknown), last_received_ns_(now_ns) {}

  // Something waits for Pop, which has left that many events.
  virtual void OnEvents() {}
  virtual void OnPopped(std::size_t) {}
  // A command for the wire.
  virtual void OnCommand(const rail::RailCommand&) {}
  virtual void OnDown(rail::DownCause) {}

  void Queue(const rail::RailCommand& command) { commands_.push_back(command); }
  std::size_t commands() const { return commands_.size(); }
  std::size_t events() const { return events_.size(); }

  void OnHeard(std::uint64_t now_ns) { last_received_ns_ = now_ns; }
  void OnWritten(const wire::FrameHeader& header);
  // The header of data has arrived: finds its place. False if the rail has gone down.
  bool Begin(const wire::FrameHeader& header);
  // Half of it has arrived: what a receive holds until the rest arrives, perhaps on another rail.
  void PlaceHalf(const std::vector<std::byte>& payload);
  // A whole frame has arrived. `changed` means that data differs from what was sent.
  void Take(const wire::FrameHeader& header, std::vector<std::byte> payload, bool changed = false);

 private:
  struct Event {
    rail::RailEvent event;
    std::vector<std::byte> payload;
  };
  Event& Add(rail::RailEvent::Kind kind);

  const rail::DownCause unknown_;
  std::uint64_t last_received_ns_;
  bool started_ = false;
  bool down_ = false;
  std::deque<rail::RailCommand> commands_;
  std::deque<Event> events_;
  Event popped_;
  std::uint32_t transmitted_ = 0;
  rail::PostedReceives posted_;
  bool begun_ = false;  // The frame in progress has its place.
  rail::PostedReceives::Place place_ = rail::PostedReceives::Place::kDropped;
  std::byte* target_ = nullptr;
};

}  // namespace mlxcomm::ground
