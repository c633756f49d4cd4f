#include "daemon/rdma/rail_thread.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/platform/machine.h"
#include "daemon/platform/power.h"
#include "daemon/rail/rail_commands.h"
#include "proto/types/invariant.h"

namespace mlxcomm::rdma {
namespace {

constexpr std::size_t kCompletionsATurn = 32;
constexpr std::uint64_t kSleepMsMax = 1000;
constexpr std::uint64_t kRailFinishNs = 500'000'000;
constexpr auto kStopPause = std::chrono::microseconds(20);

MessageStream::Shape ShapeOf(QueuePair& pair, std::uint32_t peer_receives, std::uint64_t connection,
                             SendRegions& regions, Service service) {
  const std::span<std::byte> first = pair.Slot(0);
  return {first.data(),    static_cast<std::uint32_t>(first.size()),
          pair.receives(), pair.sends(),
          peer_receives,   connection,
          &regions,        service == Service::kReliable};
}

}  // namespace

RailThread::RailThread(std::unique_ptr<QueuePair> pair, std::shared_ptr<ArenaRegions> regions,
                       std::uint32_t peer_receives, std::uint64_t connection, Service service,
                       const queue::SchedulingPolicy& scheduling, platform::Wakeup bell,
                       platform::Wakeup& loop_bell)
    : scheduling_(scheduling),
      pair_(std::move(pair)),
      bell_(std::move(bell)),
      loop_bell_(loop_bell),
      received_ns_(platform::MonotonicNow()),
      regions_(std::move(regions)),
      stream_(ShapeOf(*pair_, peer_receives, connection, regions_, service),
              platform::MonotonicNow()),
      writer_(no_socket_, stream_),
      reader_(no_socket_, stream_, *this) {}

void RailThread::Observe(std::unique_ptr<rail::RailObserver> observer) {
  observer_ = std::move(observer);
  writer_.Observe(observer_.get());
  reader_.Observe(observer_.get());
}

bool RailThread::Give(const rail::RailCommand& command) {
  const bool given = commands_.Push(rail::RailCommand(command));
  const bool may_wait = given && command.kind == rail::RailCommand::Kind::kForgetCompleted;
  if (!may_wait && commands_.ConsumerSleeps()) bell_.Ring();
  return given;
}

bool RailThread::Pop(rail::RailEvent& event) {
  if (std::exchange(popped_slot_, false)) reader_.OnSlotFreed();
  if (std::exchange(popped_large_control_, false)) reader_.OnLargeControlFreed();
  if (events_.Pop(event)) {
    popped_large_control_ = event.control != nullptr;
    popped_slot_ = event.kind == rail::RailEvent::Kind::kFrame && !event.payload.empty() &&
                   !popped_large_control_;
    return true;
  }
  // Pairs with Sleep: either this sees that the thread waits, or the thread sees the room.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (waits_for_room_.load(std::memory_order_relaxed)) bell_.Ring();
  // The thread was stopped during a driver's call and cannot report it. Its half-done work is ours
  // now.
  if (!is_stopped() || reported_down_.exchange(true)) return false;
  event = rail::RailEvent();
  event.kind = rail::RailEvent::Kind::kDown;
  event.abandoned = reader_.posted().Abandon();
  event.reason = "stopped";
  return true;
}

void RailThread::Finish() {
  if (!finish_.exchange(true)) finish_end_ns_ = platform::MonotonicNow() + 2 * kRailFinishNs;
  bell_.Ring();
}

// Either the thread sees the stop when its call returns, or this sees where the thread is.
void RailThread::Stop() {
  // The deadline is common to all rails that hang.
  while (place_.load() != Place::kGone && platform::MonotonicNow() < finish_end_ns_) {
    std::this_thread::sleep_for(kStopPause);
  }
  stop_.store(true, std::memory_order_seq_cst);
  bell_.Ring();
  while (place_.load(std::memory_order_seq_cst) == Place::kHere) {
    std::this_thread::sleep_for(kStopPause);
  }
  Silence();
  up_.store(false, std::memory_order_relaxed);
  observer_.reset();  // Its target may not outlive the rail.
  stopped_.store(true, std::memory_order_release);
}

// Invalidates posted messages that were not read yet. The first caller does it.
void RailThread::Silence() {
  if (!silenced_.exchange(true)) stream_.Void();
}

template <typename Call>
bool RailThread::AtDriver(Call call) {
  place_.store(Place::kAway, std::memory_order_seq_cst);
  call();
  place_.store(Place::kHere, std::memory_order_seq_cst);
  if (!is_stopped()) return true;
  place_.store(Place::kGone, std::memory_order_seq_cst);
  return false;
}

void RailThread::Run() {
  platform::RaiseThreadPriority();
  std::uint64_t idle_since = 0;
  bool goes_on = AtDriver([] {});
  while (goes_on && !down_ && !finish_.load(std::memory_order_relaxed)) {
    bool moved = Turn();
    goes_on = TakeCompletions(moved) && PostAll(moved) && DropRegions();
    if (!goes_on || down_) break;
    const std::uint64_t now = platform::MonotonicNow();
    if (moved) idle_since = now;
    // Large receives and sends exist only during their operation.
    const bool in_flight = reader_.posted().has_large() || writer_.holds_large();
    const std::uint64_t spin_ns =
        in_flight ? scheduling_.rail_in_flight_spin_ns : scheduling_.rail_spin_ns;
    if (now - idle_since >= spin_ns) goes_on = Sleep();
  }
  if (goes_on && !down_) SendTheRest();
  if (!is_stopped() && !down_) GoDown("stopped");
  place_.store(Place::kGone, std::memory_order_seq_cst);
  // The stopping thread may still be wiping messages, which is quick.
  while (is_stopped() && !stopped_.load(std::memory_order_acquire)) {
    std::this_thread::sleep_for(kStopPause);
  }
  pair_.reset();
  regions_.Clear();
}

// Returns false if the rail was stopped.
bool RailThread::DropRegions() {
  return !regions_.has_left() || AtDriver([this] { regions_.DropLeft(); });
}

bool RailThread::Turn() {
  const std::uint64_t now = platform::MonotonicNow();
  stream_.OnNow(now);
  regions_.Refresh(now);
  bool moved = ExecuteCommands();
  while (writer_.Write()) moved = true;
  moved = reader_.Read(0) || moved;
  stream_.OnTime();
  ReportTransmitted();
  if (reader_.has_ended()) GoDown(reader_.end_reason(), reader_.end_link_reason());
  return moved;
}

bool RailThread::TakeCompletions(bool& any) {
  std::array<Completion, kCompletionsATurn> completions;
  absl::StatusOr<std::size_t> count = 0;
  if (!AtDriver([&] { count = pair_->Poll(completions); })) return false;
  if (!count.ok()) {
    GoDown(std::string(count.status().message()));
    return true;
  }
  if (*count == 0) return true;
  any = true;
  now_ns_ = platform::MonotonicNow();
  stream_.OnNow(now_ns_);
  for (std::size_t i = 0; i < *count && !down_; ++i) TakeCompletion(completions[i]);
  lost_messages_.store(stream_.lost_messages(), std::memory_order_relaxed);
  return true;
}

void RailThread::TakeCompletion(const Completion& completion) {
  if (!pair_->HasSlot(completion.slot, completion.receive)) {
    return GoDown("the driver completed what was not posted");
  }
  if (!completion.ok) {
    return GoDown(
        absl::StrCat(completion.receive ? "a receive" : "a send", " failed: ", completion.what));
  }
  if (!completion.receive) return stream_.OnSent(completion.slot);
  received_ns_.store(now_ns_, std::memory_order_relaxed);
  if (!stream_.OnReceived(completion.slot, completion.bytes)) {
    GoDown("a message from another connection, or a corrupted one");
  }
}

// Receives first, so that the outgoing messages include their credit.
bool RailThread::PostAll(bool& any) {
  std::uint32_t slot = 0;
  MessageStream::Outgoing out;
  absl::Status status;
  while (!down_ && stream_.NextReceive(slot)) {
    any = true;
    if (!AtDriver([&] { status = pair_->PostReceive(slot); })) return false;
    if (!status.ok()) GoDown(std::string(status.message()));
    stream_.OnReceivePosted();
  }
  while (!down_ && stream_.NextSend(out)) {
    any = true;
    const bool goes_on = AtDriver([&] {
      status = out.from == nullptr
                   ? pair_->PostSend(out.slot, out.bytes)
                   : pair_->PostSendFrom(out.slot, *out.known->region, out.from, out.bytes);
    });
    if (!goes_on) return false;
    if (!status.ok()) GoDown(std::string(status.message()));
  }
  return true;
}

// Returns false if the rail was stopped.
bool RailThread::Sleep() {
  absl::Status status;
  if (!AtDriver([&] { status = pair_->Arm(); })) return false;
  if (!status.ok()) {
    GoDown(std::string(status.message()));
    return true;
  }
  // Completions from before Arm raise no event.
  bool any = false;
  if (!TakeCompletions(any)) return false;
  if (any || down_) return true;
  const bool has_room = reader_.HasRoom();
  if (has_room && (reader_.may_take_read_ahead() || reader_.may_read_unseen())) return true;
  if (has_room) {
    if (writer_.HasRoom() && !commands_.PrepareToSleep()) return true;
  } else {
    // The loop's next empty Pop rings; commands wait until then.
    waits_for_room_.store(true, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  pollfd waited[2] = {{bell_.descriptor(), POLLIN, 0}, {pair_->descriptor(), POLLIN, 0}};
  const int wait_ms = has_room ? SleepMs() : kPollMs;
  const bool goes_on = AtDriver([&] { ::poll(waited, 2, wait_ms); });
  if (has_room) commands_.WakeUp();
  waits_for_room_.store(false, std::memory_order_relaxed);
  if (goes_on && (waited[0].revents & POLLIN) != 0) bell_.Drain();
  return goes_on;
}

int RailThread::SleepMs() const {
  if (pair_->descriptor() < 0) return kPollMs;
  const std::uint64_t now = platform::MonotonicNow();
  const std::uint64_t due = stream_.deadline_ns();
  // The driver may hold everything that could be sent, so nothing can be done yet.
  if (now >= due) return kPollMs;
  return static_cast<int>(std::min((due - now) / 1'000'000 + 1, kSleepMsMax));
}

// Orderly stop: sends what was given, as much as the other side accepts in time.
void RailThread::SendTheRest() {
  const std::uint64_t end = platform::MonotonicNow() + kRailFinishNs;
  bool goes_on = true;
  while (goes_on && !down_ && platform::MonotonicNow() < end) {
    stream_.OnNow(platform::MonotonicNow());
    bool moved = ExecuteCommands();
    while (writer_.Write()) moved = true;
    stream_.OnTime();
    goes_on = TakeCompletions(moved) && PostAll(moved);
    if (!moved && writer_.is_empty() && stream_.is_drained()) return;
    pollfd waited = {bell_.descriptor(), POLLIN, 0};
    if (goes_on && !moved) goes_on = AtDriver([&] { ::poll(&waited, 1, kPollMs); });
  }
}

bool RailThread::ExecuteCommands() {
  return rail::ExecuteCommands(commands_, writer_, reader_, *this,
                               finish_.load(std::memory_order_relaxed));
}

// Used if no other event carries the count.
void RailThread::ReportTransmitted() {
  writer_.CollectReleased();
  if (writer_.transmitted() == 0 || !HasRoomForEvent()) return;
  rail::RailEvent event;
  event.kind = rail::RailEvent::Kind::kTransmitted;
  Emit(std::move(event));
}

// The caller has checked for room (kEventsKept).
void RailThread::Emit(rail::RailEvent&& event) {
  event.transmitted = writer_.TakeTransmitted();
  const bool has_room = events_.Push(std::move(event));
  MLXCOMM_INVARIANT(has_room);
  WakeLoop();
}

void RailThread::WakeLoop() {
  if (events_.ConsumerSleeps()) loop_bell_.Ring();
}

void RailThread::GoDown(std::string reason, LinkReason link_reason) {
  if (std::exchange(down_, true) || reported_down_.exchange(true)) return;
  Silence();
  up_.store(false, std::memory_order_relaxed);
  rail::RailEvent event;
  event.kind = rail::RailEvent::Kind::kDown;
  event.cause = rail::DownCause::kCut;
  event.abandoned = reader_.posted().Abandon();
  event.reason = std::move(reason);
  event.link_reason = link_reason;
  Emit(std::move(event));
}

}  // namespace mlxcomm::rdma
