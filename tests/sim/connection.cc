#include "tests/sim/connection.h"

#include <algorithm>
#include <utility>

#include "daemon/rail/frame_sum.h"

namespace mlxcomm::sim {
namespace {

constexpr std::uint64_t kHelloBytes = 160;
// How long a system waits before it sends again data that was lost on a pulled cable.
constexpr std::uint64_t kSendAgainNsMax = 200 * kMillisecond;

std::uint64_t BytesOf(const Message& message) {
  return message.hello ? kHelloBytes : sizeof message.header + message.header.payload_bytes;
}

}  // namespace

void Connection::Attach(int side, ConnectionEnd* end) {
  At(side).end = end;
  At(side).blocked = false;
  // Not inside the caller, which may not be ready yet.
  schedule_.After(0, [self = shared_from_this(), side] {
    Side& mine = self->At(side);
    if (mine.ended && mine.end != nullptr && !mine.closed) {
      return std::exchange(mine.end, nullptr)->OnEnded(rail::DownCause::kReset, "closed");
    }
    self->ScheduleArrival(side);
  });
}

void Connection::Send(int side, Message message) {
  if (!open(side)) return;
  At(side).queue.push_back(std::move(message));
  LeaveNext(side);
}

void Connection::LeaveNext(int side) {
  Side& mine = At(side);
  if (mine.leaving || mine.queue.empty() || mine.stopped || !open(side)) return;
  const std::uint64_t bytes = BytesOf(mine.queue.front());
  const Side& other = At(1 - side);
  if (cable_.options().reliable && other.unread_bytes > 0 &&
      other.unread_bytes + bytes > cable_.options().window_bytes) {
    return;
  }
  mine.leaving = true;
  const Cable::Crossing crossing = cable_.Cross(side, bytes, schedule_.now_ns());
  schedule_.At(crossing.leave_ns,
               [self = shared_from_this(), side, arrive = crossing.arrive_ns, epoch = mine.epoch] {
                 if (self->At(side).epoch == epoch) self->Leave(side, arrive);
               });
}

void Connection::Leave(int side, std::uint64_t arrive_ns) {
  Side& mine = At(side);
  Side& other = At(1 - side);
  mine.leaving = false;
  Message message = std::move(mine.queue.front());
  mine.queue.pop_front();
  const std::uint64_t bytes = BytesOf(message);
  if (message.header.payload_bytes > 0 && !message.hello) {
    message.carried.assign(message.payload, message.payload + message.header.payload_bytes);
  }
  message.payload = nullptr;
  if (wire::IsSignOfLife(message.header.type)) message.header.number = mine.frames_left;
  if (!message.hello) ++mine.frames_left;
  if (!message.hello && cable_.Flips()) FlipABit(message);
  const bool lost = cable_.options().reliable
                        ? !message.hello && cable_.Swallows()
                        : !cable_.up() || cable_.Loses() || !cable_.Passes(bytes);
  if (mine.end != nullptr) mine.end->OnLeft(message);
  if (!lost && !other.closed && !other.vanished) {
    other.last_arrival_ns = std::max(other.last_arrival_ns, arrive_ns);
    other.unread_bytes += bytes;
    other.arriving.push_back({std::move(message), other.last_arrival_ns});
    ScheduleArrival(1 - side);
  }
  LeaveNext(side);
}

// After its sums were taken.
void Connection::FlipABit(Message& message) {
  rail::PutSums(message.header, message.carried.data());
  message.has_sums = true;
  std::uint64_t bit = cable_.BitOf(8 * (sizeof message.header + message.carried.size()));
  auto* bytes = reinterpret_cast<std::byte*>(&message.header);
  if (bit >= 8 * sizeof message.header) {
    bit -= 8 * sizeof message.header;
    bytes = message.carried.data();
  }
  bytes[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
}

void Connection::ScheduleArrival(int side) {
  Side& mine = At(side);
  if (mine.arrival_due || mine.arriving.empty() || mine.stopped || mine.blocked ||
      mine.end == nullptr || !cable_.up()) {
    return;
  }
  const Arriving& next = mine.arriving.front();
  if (!cable_.Passes(BytesOf(next.message))) return;  // And so does everything behind it.
  std::uint64_t when = next.arrive_ns;
  if (cable_.options().places_in_parts && !next.begun && !next.message.carried.empty()) {
    const std::uint64_t spread =
        BytesOf(next.message) * kSecond / cable_.options().bytes_per_second;
    when -= std::min(when, spread);
  }
  mine.arrival_due = true;
  schedule_.At(when, [self = shared_from_this(), side, epoch = mine.epoch] {
    if (self->At(side).epoch == epoch) self->Arrive(side);
  });
}

void Connection::Arrive(int side) {
  Side& mine = At(side);
  mine.arrival_due = false;
  if (mine.arriving.empty() || mine.stopped || mine.end == nullptr || !cable_.up()) return;
  Arriving& next = mine.arriving.front();
  if (!cable_.Passes(BytesOf(next.message))) return;
  if (next.arrive_ns > schedule_.now_ns()) {
    next.begun = true;
    mine.end->OnBegins(next.message);
    return ScheduleArrival(side);
  }
  Arriving taken = std::move(next);
  mine.arriving.pop_front();
  if (taken.reset) return End(side, "the other side closed the connection");
  const std::uint64_t bytes = BytesOf(taken.message);
  if (!mine.end->OnArrived(taken.message) && cable_.options().reliable) {
    if (!open(side)) return;
    mine.arriving.push_front(std::move(taken));
    mine.blocked = true;
    return;
  }
  if (mine.closed) return;
  mine.unread_bytes -= bytes;
  LeaveNext(1 - side);
  ScheduleArrival(side);
}

void Connection::ReadOn(int side) {
  At(side).blocked = false;
  ScheduleArrival(side);
}

void Connection::SetStopped(int side, bool stopped) {
  At(side).stopped = stopped;
  if (stopped) return;
  LeaveNext(side);
  ScheduleArrival(side);
}

void Connection::Forget(int side) {
  Side& mine = At(side);
  mine.closed = true;
  mine.end = nullptr;
  mine.queue.clear();
  mine.arriving.clear();
  mine.leaving = false;
  mine.arrival_due = false;
  ++mine.epoch;
}

void Connection::Close(int side) {
  if (At(side).closed) return;
  Forget(side);
  ReportReset(1 - side);
}

void Connection::Keep(int side) {
  if (At(side).closed) return;
  Forget(side);
  At(side).kept = true;
}

void Connection::GiveUp(int side, const wire::FrameHeader& last) {
  if (At(side).closed) return;
  Keep(side);
  Side& other = At(1 - side);
  if (other.closed || other.vanished) return;
  Message message;
  message.header = last;
  other.last_arrival_ns =
      std::max(other.last_arrival_ns, schedule_.now_ns() + cable_.options().latency_ns);
  other.unread_bytes += BytesOf(message);
  other.arriving.push_back({std::move(message), other.last_arrival_ns});
  ScheduleArrival(1 - side);
}

void Connection::LetGo(int side) {
  if (std::exchange(At(side).kept, false)) ReportReset(1 - side);
}

void Connection::Vanish(int side) {
  if (std::exchange(At(side).kept, false)) At(side).vanished = true;
  if (At(side).closed) return;
  Forget(side);
  At(side).vanished = true;
}

void Connection::Refuse(int side) {
  if (std::exchange(At(side).vanished, false)) ReportReset(1 - side);
}

// A reset arrives behind earlier messages, or overtakes them, which are lost then.
void Connection::ReportReset(int side) {
  Side& other = At(side);
  if (other.closed || other.ended) return;
  other.reset_comes = true;
  if (!cable_.up()) return;
  if (cable_.options().reliable && random_.Chance(500)) {
    other.reset_comes = false;
    other.last_arrival_ns =
        std::max(other.last_arrival_ns, schedule_.now_ns() + cable_.options().latency_ns);
    other.arriving.push_back({{}, other.last_arrival_ns});
    other.arriving.back().reset = true;
    return ScheduleArrival(side);
  }
  schedule_.After(cable_.options().latency_ns, [self = shared_from_this(), side] {
    if (self->cable_.up() && std::exchange(self->At(side).reset_comes, false)) {
      self->End(side, "reset by the other side");
    }
  });
}

void Connection::End(int side, const char* why) {
  Side& mine = At(side);
  if (mine.closed || std::exchange(mine.ended, true)) return;
  mine.queue.clear();
  mine.leaving = false;
  mine.arriving.clear();
  ++mine.epoch;
  mine.arrival_due = false;
  if (mine.end == nullptr) return;  // Attach tells.
  // A stopped process learns this when it continues.
  std::exchange(mine.end, nullptr)->OnEnded(rail::DownCause::kReset, why);
}

void Connection::OnCableDown() {
  if (cable_.options().reliable) return;
  for (Side& side : sides_) {
    for (const Arriving& lost : side.arriving) side.unread_bytes -= BytesOf(lost.message);
    side.arriving.clear();
  }
}

void Connection::OnCableBack() {
  schedule_.After(random_.Below(kSendAgainNsMax), [self = shared_from_this()] {
    if (!self->cable_.up()) return;
    for (int side = 0; side < 2; ++side) {
      self->ScheduleArrival(side);
      if (self->At(side).reset_comes) self->ReportReset(side);
    }
  });
}

}  // namespace mlxcomm::sim
