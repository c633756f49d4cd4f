#include "daemon/rail/tcp/tcp_rail.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstddef>
#include <system_error>

#include "daemon/platform/machine.h"
#include "daemon/platform/power.h"
#include "daemon/rail/rail_commands.h"
#include "daemon/rail/tcp/tcp_socket.h"
#include "mlxcomm/v1/diagnostics.pb.h"
#include "proto/types/invariant.h"

namespace mlxcomm::rail {
namespace {

// While it is busy, the loop is woken after this much data, or this many frames written.
constexpr std::uint64_t kUntoldBytesMax = 512 * 1024;
constexpr std::uint32_t kUntoldFramesMax = 8;
// How often the loop reads at one look: a frame that is not large, and what comes with it.
constexpr int kLookTurns = 3;
// Smaller changes of the rate than these are left alone.
constexpr double kMuchSlower = 0.75;
constexpr double kMuchFaster = 1.25;
// How long an orderly end may take when the other side does not read.
constexpr std::uint64_t kFinishNs = 500'000'000;
// How long a rail that has ended waits until the rest of a frame has been written.
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

void TcpRail::Observe(std::unique_ptr<RailObserver> observer) {
  observer_ = std::move(observer);
  writer_.Observe(observer_.get());
  reader_.Observe(observer_.get());
}

absl::Status TcpRail::Start(bool resumed, ArrivalClaims& claims) {
  reader_.posted().ShareClaims(claims);
  if (resumed) reader_.posted().DoNotKnowAllWithdrawn();
  if (may_change_hands_ && !IsForThread()) driver_.store(Driver::kLoop, std::memory_order_release);
  if (!LoopDrives()) {
    if (absl::Status status = StartThread(); !status.ok()) return status;
  }
  started_ = true;
  return absl::OkStatus();
}

// The loop's thread.
absl::Status TcpRail::StartThread() {
  if (thread_.joinable()) return absl::OkStatus();
  try {
    thread_ = std::thread([this] { Run(); });
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(std::string("no thread for the rail: ") + error.what());
  }
  return absl::OkStatus();
}

// If there can be none now, the first large frame tries again, and says so.
void TcpRail::Prepare() {
  if (scheduling_.loop_drives_all || thread_.joinable() || ends_ || down_) return;
  (void)StartThread();
}

// What Stop and Finish store tells the thread that it drives.
void TcpRail::DriveNoMore() {
  ends_ = true;
  if (watch_ != nullptr) watch_->Close();
}

// Rails send their last words side by side, so each has a thread for it.
void TcpRail::Finish() {
  DriveNoMore();
  finish_.store(true, std::memory_order_relaxed);
  stop_.store(true, std::memory_order_release);
  if (!started_) return;
  if (thread_.joinable() || (!down_ && StartThread().ok())) bell_.Ring();
}

void TcpRail::Stop() {
  DriveNoMore();
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
  const bool given = commands_.Push(RailCommand(command));
  if (LoopDrives()) {
    TakeGiven(command);
    return given;
  }
  const bool may_wait = given && command.kind == RailCommand::Kind::kForgetCompleted;
  if (!may_wait && commands_.ConsumerSleeps()) bell_.Ring();
  return given;
}

bool TcpRail::Pop(RailEvent& event) {
  if (std::exchange(popped_slot_, false)) reader_.OnSlotFreed();
  if (std::exchange(popped_large_control_, false)) reader_.OnLargeControlFreed();
  // One look a turn, which ends when there is nothing to pop.
  if (LoopDrives() && events_.IsEmpty() && !std::exchange(looked_, true)) Look();
  if (events_.Pop(event)) {
    popped_large_control_ = event.control != nullptr;
    popped_slot_ =
        event.kind == RailEvent::Kind::kFrame && !event.payload.empty() && !popped_large_control_;
    return true;
  }
  looked_ = false;
  // The other half is in Sleep: either we see that it waits, or it sees the room.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (waits_for_room_.load(std::memory_order_relaxed)) bell_.Ring();
  return false;
}

RailFigures TcpRail::figures() const {
  return {up_.load(std::memory_order_relaxed),
          writer_.sent_bytes(),
          reader_.received_bytes(),
          reader_.round_trip_ns(),
          reader_.round_trip_ns_min(),
          reader_.round_trips()};
}

void TcpRail::Describe(v1::RailStatus& status) const {
  status.set_local_address(local_address_);
  status.set_remote_address(remote_address_);
  status.set_security(is_encrypted() ? "tls" : "plain");
}

// The thread that drives reads it at its next turn.
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

// Only the thread that drives may touch the socket: it may be closed at its end.
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

// From when somebody has asked first: a link that never had another rail does not.
void TcpRail::LookAtHeld() {
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
  // The thread may have given it up just now: either it sees that we sleep, or we see that.
  if (!LoopDrives() || watch_->is_armed()) return true;
  events_.WakeUp();
  return false;
}

// It says when there is something to read, or when what waits may be written.
void TcpRail::WatchSocket() {
  looks_ = false;
  empty_looks_ = 0;
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

// Eager frames, of which an operation gives several, go out with the next look, and large ones:
// the more the system takes at once, the less it costs. Of others the first one goes out at once,
// for a grant may be what the other side waits for in the middle of its data (a pair of nodes at
// 10 Gb/s would lose a tenth of its rate).
void TcpRail::TakeGiven(const RailCommand& command) {
  if (down_) return;
  looks_ = true;  // It will be answered.
  ObeyCommands();
  if (IsTooHeavy()) return HandOver();
  const bool is_eager = command.kind == RailCommand::Kind::kTransmit &&
                        command.frame.header.type == wire::FrameType::kEager;
  if (is_eager || writer_.holds_large() || std::exchange(wrote_, true)) return;
  writer_.Write();
  if (IsForThread()) HandOver();
}

void TcpRail::Look() {
  if (down_) return;
  if (!watch_->is_open()) {
    looks_ = true;  // Nobody has looked since the thread did.
    if (!watch_->Open(socket_.get())) {
      may_change_hands_ = false;
      return HandOver();
    }
  }
  if (watch_->TakeReady()) looks_ = true;
  wrote_ = false;
  FitToRate();
  ObeyCommands();
  if (IsTooHeavy()) return HandOver();
  if (looks_ || !writer_.is_blocked()) writer_.Write();
  if (looks_ || writer_.error() != 0) LookAtSocket();
  // It may have been too much: then nothing of the driver's is to be touched any more.
  if (!LoopDrives() || down_) return;
  ReportTransmitted();
  if (IsForThread()) HandOver();
}

void TcpRail::LookAtSocket() {
  const std::uint64_t before = reader_.received_bytes() + writer_.sent_bytes();
  const std::uint64_t read_before = reader_.received_bytes();
  reader_.Read(writer_.error(), kLookTurns);
  if (reader_.has_ended()) {
    // The thread waits until the socket has taken it.
    if (reader_.should_report_end() && writer_.SendGivenUp(reader_.end_link_reason()))
      return HandOver();
    watch_->Close();
    return GoDown(reader_.end_cause(), reader_.end_reason(), reader_.end_link_reason());
  }
  writer_.Write();  // An echo.
  const bool too_much = reader_.received_bytes() - read_before > kLookBytesMax;
  if (!scheduling_.loop_drives_all && too_much) return HandOver();
  const bool moved = reader_.received_bytes() + writer_.sent_bytes() > before;
  empty_looks_ = moved ? 0 : empty_looks_ + 1;
  if (empty_looks_ >= kEmptyLooksMax && !reader_.has_unseen()) WatchSocket();
}

void TcpRail::Run() {
  platform::ServeWhoWaits();
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
    if (may_change_hands_ && IsQuiet(now)) {
      // The last thing the thread does with what is the driver's.
      driver_.store(Driver::kLoop, std::memory_order_release);
      if (events_.ConsumerSleeps()) loop_bell_.Ring();
    } else {
      Sleep();
    }
  }
  End();
}

// The last driver.
void TcpRail::End() {
  if (!down_ && finish_.load(std::memory_order_relaxed)) SendTheRest();
  if (!down_) GoDown(DownCause::kCut, "stopped");
}

// True: anything moved.
bool TcpRail::Turn() {
  FitToRate();
  bool moved = ObeyCommands();
  const bool wrote = writer_.Write();
  moved = wrote || moved;
  if (wrote || writer_.is_blocked()) LookAtHeld();
  moved = reader_.Read(writer_.error()) || moved;
  if (reader_.has_ended()) {
    EndByReader();
    return false;
  }
  if (moved && writer_.transmitted() < kUntoldFramesMax) return true;
  ReportTransmitted();
  if (!moved && unreported_bytes_ > 0) WakeLoop();
  return moved;
}

// In the middle of a frame this side cannot say why. The other side reads on, unless the way to it is lost as
// well; then it finds the silence.
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

// The loop drives.
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
  // Room has come since the last look: nobody will call for what is read already, nor for
  // what has been written and could not be reported.
  if (has_room && (reader_.may_take_read_ahead() || writer_.transmitted() > 0)) return;
  if (reader_.may_read_unseen()) return;
  if (has_room) {
    // Else they wait until the socket has taken some of what was given earlier.
    if (writer_.HasRoom() && !commands_.PrepareToSleep()) return;
  } else {
    // The loop's next empty Pop rings; commands wait until then as well.
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
  // A socket that is not asked for anything still reports its end, again and again.
  if (waited[0].events == 0) waited[0].fd = -1;
  constexpr int kSafetyNetMs = 100;
  ::poll(waited, 2, has_room ? SleepMs() : kSafetyNetMs);
  if (has_room) commands_.WakeUp();
  waits_for_room_.store(false, std::memory_order_relaxed);
  if ((waited[1].revents & POLLIN) != 0) bell_.Drain();
}

// Until the loop may drive, if nothing happens until then.
int TcpRail::SleepMs() const {
  if (!may_change_hands_ || IsHeavy() || IsStuck() || !reader_.is_between_frames()) return -1;
  return MillisecondsUntil(quiet_since_ns_ + kQuietNs);
}

// An orderly end: what was given goes out, then the other side reads to the end and
// closes. What it still sends is for nobody.
void TcpRail::SendTheRest() {
  const std::uint64_t deadline = platform::MonotonicNow() + kFinishNs;
  pollfd waited = {socket_.get(), POLLOUT, 0};
  for (;;) {
    bool moved = ObeyCommands();
    moved = writer_.Write() || moved;
    if (writer_.error() != 0) return;
    if (!moved && writer_.is_empty()) break;
    if (!moved && ::poll(&waited, 1, MillisecondsUntil(deadline)) == 0) return;
    if (platform::MonotonicNow() >= deadline) return;
  }
  stream_->End(socket_.get());
  ::shutdown(socket_.get(), SHUT_WR);
  waited.events = POLLIN;
  // One that goes on sending is not listened to for longer than one that is silent.
  std::byte nobodys[4096];
  while (platform::MonotonicNow() < deadline &&
         ::poll(&waited, 1, MillisecondsUntil(deadline)) > 0) {
    const ssize_t got = ::recv(socket_.get(), nobodys, sizeof nobodys, MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return;
  }
}

bool TcpRail::ObeyCommands() {
  return rail::ObeyCommands(commands_, writer_, reader_, *this,
                            finish_.load(std::memory_order_relaxed));
}

void TcpRail::OnHeartbeat(const wire::FrameHeader& heartbeat) {
  if (heartbeat.flags == wire::kProveAgain) {
    asked_for_new_proof_.store(true, std::memory_order_relaxed);
  }
  writer_.Echo(heartbeat);
}

// Every event carries it; this one is for when there is no other.
void TcpRail::ReportTransmitted() {
  if (writer_.transmitted() == 0 || !HasPlaceForEvent()) return;
  RailEvent event;
  event.kind = RailEvent::Kind::kTransmitted;
  Emit(std::move(event));
}

// The caller has made sure of the place (kEventsKept).
void TcpRail::Emit(RailEvent&& event) {
  event.transmitted = writer_.TakeTransmitted();
  const bool may_wait =
      event.kind == RailEvent::Kind::kFrame && event.header.type == wire::FrameType::kData;
  unreported_bytes_ += event.header.payload_bytes;
  const bool has_room = events_.Push(std::move(event));
  MLXCOMM_INVARIANT(has_room);
  if (!may_wait || unreported_bytes_ >= kUntoldBytesMax) WakeLoop();
}

void TcpRail::WakeLoop() {
  unreported_bytes_ = 0;
  if (events_.ConsumerSleeps()) loop_bell_.Ring();
}

void TcpRail::GoDown(DownCause cause, std::string reason, LinkReason link_reason) {
  if (std::exchange(down_, true)) return;
  up_.store(false, std::memory_order_relaxed);
  const bool finishes = finish_.load(std::memory_order_relaxed);
  if (!finishes) {
    // Not a polite end: what the kernel still holds must not go on for minutes.
    const linger at_once{1, 0};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  }
  // Else it stays for KeepEnd.
  if (finishes || cause != DownCause::kCut) socket_.Reset();
  RailEvent event;
  event.kind = RailEvent::Kind::kDown;
  event.cause = cause;
  event.abandoned = reader_.posted().Abandon();
  event.reason = std::move(reason);
  event.link_reason = link_reason;
  Emit(std::move(event));
}

}  // namespace mlxcomm::rail
