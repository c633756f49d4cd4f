#include "daemon/rail/tcp/tcp_rail.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstddef>
#include <system_error>

#include "daemon/platform/machine.h"
#include "daemon/platform/power.h"
#include "daemon/rail/tcp/tcp_socket.h"
#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::rail {
namespace {

// While busy, the thread wakes the loop after this much data or this many written frames.
constexpr std::uint64_t kUnreportedBytesMax = 512 * 1024;
constexpr std::uint32_t kUnreportedFramesMax = 8;
// Reads per poll: enough for a frame that is not large, and what comes with it.
constexpr int kPollTurns = 3;
// Smaller changes of the rate are ignored.
constexpr double kMuchSlower = 0.75;
constexpr double kMuchFaster = 1.25;
// An orderly end may take this long if the peer does not read.
constexpr std::uint64_t kFinishNs = 500'000'000;
// A rail that has ended waits this long for the rest of a frame to be written.
constexpr std::uint64_t kReportEndNs = 200'000'000;

int MillisecondsUntil(std::uint64_t deadline_ns) {
  const std::uint64_t now = platform::MonotonicNow();
  return now >= deadline_ns ? 0 : static_cast<int>((deadline_ns - now) / 1'000'000 + 1);
}

}  // namespace

absl::StatusOr<std::unique_ptr<TcpRail>> TcpRail::Create(
    FileDescriptor socket, std::string local_address, std::string remote_address,
    const queue::SchedulingPolicy& scheduling, platform::Wakeup& loop_bell,
    SocketWatches::Handle watch, std::unique_ptr<ByteStream> stream) {
  absl::StatusOr<platform::Wakeup> bell = platform::Wakeup::Create();
  if (!bell.ok()) return bell.status();
  SetUpSocket(socket.get());
  if (stream == nullptr) stream = std::make_unique<PlainStream>();
  return std::unique_ptr<TcpRail>(
      new TcpRail(std::move(socket), std::move(local_address), std::move(remote_address),
                  scheduling, loop_bell, *std::move(bell), std::move(watch), std::move(stream)));
}

absl::Status TcpRail::Start(bool resumed, ArrivalClaims& claims) {
  ShareClaims(resumed, claims);
  if (may_change_driver_ && !IsForThread()) driver_.store(Driver::kLoop, std::memory_order_release);
  if (!LoopDrives()) {
    if (absl::Status status = StartThread(); !status.ok()) return status;
  }
  started_ = true;
  return absl::OkStatus();
}

absl::Status TcpRail::StartThread() {
  if (thread_.joinable()) return absl::OkStatus();
  try {
    thread_ = std::thread([this] { Run(); });
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(std::string("no thread for the rail: ") + error.what());
  }
  return absl::OkStatus();
}

// After a failure, the first large frame tries again and reports it.
void TcpRail::Prepare() {
  if (scheduling_.loop_drives_all || thread_.joinable() || ends_ || down_) return;
  (void)StartThread();
}

// The store in Stop or Finish notifies the thread that it is the driver.
void TcpRail::StopDriving() {
  ends_ = true;
  if (watch_ != nullptr) watch_->Close();
}

// Each rail has a thread for its orderly end, so that these run in parallel.
void TcpRail::Finish() {
  StopDriving();
  finish_.store(true, std::memory_order_relaxed);
  stop_.store(true, std::memory_order_release);
  if (!started_) return;
  if (thread_.joinable() || (!down_ && StartThread().ok())) bell_.Ring();
}

void TcpRail::Stop() {
  StopDriving();
  stop_.store(true, std::memory_order_release);
  if (thread_.joinable()) {
    bell_.Ring();
    thread_.join();
  } else if (started_) {
    End();
  }
  up_.store(false, std::memory_order_relaxed);
}

std::shared_ptr<void> TcpRail::KeepEnd() {
  return socket_.valid() ? std::make_shared<FileDescriptor>(std::move(socket_)) : nullptr;
}

bool TcpRail::Give(const RailCommand& command) {
  const bool given = Push(command);
  if (LoopDrives()) {
    OnGiven(command);
  } else {
    WakeDriver(command, given);
  }
  return given;
}

bool TcpRail::Pop(RailEvent& event) {
  FreePopped();
  // One poll per turn; the turn ends when there is nothing to pop.
  if (LoopDrives() && events_.IsEmpty() && !std::exchange(polled_, true)) LoopTurn();
  if (PopEvent(event)) return true;
  polled_ = false;
  return false;
}

void TcpRail::Describe(v1::RailStatus& status) const {
  status.set_local_address(local_address_);
  status.set_remote_address(remote_address_);
  status.set_security(is_encrypted() ? "tls" : "plain");
}

void TcpRail::OnRate(double bytes_per_second, std::uint64_t round_trip_ns) {
  round_trip_ns_.store(round_trip_ns, std::memory_order_relaxed);
  rate_.store(bytes_per_second, std::memory_order_relaxed);
}

void TcpRail::FitToRate() {
  const double rate = rate_.load(std::memory_order_relaxed);
  if (rate < fitted_rate_ * kMuchSlower || rate > fitted_rate_ * kMuchFaster) {
    fitted_rate_ = rate;
    fitted_ =
        FitSendBuffer(socket_.get(), rate, round_trip_ns_.load(std::memory_order_relaxed), fitted_);
  }
}

// Only the driver may touch the socket, which may be closed.
std::optional<HeldBytes> TcpRail::held() const {
  if (LoopDrives()) {
    if (down_) return std::nullopt;
    const std::optional<std::uint64_t> bytes = UnacknowledgedBytes(socket_.get());
    if (!bytes) return std::nullopt;
    return HeldBytes{*bytes, platform::MonotonicNow()};
  }
  if (!held_asked_.load(std::memory_order_relaxed)) {
    held_asked_.store(true, std::memory_order_relaxed);
  }
  const std::uint64_t at_ns = held_at_ns_.load(std::memory_order_relaxed);
  if (at_ns == 0) return std::nullopt;
  return HeldBytes{held_bytes_.load(std::memory_order_relaxed), at_ns};
}

// Only after the first held() call: a link that never had a second rail makes none.
void TcpRail::UpdateHeld() {
  if (!held_asked_.load(std::memory_order_relaxed)) return;
  const std::optional<std::uint64_t> bytes = UnacknowledgedBytes(socket_.get());
  held_bytes_.store(bytes.value_or(0), std::memory_order_relaxed);
  held_at_ns_.store(bytes ? platform::MonotonicNow() : 0, std::memory_order_relaxed);
}

bool TcpRail::PrepareToSleep() {
  if (LoopDrives()) {
    const bool waits = events_.IsEmpty() && writer_.transmitted() == 0 &&
                       !reader_.may_take_read_ahead() && !reader_.has_unseen() && watch_->is_open();
    const bool all_given = commands_.IsEmpty() && writer_.is_empty();
    if (!waits || (!all_given && !writer_.is_blocked())) return false;
    WatchSocket();
  }
  if (!events_.PrepareToSleep()) return false;
  // The thread may just have stopped driving: either it sees that we sleep, or we see that it
  // stopped.
  if (!LoopDrives() || watch_->is_armed()) return true;
  events_.WakeUp();
  return false;
}

// Waits until the socket is readable, or writable if something is unsent.
void TcpRail::WatchSocket() {
  polls_ = false;
  empty_polls_ = 0;
  watch_->Arm();
  if (IsStuck()) watch_->ArmForWriting();
}

void TcpRail::HandOver() {
  watch_->Close();
  wrote_ = false;
  if (const absl::Status status = StartThread(); !status.ok()) {
    return GoDown(DownCause::kCut, std::string(status.message()));
  }
  driver_.store(Driver::kThread, std::memory_order_release);
  bell_.Ring();
}

// Eager and large frames go out with the next poll, because fewer system calls are cheaper. The
// first other frame goes out at once: the peer may wait for a grant in the middle of its data.
void TcpRail::OnGiven(const RailCommand& command) {
  if (down_) return;
  polls_ = true;  // Expects an answer.
  ExecuteCommands();
  if (IsTooHeavy()) return HandOver();
  const bool is_eager = command.kind == RailCommand::Kind::kTransmit &&
                        command.frame.header.type == wire::FrameType::kEager;
  if (is_eager || writer_.holds_large() || std::exchange(wrote_, true)) return;
  writer_.Write();
  if (IsForThread()) HandOver();
}

void TcpRail::LoopTurn() {
  if (down_) return;
  if (!watch_->is_open()) {
    polls_ = true;  // Not polled while the thread was the driver.
    if (!watch_->Open(socket_.get())) {
      may_change_driver_ = false;
      return HandOver();
    }
  }
  if (watch_->TakeReady()) polls_ = true;
  wrote_ = false;
  FitToRate();
  ExecuteCommands();
  if (IsTooHeavy()) return HandOver();
  if (polls_ || !writer_.is_blocked()) writer_.Write();
  if (polls_ || writer_.error() != 0) PollSocket();
  // After HandOver, the driver's data belongs to the thread.
  if (!LoopDrives() || down_) return;
  ReportTransmitted();
  if (IsForThread()) HandOver();
}

void TcpRail::PollSocket() {
  const std::uint64_t before = reader_.received_bytes() + writer_.sent_bytes();
  const std::uint64_t read_before = reader_.received_bytes();
  reader_.Read(writer_.error(), kPollTurns);
  if (reader_.has_ended()) {
    // The thread waits until the socket takes it.
    if (reader_.should_report_end() && writer_.SendGivenUp(reader_.end_link_reason()))
      return HandOver();
    watch_->Close();
    return GoDown(reader_.end_cause(), reader_.end_reason(), reader_.end_link_reason());
  }
  writer_.Write();  // An echo.
  const bool too_much = reader_.received_bytes() - read_before > kPollBytesMax;
  if (!scheduling_.loop_drives_all && too_much) return HandOver();
  const bool moved = reader_.received_bytes() + writer_.sent_bytes() > before;
  empty_polls_ = moved ? 0 : empty_polls_ + 1;
  if (empty_polls_ >= kEmptyPollsMax && !reader_.has_unseen()) WatchSocket();
}

void TcpRail::Run() {
  platform::RaiseThreadPriority();
  std::uint64_t idle_since = 0;
  while (!stop_.load(std::memory_order_acquire)) {
    if (driver_.load(std::memory_order_acquire) == Driver::kLoop) {
      Park();
      idle_since = 0;
      continue;
    }
    if (down_) break;
    if (Turn()) {
      idle_since = 0;
      continue;
    }
    if (down_) break;
    const std::uint64_t now = platform::MonotonicNow();
    if (idle_since == 0) idle_since = now;
    if (now - idle_since < scheduling_.rail_spin_ns) continue;
    if (may_change_driver_ && IsQuiet(now)) {
      // The thread's last access to the driver's data.
      driver_.store(Driver::kLoop, std::memory_order_release);
      if (events_.ConsumerSleeps()) loop_bell_.Ring();
    } else {
      Sleep();
    }
  }
  End();
}

void TcpRail::End() {
  if (!down_ && finish_.load(std::memory_order_relaxed)) SendRemaining();
  if (!down_) GoDown(DownCause::kCut, "stopped");
}

bool TcpRail::Turn() {
  FitToRate();
  bool moved = ExecuteCommands();
  const bool wrote = writer_.Write();
  moved = wrote || moved;
  if (wrote || writer_.is_blocked()) UpdateHeld();
  moved = reader_.Read(writer_.error()) || moved;
  if (reader_.has_ended()) {
    EndByReader();
    return false;
  }
  if (moved && writer_.transmitted() < kUnreportedFramesMax) return true;
  ReportTransmitted();
  if (!moved && unreported_bytes_ > 0) WakeLoop();
  return moved;
}

// Within a frame, this side cannot send the reason; then the peer finds the silence.
void TcpRail::EndByReader() {
  const std::uint64_t deadline = platform::MonotonicNow() + kReportEndNs;
  pollfd waited[2] = {{socket_.get(), POLLOUT, 0}, {bell_.descriptor(), POLLIN, 0}};
  while (reader_.should_report_end() && writer_.SendGivenUp(reader_.end_link_reason()) &&
         !stop_.load(std::memory_order_acquire) && platform::MonotonicNow() < deadline) {
    ::poll(waited, 2, MillisecondsUntil(deadline));
    if ((waited[1].revents & POLLIN) != 0) bell_.Drain();
  }
  GoDown(reader_.end_cause(), reader_.end_reason(), reader_.end_link_reason());
}

void TcpRail::Park() {
  while (!stop_.load(std::memory_order_acquire) &&
         driver_.load(std::memory_order_acquire) == Driver::kLoop) {
    pollfd bell = {bell_.descriptor(), POLLIN, 0};
    ::poll(&bell, 1, -1);
    bell_.Drain();
  }
  quiet_since_ns_ = platform::MonotonicNow();
  quiet_bytes_ = writer_.sent_bytes() + reader_.received_bytes();
}

bool TcpRail::IsQuiet(std::uint64_t now_ns) {
  const std::uint64_t bytes = writer_.sent_bytes() + reader_.received_bytes();
  const bool busy = IsHeavy() || IsStuck() || writer_.transmitted() > 0 ||
                    !reader_.is_between_frames() || bytes - quiet_bytes_ > kQuietBytes;
  if (!busy) return now_ns - quiet_since_ns_ >= kQuietNs;
  quiet_since_ns_ = now_ns;
  quiet_bytes_ = bytes;
  return false;
}

void TcpRail::Sleep() {
  const bool has_room = reader_.HasRoom();
  // Room has appeared since, and nothing will wake us for what was read ahead or not yet reported.
  if (has_room && (reader_.may_take_read_ahead() || writer_.transmitted() > 0)) return;
  if (reader_.may_read_unseen()) return;
  if (has_room) {
    // Otherwise commands wait until the socket has taken some frames.
    if (writer_.HasRoom() && !commands_.PrepareToSleep()) return;
  } else {
    // The loop's next empty Pop rings; commands wait until then.
    waits_for_room_.store(true, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (reader_.HasRoom()) {
      waits_for_room_.store(false, std::memory_order_relaxed);
      return;
    }
  }
  pollfd waited[2] = {{socket_.get(), 0, 0}, {bell_.descriptor(), POLLIN, 0}};
  if (reader_.MayRead()) waited[0].events |= POLLIN;
  if (writer_.WantsToWrite()) waited[0].events |= POLLOUT;
  // poll() keeps reporting the end of a socket even without events.
  if (waited[0].events == 0) waited[0].fd = -1;
  constexpr int kSafetyNetMs = 100;
  ::poll(waited, 2, has_room ? SleepMs() : kSafetyNetMs);
  if (has_room) commands_.WakeUp();
  waits_for_room_.store(false, std::memory_order_relaxed);
  if ((waited[1].revents & POLLIN) != 0) bell_.Drain();
}

int TcpRail::SleepMs() const {
  if (!may_change_driver_ || IsHeavy() || IsStuck() || !reader_.is_between_frames()) return -1;
  return MillisecondsUntil(quiet_since_ns_ + kQuietNs);
}

// An orderly end: sends what was given; then the peer reads to the end and closes.
void TcpRail::SendRemaining() {
  const std::uint64_t deadline = platform::MonotonicNow() + kFinishNs;
  pollfd waited = {socket_.get(), POLLOUT, 0};
  for (;;) {
    bool moved = ExecuteCommands();
    moved = writer_.Write() || moved;
    if (writer_.error() != 0) return;
    if (!moved && writer_.is_empty()) break;
    if (!moved && ::poll(&waited, 1, MillisecondsUntil(deadline)) == 0) return;
    if (platform::MonotonicNow() >= deadline) return;
  }
  stream_->End(socket_.get());
  ::shutdown(socket_.get(), SHUT_WR);
  waited.events = POLLIN;
  // A peer that keeps sending gets no more time than a silent one.
  std::byte discarded[4096];
  while (platform::MonotonicNow() < deadline &&
         ::poll(&waited, 1, MillisecondsUntil(deadline)) > 0) {
    const ssize_t got = ::recv(socket_.get(), discarded, sizeof discarded, MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return;
  }
}

void TcpRail::OnHeartbeat(const wire::FrameHeader& heartbeat) {
  if (heartbeat.flags == wire::kProveAgain) {
    asked_for_new_proof_.store(true, std::memory_order_relaxed);
  }
  writer_.Echo(heartbeat);
}

void TcpRail::OnEvent(RailEvent&& event) {
  const bool may_wait =
      event.kind == RailEvent::Kind::kFrame && event.header.type == wire::FrameType::kData;
  unreported_bytes_ += event.header.payload_bytes;
  PushEvent(std::move(event));
  if (!may_wait || unreported_bytes_ >= kUnreportedBytesMax) WakeLoop();
}

void TcpRail::WakeLoop() {
  unreported_bytes_ = 0;
  RingLoop();
}

void TcpRail::GoDown(DownCause cause, std::string reason, LinkReason link_reason) {
  if (std::exchange(down_, true)) return;
  up_.store(false, std::memory_order_relaxed);
  const bool finishes = finish_.load(std::memory_order_relaxed);
  if (!finishes) {
    // A failure: the kernel must not keep sending for minutes.
    const linger at_once{1, 0};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  }
  // Otherwise KeepEnd uses it.
  if (finishes || cause != DownCause::kCut) socket_.Reset();
  ReportDown(cause, std::move(reason), link_reason);
}

}  // namespace mlxcomm::rail
