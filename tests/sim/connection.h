// One connection over a cable, as the operating systems of both sides see it: messages in order,
// each direction separately.
//
//   Send ──▶ queue ──leaves──▶ under way ──arrives──▶ unread ──ConnectionEnd takes it──▶
//
// Reliable (TCP): messages in transit when the cable is pulled arrive once it is back, unless one
// side has closed the connection in the meantime. Unreliable (RDMA, UC): they are lost, and so are
// messages for which the other side has no room; single messages may be lost at any time.
//
// The other side learns of a close at once if the cable is up, otherwise when it is back. A host
// that has lost its power sends nothing; when it is back, its system refuses what it receives.
//
// Owner: both ends and the events in transit (shared). Thread: one. Memory: one entry for each
// message; payload is read when it leaves, so that a buffer that is released too early is noticed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/rail/rail.h"
#include "proto/wire/frame.h"
#include "tests/sim/cable.h"
#include "tests/sim/random.h"
#include "tests/sim/schedule.h"

namespace mlxcomm::sim {

struct Message {
  wire::FrameHeader header;
  const std::byte* payload = nullptr;  // Until it leaves.
  std::vector<std::byte> carried;      // From then on.
  bool has_sums = false;               // If the cable has changed it; otherwise it is correct.
  std::function<void()> hello;         // Instead of a frame: the other side's action.
};

class ConnectionEnd {
 public:
  virtual ~ConnectionEnd() = default;
  virtual void OnLeft(const Message& message) = 0;
  // The first byte has arrived; OnArrived or OnEnded follows.
  virtual void OnBegins(const Message& message) = 0;
  // False if there is no room; it is delivered again after ReadOn. Unreliable ones: it is lost.
  virtual bool OnArrived(Message& message) = 0;
  virtual void OnEnded(rail::DownCause cause, const std::string& why) = 0;
};

class Connection final : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Schedule& schedule, Cable& cable, Random random)
      : schedule_(schedule), cable_(cable), random_(random) {}

  // Messages that arrived before are delivered from now on.
  void Attach(int side, ConnectionEnd* end);
  void Detach(int side) { At(side).end = nullptr; }

  void Send(int side, Message message);
  std::size_t queued(int side) const { return At(side).queue.size(); }
  void ReadOn(int side);
  // The process is stopped, or continues: it neither reads nor writes while stopped.
  void SetStopped(int side, bool stopped);
  // This side ends it; the other side sees a reset.
  void Close(int side);
  // This side gives it up and keeps its end open: the other side notices nothing until LetGo.
  void Keep(int side);
  void LetGo(int side);
  // Like Keep, but sends `last` to the other side first.
  void GiveUp(int side, const wire::FrameHeader& last);
  // This side's power fails: neither side is notified.
  void Vanish(int side);
  // The host of a side that vanished is back and refuses what it receives.
  void Refuse(int side);
  void OnCableDown();
  void OnCableBack();

  bool open(int side) const { return !At(side).closed && !At(side).ended; }
  Cable& cable() { return cable_; }

 private:
  struct Arriving {
    Message message;
    std::uint64_t arrive_ns = 0;
    bool begun = false;
    bool reset = false;  // No message means that the other side has closed.
  };
  struct Side {
    ConnectionEnd* end = nullptr;
    std::deque<Message> queue;      // Waiting to leave; the first one is leaving.
    std::uint64_t frames_left = 0;  // The number that has left.
    bool leaving = false;
    bool stopped = false;
    bool closed = false;  // By this side.
    bool kept = false;    // Closed, and the other side does not know it yet.
    bool vanished = false;
    bool ended = false;  // This side knows that the other has closed.
    bool reset_comes = false;
    // Messages to this side.
    std::deque<Arriving> arriving;
    std::uint64_t last_arrival_ns = 0;
    std::uint64_t unread_bytes = 0;  // Left the other side, not read here.
    bool arrival_due = false;
    bool blocked = false;     // This side's end has no room.
    std::uint64_t epoch = 0;  // Numbers of the scheduled events.
  };
  Side& At(int side) { return sides_[static_cast<std::size_t>(side)]; }
  const Side& At(int side) const { return sides_[static_cast<std::size_t>(side)]; }

  void FlipABit(Message& message);
  void LeaveNext(int side);
  void Leave(int side, std::uint64_t arrive_ns);
  void ScheduleArrival(int side);
  void Arrive(int side);
  void Forget(int side);
  void ReportReset(int side);
  void End(int side, const char* why);

  Schedule& schedule_;
  Cable& cable_;
  Random random_;
  std::array<Side, 2> sides_;
};

}  // namespace mlxcomm::sim
