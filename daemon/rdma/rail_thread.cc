#include "daemon/rdma/rail_thread.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <system_error>
#include <thread>
#include <utility>

#include "daemon/platform/machine.h"
#include "daemon/platform/power.h"
#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::rdma {
namespace {

constexpr std::size_t kCompletionsATurn = 32;
constexpr std::uint64_t kSleepMsMax = 1000;
constexpr std::uint64_t kRailFinishNs = 500'000'000;
constexpr auto kStopPause = std::chrono::microseconds(20);

std::unique_ptr<MessageStream> StreamOver(const ReadyPair& ready, SendRegions& regions) {
  const std::span<std::byte> first = ready.pair->Slot(0);
  const MessageStream::Shape shape{first.data(),
                                   static_cast<std::uint32_t>(first.size()),
                                   ready.pair->messages(),
                                   ready.peer_receives,
                                   ready.connection,
                                   &regions,
                                   ready.service == Service::kReliable};
  return std::make_unique<MessageStream>(shape, platform::MonotonicNow());
}

}  // namespace

// The stream only keeps the address of regions_, which is made after it.
RailThread::RailThread(ReadyPair ready, platform::Wakeup bell, platform::Wakeup& loop_bell)
    : FrameMover(FileDescriptor(), StreamOver(ready, regions_), std::move(bell), loop_bell),
      ready_(std::move(ready)),
      received_ns_(platform::MonotonicNow()),
      regions_(ready_.regions),
      messages_(static_cast<MessageStream&>(*stream_)) {}

bool RailThread::Give(const rail::RailCommand& command) {
  const bool given = Push(command);
  WakeDriver(command, given);
  return given;
}

bool RailThread::Pop(rail::RailEvent& event) {
  FreePopped();
  if (PopEvent(event)) return true;
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
  if (!silenced_.exchange(true)) messages_.Void();
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
        in_flight ? ready_.scheduling.rail_in_flight_spin_ns : ready_.scheduling.rail_spin_ns;
    if (now - idle_since >= spin_ns) goes_on = Sleep();
  }
  if (goes_on && !down_) SendTheRest();
  if (!is_stopped() && !down_) GoDown("stopped");
  place_.store(Place::kGone, std::memory_order_seq_cst);
  // The stopping thread may still be wiping messages, which is quick.
  while (is_stopped() && !stopped_.load(std::memory_order_acquire)) {
    std::this_thread::sleep_for(kStopPause);
  }
  ready_.pair.reset();
  regions_.Clear();
}

// Returns false if the rail was stopped.
bool RailThread::DropRegions() {
  return !regions_.has_left() || AtDriver([this] { regions_.DropLeft(); });
}

bool RailThread::Turn() {
  const std::uint64_t now = platform::MonotonicNow();
  messages_.OnNow(now);
  regions_.Refresh(now);
  bool moved = ExecuteCommands();
  while (writer_.Write()) moved = true;
  moved = reader_.Read(0) || moved;
  messages_.OnTime();
  ReportTransmitted();
  if (reader_.has_ended()) GoDown(reader_.end_reason(), reader_.end_link_reason());
  return moved;
}

bool RailThread::TakeCompletions(bool& any) {
  std::array<Completion, kCompletionsATurn> completions;
  absl::StatusOr<std::size_t> count = 0;
  if (!AtDriver([&] { count = ready_.pair->Poll(completions); })) return false;
  if (!count.ok()) {
    GoDown(std::string(count.status().message()));
    return true;
  }
  if (*count == 0) return true;
  any = true;
  now_ns_ = platform::MonotonicNow();
  messages_.OnNow(now_ns_);
  for (std::size_t i = 0; i < *count && !down_; ++i) TakeCompletion(completions[i]);
  lost_messages_.store(messages_.lost_messages(), std::memory_order_relaxed);
  return true;
}

void RailThread::TakeCompletion(const Completion& completion) {
  if (!ready_.pair->HasSlot(completion.slot, completion.receive)) {
    return GoDown("the driver completed what was not posted");
  }
  if (!completion.receive) return messages_.OnSent(completion.slot);
  received_ns_.store(now_ns_, std::memory_order_relaxed);
  if (!messages_.OnReceived(completion.slot, completion.bytes)) {
    GoDown("a message from another connection, or a corrupted one");
  }
}

// Receives first, so that the outgoing messages include their credit.
bool RailThread::PostAll(bool& any) {
  std::uint32_t slot = 0;
  MessageStream::Outgoing out;
  absl::Status status;
  while (!down_ && messages_.NextReceive(slot)) {
    any = true;
    if (!AtDriver([&] { status = ready_.pair->PostReceive(slot); })) return false;
    if (!status.ok()) GoDown(std::string(status.message()));
    messages_.OnReceivePosted();
  }
  while (!down_ && messages_.NextSend(out)) {
    any = true;
    const bool goes_on = AtDriver([&] {
      status = out.from == nullptr
                   ? ready_.pair->PostSend(out.slot, out.bytes)
                   : ready_.pair->PostSendFrom(out.slot, *out.known->region, out.from, out.bytes);
    });
    if (!goes_on) return false;
    if (!status.ok()) GoDown(std::string(status.message()));
  }
  return true;
}

// Returns false if the rail was stopped.
bool RailThread::Sleep() {
  absl::Status status;
  if (!AtDriver([&] { status = ready_.pair->Arm(); })) return false;
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
  pollfd waited[2] = {{bell_.descriptor(), POLLIN, 0}, {ready_.pair->descriptor(), POLLIN, 0}};
  const int wait_ms = has_room ? SleepMs() : kPollMs;
  const bool goes_on = AtDriver([&] { ::poll(waited, 2, wait_ms); });
  if (has_room) commands_.WakeUp();
  waits_for_room_.store(false, std::memory_order_relaxed);
  if (goes_on && (waited[0].revents & POLLIN) != 0) bell_.Drain();
  return goes_on;
}

int RailThread::SleepMs() const {
  if (ready_.pair->descriptor() < 0) return kPollMs;
  const std::uint64_t now = platform::MonotonicNow();
  const std::uint64_t due = messages_.deadline_ns();
  // The driver may hold everything that could be sent, so nothing can be done yet.
  if (now >= due) return kPollMs;
  return static_cast<int>(std::min((due - now) / 1'000'000 + 1, kSleepMsMax));
}

// Orderly stop: sends what was given, as much as the other side accepts in time.
void RailThread::SendTheRest() {
  const std::uint64_t end = platform::MonotonicNow() + kRailFinishNs;
  bool goes_on = true;
  while (goes_on && !down_ && platform::MonotonicNow() < end) {
    messages_.OnNow(platform::MonotonicNow());
    bool moved = ExecuteCommands();
    while (writer_.Write()) moved = true;
    messages_.OnTime();
    goes_on = TakeCompletions(moved) && PostAll(moved);
    if (!moved && writer_.is_empty() && messages_.is_drained()) return;
    pollfd waited = {bell_.descriptor(), POLLIN, 0};
    if (goes_on && !moved) goes_on = AtDriver([&] { ::poll(&waited, 1, kPollMs); });
  }
}

void RailThread::OnEvent(rail::RailEvent&& event) {
  PushEvent(std::move(event));
  RingLoop();
}

void RailThread::GoDown(std::string reason, LinkReason link_reason) {
  if (std::exchange(down_, true) || reported_down_.exchange(true)) return;
  Silence();
  up_.store(false, std::memory_order_relaxed);
  ReportDown(rail::DownCause::kCut, std::move(reason), link_reason);
}

void RailThread::Describe(v1::RailStatus& status) const {
  status.set_local_address(ready_.local_address);
  status.set_remote_address(ready_.remote_address);
  status.set_security("plain");
  status.set_copied_bytes(messages_.copied_bytes());
  status.set_direct_bytes(messages_.direct_bytes());
  status.set_service(is_reliable() ? "RC" : "UC");
  status.set_lost_messages(lost_messages_.load(std::memory_order_relaxed));
  if (ready_.regions == nullptr) return;
  status.set_arena_regions(ready_.regions->regions());
  status.set_arena_regions_max(ready_.regions->regions_max());
}

absl::StatusOr<std::unique_ptr<RdmaRail>> RdmaRail::Create(ReadyPair& ready,
                                                           platform::Wakeup& loop_bell) {
  absl::StatusOr<platform::Wakeup> bell = platform::Wakeup::Create();
  if (!bell.ok()) return bell.status();
  return std::unique_ptr<RdmaRail>(
      new RdmaRail(std::make_shared<RailThread>(std::move(ready), *std::move(bell), loop_bell)));
}

// The queue pair of a rail that was never started is still here, and destroying it calls the
// driver.
RdmaRail::~RdmaRail() {
  Stop();
  if (started_) return;
  auto kept = std::make_unique<std::shared_ptr<RailThread>>(std::move(thread_));
  try {
    std::thread([kept = kept.get()] { delete kept; }).detach();
  } catch (const std::system_error&) {  // NOLINT(bugprone-empty-catch): see below.
    // Leak it: this thread must not call the driver, and the number of leaked pairs is limited.
  }
  static_cast<void>(kept.release());
}

// The thread is detached, because joining it could wait for the driver.
absl::Status RdmaRail::Start(bool resumed, rail::ArrivalClaims& claims) {
  thread_->ShareClaims(resumed, claims);
  try {
    std::thread([thread = thread_] { thread->Run(); }).detach();
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(std::string("no thread for the rail: ") + error.what());
  }
  started_ = true;
  return absl::OkStatus();
}

void RdmaRail::Stop() {
  if (started_) thread_->Stop();
}

}  // namespace mlxcomm::rdma
