#include "daemon/fabric/tcp/tcp_rail.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <utility>

#include "daemon/platform/machine.h"

namespace mlxcomm::fabric {
namespace {

#if defined(MSG_NOSIGNAL)
constexpr int kNoSignal = MSG_NOSIGNAL;
#else
constexpr int kNoSignal = 0;  // SO_NOSIGPIPE then.
#endif
// How long the thread looks again before it sleeps, after data has moved. Short
// where cores are scarce: somebody else needs them to make the next data.
constexpr std::uint64_t kSpinNsFewCores = 5'000;
constexpr std::uint64_t kSpinNsManyCores = 50'000;
// What the kernel may hold that it has not sent: enough until the thread runs again, and
// little, for acknowledgements wait behind it. What is on the way comes on top of it.
constexpr int kUnsentBytesMax = 256 * 1024;
// How long an orderly end may take when the other side does not read.
constexpr std::uint64_t kFinishNs = 500'000'000;

class KeptSocket final : public KeptEnd {
 public:
  explicit KeptSocket(platform::FileDescriptor socket) : socket_(std::move(socket)) {}

 private:
  platform::FileDescriptor socket_;
};

// Only these come from the other side; all else is this machine's, or the way between.
DownCause CauseOf(int error) {
  return error == ECONNRESET || error == EPIPE ? DownCause::kReset : DownCause::kCut;
}

int MillisecondsUntil(std::uint64_t deadline_ns) {
  const std::uint64_t now = platform::MonotonicNow();
  return now >= deadline_ns ? 0 : static_cast<int>((deadline_ns - now) / 1'000'000 + 1);
}

}  // namespace

absl::StatusOr<std::unique_ptr<TcpRail>> TcpRail::Create(platform::FileDescriptor socket,
                                                         std::string local_address,
                                                         std::string remote_address,
                                                         platform::Wakeup& engine_bell) {
  absl::StatusOr<platform::Wakeup> bell = platform::Wakeup::Create();
  if (!bell.ok()) return bell.status();
#if defined(TCP_NOTSENT_LOWAT)
  // Other sockets, as those of tests, do not know it.
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kUnsentBytesMax,
               sizeof kUnsentBytesMax);
#endif
#if defined(SO_NOSIGPIPE)
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
#endif
  return std::unique_ptr<TcpRail>(new TcpRail(std::move(socket), std::move(local_address),
                                              std::move(remote_address), engine_bell,
                                              *std::move(bell)));
}

TcpRail::TcpRail(platform::FileDescriptor socket, std::string local_address,
                 std::string remote_address, platform::Wakeup& engine_bell, platform::Wakeup bell)
    : socket_(std::move(socket)),
      local_address_(std::move(local_address)),
      remote_address_(std::move(remote_address)),
      engine_bell_(engine_bell),
      bell_(std::move(bell)),
      last_received_ns_(platform::MonotonicNow()),
      outgoing_(kRingSlots),
      staging_(std::make_unique<std::byte[]>(wire::kChunkBytesMax)),
      read_ahead_(kReadAheadBytes),
      slots_(std::make_unique<std::byte[]>(kPayloadSlots * wire::kSlotBytesMax)) {
  posted_.Reserve(kRingSlots);
}

TcpRail::~TcpRail() { Stop(); }

void TcpRail::Expect(const PostedReceive& receive, ReceiveBudget::Share share) {
  posted_.Expect(receive, share);
}

absl::Status TcpRail::Start(bool resumed, ArrivalClaims& claims) {
  posted_.ShareClaims(claims);
  if (resumed) posted_.DoNotKnowAllWithdrawn();
  try {
    thread_ = std::thread([this] { Run(); });
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(std::string("no thread for the rail: ") + error.what());
  }
  return absl::OkStatus();
}

void TcpRail::Finish() {
  finish_.store(true, std::memory_order_relaxed);
  stop_.store(true, std::memory_order_release);
  bell_.Ring();
}

void TcpRail::Stop() {
  stop_.store(true, std::memory_order_release);
  bell_.Ring();
  if (thread_.joinable()) thread_.join();
  up_.store(false, std::memory_order_relaxed);
}

std::unique_ptr<KeptEnd> TcpRail::KeepEnd() {
  if (socket_.get() < 0) return nullptr;
  return std::make_unique<KeptSocket>(std::move(socket_));
}

bool TcpRail::Give(const RailCommand& command) {
  const bool given = commands_.Push(RailCommand(command));
  const bool may_wait = given && command.kind == RailCommand::Kind::kForgetCompleted;
  if (!may_wait && commands_.ConsumerSleeps()) bell_.Ring();
  return given;
}

bool TcpRail::Pop(RailEvent& event) {
  if (std::exchange(popped_slot_, false)) slots_freed_.fetch_add(1, std::memory_order_release);
  if (std::exchange(popped_large_control_, false)) {
    large_controls_freed_.fetch_add(1, std::memory_order_release);
  }
  const bool popped = events_.Pop(event);
  if (popped) {
    popped_large_control_ = event.control != nullptr;
    popped_slot_ = event.kind == RailEvent::Kind::kFrame && !event.payload.empty() &&
                   !popped_large_control_;
    return true;
  }
  // The other half is in Sleep: either we see that it waits, or it sees the room.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (waits_for_room_.load(std::memory_order_relaxed)) bell_.Ring();
  return false;
}

RailSnapshot TcpRail::Snapshot() const {
  RailSnapshot snapshot;
  snapshot.transport = "tcp";
  snapshot.local_address = local_address_;
  snapshot.remote_address = remote_address_;
  snapshot.up = up_.load(std::memory_order_relaxed);
  snapshot.sent_bytes = sent_bytes_.load(std::memory_order_relaxed);
  snapshot.received_bytes = received_bytes_.load(std::memory_order_relaxed);
  snapshot.round_trip_ns = round_trip_ns_.load(std::memory_order_relaxed);
  snapshot.round_trip_ns_min = round_trip_ns_min_.load(std::memory_order_relaxed);
  return snapshot;
}

void TcpRail::Run() {
  const std::uint64_t spin_ns =
      platform::CoreCount() <= 4 ? kSpinNsFewCores : kSpinNsManyCores;
  std::uint64_t idle_since = 0;
  while (!stop_.load(std::memory_order_acquire) && !down_) {
    bool moved = TakeCommands();
    moved = Write() || moved;
    moved = !down_ && (Read() || moved);
    if (down_) break;
    TellTransmitted();
    if (moved) {
      idle_since = 0;
      continue;
    }
    const std::uint64_t now = platform::MonotonicNow();
    if (idle_since == 0) idle_since = now;
    if (now - idle_since < spin_ns) continue;
    Sleep();
  }
  if (!down_ && finish_.load(std::memory_order_relaxed)) SendTheRest();
  if (!down_) GoDown(DownCause::kCut, "stopped");
}

void TcpRail::Sleep() {
  const bool has_room = HasRoomForEvent();
  // Room has come since the last look: nobody will call for what is read already, nor for
  // what has been written and could not be told.
  const bool reads = !stalled_ && read_first_ < read_end_;
  if (has_room && (reads || transmitted_ > 0)) return;
  if (has_room) {
    // Else they wait until the socket has taken some of what was given earlier.
    if (HasRoomToSend() && !commands_.PrepareToSleep()) return;
  } else {
    // The engine's next empty Pop rings; commands wait until then as well.
    waits_for_room_.store(true, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (HasRoomForEvent()) {
      waits_for_room_.store(false, std::memory_order_relaxed);
      return;
    }
  }
  pollfd waited[2] = {{socket_.get(), 0, 0}, {bell_.descriptor(), POLLIN, 0}};
  if (MayRead()) waited[0].events |= POLLIN;
  if (WantsToWrite()) waited[0].events |= POLLOUT;
  // A socket that is not asked for anything still reports its end, again and again.
  if (waited[0].events == 0) waited[0].fd = -1;
  constexpr int kSafetyNetMs = 100;
  ::poll(waited, 2, has_room ? -1 : kSafetyNetMs);
  if (has_room) commands_.WakeUp();
  waits_for_room_.store(false, std::memory_order_relaxed);
  if ((waited[1].revents & POLLIN) != 0) bell_.Drain();
}

// An orderly end: what was given goes out, then the other side reads to the end and
// closes. What it still sends is for nobody.
void TcpRail::SendTheRest() {
  const std::uint64_t deadline = platform::MonotonicNow() + kFinishNs;
  pollfd waited = {socket_.get(), POLLOUT, 0};
  for (;;) {
    bool moved = TakeCommands();
    moved = Write() || moved;
    if (write_error_ != 0) return;
    if (!moved && outgoing_count_ == 0) break;
    if (!moved && ::poll(&waited, 1, MillisecondsUntil(deadline)) == 0) return;
    if (platform::MonotonicNow() >= deadline) return;
  }
  ::shutdown(socket_.get(), SHUT_WR);
  waited.events = POLLIN;
  // One that goes on sending is not listened to for longer than one that is silent.
  while (platform::MonotonicNow() < deadline &&
         ::poll(&waited, 1, MillisecondsUntil(deadline)) > 0) {
    const ssize_t got = ::recv(socket_.get(), read_ahead_.data(), read_ahead_.size(),
                               MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return;
  }
}

bool TcpRail::TakeCommands() {
  bool any = false;
  RailCommand command;
  // In the end nobody takes events any more, and what is still to be sent needs none.
  const bool ends = finish_.load(std::memory_order_relaxed);
  while (HasRoomToSend() && (ends || events_.Room() > kEventsKept) && commands_.Pop(command)) {
    Obey(command);
    any = true;
  }
  return any;
}

void TcpRail::Obey(const RailCommand& command) {
  switch (command.kind) {
    case RailCommand::Kind::kTransmit:
      if (command.frame.header.type == wire::FrameType::kAck) return PutInFront(command.frame);
      outgoing_[(outgoing_first_ + outgoing_count_++) % kRingSlots] = command.frame;
      return;
    case RailCommand::Kind::kPostReceive: return Expect(command.receive, command.share);
    case RailCommand::Kind::kForgetCompleted:
      return posted_.ForgetCompleted(command.key, command.step);
    case RailCommand::Kind::kHeartbeat: heartbeat_due_ = true; return;
    case RailCommand::Kind::kWithdraw: return Forget(command.key);
  }
}

void TcpRail::Forget(const OperationKey& key) {
  // A payload half read goes on into the staging buffer and is dropped.
  if (posted_.Forget(key)) target_ = staging_.get();
  if (events_.Room() <= kEventsKept) return;  // Only in the end: see TakeCommands.
  RailEvent event;
  event.kind = RailEvent::Kind::kWithdrawn;
  event.key = key;
  Emit(std::move(event));
}

void TcpRail::GatherBatch(iovec* parts, std::size_t* part_count) {
  std::size_t skip = front_written_;
  const auto add = [&](const void* data, std::size_t bytes) {
    if (skip >= bytes) {
      skip -= bytes;
      return;
    }
    parts[(*part_count)++] = {const_cast<char*>(static_cast<const char*>(data)) + skip,
                              bytes - skip};
    skip = 0;
  };
  for (std::size_t i = 0; i < std::min(outgoing_count_, kBatchFrames); ++i) {
    Channel::Frame& frame = outgoing_[(outgoing_first_ + i) % kRingSlots];
    add(&frame.header, sizeof frame.header);
    if (frame.header.payload_bytes > 0) add(frame.payload, frame.header.payload_bytes);
  }
}

bool TcpRail::WantsToWrite() const {
  return write_error_ == 0 && (outgoing_count_ > 0 || echo_due_ || heartbeat_due_);
}

bool TcpRail::Write() {
  if (write_error_ != 0) return false;
  // Signs of life go between frames, never inside one.
  if (front_written_ == 0 && (echo_due_ || heartbeat_due_)) PutSignOfLife();
  if (outgoing_count_ == 0) return false;
  iovec parts[2 * kBatchFrames];
  std::size_t part_count = 0;
  GatherBatch(parts, &part_count);
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = static_cast<decltype(message.msg_iovlen)>(part_count);
  const std::uint64_t began_ns = observer_ == nullptr ? 0 : platform::MonotonicNow();
  const ssize_t written = ::sendmsg(socket_.get(), &message, kNoSignal | MSG_DONTWAIT);
  if (written < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ENOBUFS) return false;
    write_error_ = errno;
    return false;
  }
  sent_bytes_.fetch_add(static_cast<std::uint64_t>(written), std::memory_order_relaxed);
  OnWritten(static_cast<std::size_t>(written), began_ns);
  return written > 0;
}

void TcpRail::OnWritten(std::size_t bytes, std::uint64_t began_ns) {
  const std::uint64_t now = observer_ == nullptr ? 0 : platform::MonotonicNow();
  if (front_written_ == 0) front_began_ns_ = began_ns;
  front_written_ += bytes;
  while (outgoing_count_ > 0) {
    const wire::FrameHeader& header = outgoing_[outgoing_first_].header;
    const std::size_t length = sizeof header + header.payload_bytes;
    if (front_written_ < length) break;
    front_written_ -= length;
    if (header.sequence != 0) ++transmitted_;
    if (observer_ != nullptr) observer_->OnSent(header, front_began_ns_, now);
    front_began_ns_ = began_ns;
    outgoing_first_ = (outgoing_first_ + 1) % kRingSlots;
    --outgoing_count_;
  }
}

// Every event carries it; this one is for when there is no other.
void TcpRail::TellTransmitted() {
  if (transmitted_ == 0 || events_.Room() <= kEventsKept) return;
  RailEvent event;
  event.kind = RailEvent::Kind::kTransmitted;
  Emit(std::move(event));
}

// The other side's window waits for acknowledgements, and they are true at any place; they
// only may not go inside a frame. Several may so change places: what one says stays so. Of
// each kind one waits at most, whatever the other side sends while it reads nothing: so there
// is always room for commands.
void TcpRail::PutInFront(const Channel::Frame& frame) {
  const bool inside = front_written_ > 0;
  for (std::size_t i = inside ? 1 : 0; i < outgoing_count_; ++i) {
    wire::FrameHeader& waiting = outgoing_[(outgoing_first_ + i) % kRingSlots].header;
    if (waiting.sequence != 0) break;  // Those without a number are in front.
    if (waiting.type != frame.header.type || waiting.tag != frame.header.tag) continue;
    return wire::Renew(waiting, frame.header);
  }
  Channel::Frame& begun = outgoing_[outgoing_first_];
  outgoing_first_ = (outgoing_first_ + kRingSlots - 1) % kRingSlots;
  ++outgoing_count_;
  if (inside) outgoing_[outgoing_first_] = begun;
  (inside ? begun : outgoing_[outgoing_first_]) = frame;
}

// Puts echo or heartbeat in front of what waits; TakeCommands leaves it a place.
void TcpRail::PutSignOfLife() {
  if (outgoing_count_ == kRingSlots) return;
  wire::FrameHeader header;
  if (echo_due_) {
    header.type = wire::FrameType::kEcho;
    header.offset = echo_.offset;
    echo_due_ = false;
  } else {
    header.type = wire::FrameType::kHeartbeat;
    header.offset = platform::MonotonicNow();
    heartbeat_due_ = false;
  }
  PutInFront({header, nullptr});
}

bool TcpRail::HasRoomForEvent() const {
  const std::uint64_t in_use = slots_used_ - slots_freed_.load(std::memory_order_acquire);
  const std::uint64_t large_controls =
      large_controls_used_ - large_controls_freed_.load(std::memory_order_acquire);
  return in_use < kPayloadSlots && large_controls < kLargeControlsMax &&
         events_.Room() > kEventsKept;
}

// One place is left for a sign of life.
bool TcpRail::HasRoomToSend() const { return outgoing_count_ + 1 < kRingSlots; }

// A frame that has begun has its place; another may begin only if there is one.
bool TcpRail::MayRead() const {
  return !stalled_ && (target_ != nullptr || header_have_ > 0 || HasRoomForEvent());
}

// Reads ahead for headers and small payloads; large ones go straight to their place.
bool TcpRail::Read() {
  bool moved = false;
  for (int turn = 0; turn < 8 && !down_; ++turn) {
    if (TakeReadAhead()) moved = true;
    // What is left of the last read waits for room, and so do we.
    if (down_ || stalled_ || read_first_ < read_end_ || !MayRead()) return moved;
    const bool in_payload = target_ != nullptr;
    const std::size_t wanted =
        in_payload ? incoming_.payload_bytes - payload_have_ : std::size_t{0};
    iovec parts[2];
    int count = 0;
    if (wanted > 0) parts[count++] = {target_ + payload_have_, wanted};
    read_first_ = 0;
    read_end_ = 0;
    parts[count++] = {read_ahead_.data(), read_ahead_.size()};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = static_cast<decltype(message.msg_iovlen)>(count);
    const ssize_t got = ::recvmsg(socket_.get(), &message, MSG_DONTWAIT);
    if (got == 0) {
      GoDown(DownCause::kReset, "the other side closed the connection");
      return moved;
    }
    if (got < 0) {
      if (errno == EINTR) return moved;
      const bool all_read = errno == EAGAIN || errno == EWOULDBLOCK;
      if (all_read && write_error_ == 0) return moved;
      const int error = all_read ? write_error_ : errno;
      GoDown(CauseOf(error), std::strerror(error));
      return moved;
    }
    moved = true;
    const auto bytes = static_cast<std::size_t>(got);
    received_bytes_.fetch_add(bytes, std::memory_order_relaxed);
    last_received_ns_.store(platform::MonotonicNow(), std::memory_order_relaxed);
    const std::size_t direct = std::min(bytes, wanted);
    payload_have_ += direct;
    read_end_ = bytes - direct;
    if (in_payload && payload_have_ == incoming_.payload_bytes && !FinishFrame()) return moved;
  }
  return moved;
}

// Consumes what was read ahead, as far as there is room: true if anything was.
bool TcpRail::TakeReadAhead() {
  bool any = false;
  if (stalled_) {
    any = BeginFrame();
    if (stalled_) return false;
  }
  while (read_first_ < read_end_ && !down_) {
    if (target_ == nullptr) {
      if (header_have_ == 0 && !HasRoomForEvent()) return any;
      const std::size_t take =
          std::min(sizeof incoming_ - header_have_, read_end_ - read_first_);
      std::memcpy(reinterpret_cast<std::byte*>(&incoming_) + header_have_,
                  read_ahead_.data() + read_first_, take);
      header_have_ += take;
      read_first_ += take;
      any = true;
      if (header_have_ == sizeof incoming_ && !BeginFrame()) return any;
      continue;
    }
    const std::size_t take = std::min<std::size_t>(incoming_.payload_bytes - payload_have_,
                                                   read_end_ - read_first_);
    std::memcpy(target_ + payload_have_, read_ahead_.data() + read_first_, take);
    payload_have_ += take;
    read_first_ += take;
    any = true;
    if (payload_have_ == incoming_.payload_bytes && !FinishFrame()) return any;
  }
  return any;
}

// A header is complete. False: the rail went down, or it is stalled.
bool TcpRail::BeginFrame() {
  if (!wire::IsWellFormed(incoming_)) {
    GoDown(DownCause::kViolation, "a frame that breaks a bound");
    return false;
  }
  payload_have_ = 0;
  incoming_began_ns_ = last_received_ns_.load(std::memory_order_relaxed);
  if (incoming_.payload_bytes == 0) return FinishFrame();
  return ChooseTarget();
}

bool TcpRail::ChooseTarget() {
  target_slot_ = false;
  target_duplicate_ = false;
  if (incoming_.type == wire::FrameType::kData) {
    switch (PlaceOfData()) {
      case PostedReceives::Place::kDirect: return true;
      case PostedReceives::Place::kDuplicate: target_duplicate_ = true; [[fallthrough]];
      case PostedReceives::Place::kDropped:  // Both are read and dropped.
      case PostedReceives::Place::kStaged: target_ = staging_.get(); return true;
      case PostedReceives::Place::kUnknown:
        if (!stalled_) GoDown(DownCause::kCut, "data that nobody had asked for");
        return false;
      case PostedReceives::Place::kOutside:
        GoDown(DownCause::kViolation, "data outside of what was granted, or more than it");
        return false;
    }
  }
  if (incoming_.payload_bytes > wire::kSlotBytesMax) {
    target_control_ = std::make_unique<std::vector<std::byte>>(incoming_.payload_bytes);
    target_ = target_control_->data();
    return true;
  }
  target_slot_ = true;
  target_ = slots_.get() + (slots_used_ % kPayloadSlots) * wire::kSlotBytesMax;
  return true;
}

// The grant may have gone out on another rail, and the receive wait among our commands.
PostedReceives::Place TcpRail::PlaceOfData() {
  if (!stalled_) {
    const PostedReceives::Place place = posted_.Begin(incoming_, &target_);
    if (place != PostedReceives::Place::kUnknown) return place;
    TakeCommands();
  }
  stalled_ = !commands_.IsEmpty();
  return stalled_ ? PostedReceives::Place::kUnknown : posted_.Begin(incoming_, &target_);
}

// Header and payload are complete. False: the rail went down.
bool TcpRail::FinishFrame() {
  header_have_ = 0;
  std::byte* const payload = std::exchange(target_, nullptr);
  switch (incoming_.type) {
    case wire::FrameType::kHeartbeat:
      echo_ = incoming_;
      echo_due_ = true;
      return true;
    case wire::FrameType::kEcho: {
      const std::uint64_t now = platform::MonotonicNow();
      if (incoming_.offset <= now) {
        const std::uint64_t took = now - incoming_.offset;
        const std::uint64_t least = round_trip_ns_min_.load(std::memory_order_relaxed);
        round_trip_ns_.store(took, std::memory_order_relaxed);
        if (least == 0 || took < least) {
          round_trip_ns_min_.store(took, std::memory_order_relaxed);
        }
      }
      return true;
    }
    default: break;
  }
  RailEvent event;
  event.kind = RailEvent::Kind::kFrame;
  event.header = incoming_;
  if (incoming_.type == wire::FrameType::kData) {
    event.duplicate = target_duplicate_;
    event.placed = !target_duplicate_ && posted_.Complete(incoming_, payload);
  } else if (incoming_.payload_bytes > 0) {
    event.control = std::move(target_control_);
    if (event.control != nullptr) ++large_controls_used_;
    event.payload = {payload, incoming_.payload_bytes};
    if (target_slot_) ++slots_used_;
  }
  if (observer_ != nullptr) TellReceived();
  Emit(std::move(event));
  return true;
}

// Small frames came with the last read; of large ones placing may have taken its time.
void TcpRail::TellReceived() {
  const bool large = incoming_.type == wire::FrameType::kData;
  const std::uint64_t now =
      large ? platform::MonotonicNow() : last_received_ns_.load(std::memory_order_relaxed);
  observer_->OnReceived(incoming_, incoming_began_ns_, now);
}

// Whoever emits has made sure of the place (kEventsKept).
void TcpRail::Emit(RailEvent&& event) {
  event.transmitted = std::exchange(transmitted_, 0);
  if (!events_.Push(std::move(event))) std::abort();
  if (events_.ConsumerSleeps()) engine_bell_.Ring();
}

void TcpRail::GoDown(DownCause cause, std::string reason) {
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
  event.abandoned = posted_.Abandon();
  event.reason = std::move(reason);
  Emit(std::move(event));
}

}  // namespace mlxcomm::fabric
