#include "daemon/fabric/tcp/tcp_rail.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "daemon/platform/machine.h"

namespace mlxcomm::fabric {
namespace {

#if defined(MSG_NOSIGNAL)
constexpr int kNoSignal = MSG_NOSIGNAL;
#else
constexpr int kNoSignal = 0;
#endif
// How long the thread looks again before it sleeps, after data has moved. Short
// where cores are scarce: somebody else needs them to make the next data.
constexpr std::uint64_t kSpinNsFewCores = 5'000;
constexpr std::uint64_t kSpinNsManyCores = 50'000;

}  // namespace

TcpRail::TcpRail(platform::FileDescriptor socket, std::string local_address,
                 std::string remote_address, platform::Wakeup& engine_bell)
    : socket_(std::move(socket)),
      local_address_(std::move(local_address)),
      remote_address_(std::move(remote_address)),
      engine_bell_(engine_bell),
      last_received_ns_(platform::MonotonicNow()),
      outgoing_(kRingSlots),
      staging_(std::make_unique<std::byte[]>(wire::kChunkBytesMax)),
      read_ahead_(kReadAheadBytes),
      slots_(std::make_unique<std::byte[]>(kPayloadSlots * wire::kEagerBytesMax)) {
  posted_.reserve(kRingSlots);
  thread_ = std::thread([this] { Run(); });
}

TcpRail::~TcpRail() { Stop(); }

void TcpRail::Stop() {
  stop_.store(true, std::memory_order_release);
  bell_.Ring();
  if (thread_.joinable()) thread_.join();
  up_.store(false, std::memory_order_relaxed);
}

bool TcpRail::Give(Command&& command) {
  if (!commands_.Push(std::move(command))) return false;
  if (commands_.ConsumerSleeps()) bell_.Ring();
  return true;
}

bool TcpRail::Transmit(const Channel::Frame& frame) {
  Command command;
  command.kind = Command::Kind::kTransmit;
  command.frame = frame;
  return Give(std::move(command));
}

bool TcpRail::PostReceive(const PostedReceive& receive, std::uint64_t bytes_left) {
  Command command;
  command.kind = Command::Kind::kPost;
  command.receive = receive;
  command.bytes_left = bytes_left;
  return Give(std::move(command));
}

bool TcpRail::Withdraw(const OperationKey& key) {
  Command command;
  command.kind = Command::Kind::kWithdraw;
  command.key = key;
  return Give(std::move(command));
}

void TcpRail::Heartbeat() {
  Command command;
  command.kind = Command::Kind::kHeartbeat;
  (void)Give(std::move(command));  // A full ring is a sign of life, too.
}

bool TcpRail::Pop(RailEvent& event) {
  if (std::exchange(popped_slot_, false)) slots_freed_.fetch_add(1, std::memory_order_release);
  const bool popped = events_.Pop(event);
  if (popped) {
    popped_slot_ = event.kind == RailEvent::Kind::kFrame && !event.payload.empty() &&
                   event.control == nullptr;
  } else if (waits_for_room_.load(std::memory_order_acquire)) {
    bell_.Ring();
  }
  return popped;
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
  return snapshot;
}

void TcpRail::Run() {
  const std::uint64_t spin_ns =
      platform::CoreCount() <= 4 ? kSpinNsFewCores : kSpinNsManyCores;
  std::uint64_t last_moved_ns = 0;
  while (!stop_.load(std::memory_order_acquire) && !down_) {
    bool moved = TakeCommands();
    moved = Write() || moved;
    moved = !down_ && (Read() || moved);
    if (down_) break;
    if (moved) {
      last_moved_ns = 0;
      continue;
    }
    const std::uint64_t now = platform::MonotonicNow();
    if (last_moved_ns == 0) last_moved_ns = now;
    if (now - last_moved_ns < spin_ns) continue;
    Sleep();
  }
  if (!down_) GoDown(/*reset=*/false, "stopped");
}

void TcpRail::Sleep() {
  if (!commands_.PrepareToSleep()) return;
  const bool room = HasRoomForEvent();
  pollfd waited[2] = {{socket_.get(), 0, 0}, {bell_.descriptor(), POLLIN, 0}};
  if (room) waited[0].events |= POLLIN;
  if (outgoing_count_ > 0 || echo_due_ || heartbeat_due_) waited[0].events |= POLLOUT;
  // Without room the engine's bell ends the sleep; the limit is a safety net only.
  ::poll(waited, 2, room ? -1 : 10);
  commands_.WakeUp();
  if ((waited[1].revents & POLLIN) != 0) bell_.Drain();
}

bool TcpRail::TakeCommands() {
  bool any = false;
  Command command;
  while (outgoing_count_ < kRingSlots && commands_.Pop(command)) {
    Obey(command);
    any = true;
  }
  return any;
}

void TcpRail::Obey(Command& command) {
  switch (command.kind) {
    case Command::Kind::kTransmit:
      outgoing_[(outgoing_first_ + outgoing_count_++) % kRingSlots] = command.frame;
      return;
    case Command::Kind::kPost:
      posted_[{command.receive.key, command.receive.step}] = {command.receive, command.bytes_left};
      return;
    case Command::Kind::kHeartbeat: heartbeat_due_ = true; return;
    case Command::Kind::kWithdraw: {
      // A payload half read goes on into the staging buffer and is dropped.
      if (target_posted_ && KeyOf(incoming_) == command.key) {
        target_posted_ = false;
        target_ = staging_.get();
      }
      absl::erase_if(posted_, [&](const auto& entry) { return entry.first.first == command.key; });
      RailEvent event;
      event.kind = RailEvent::Kind::kWithdrawn;
      event.key = command.key;
      return Emit(std::move(event));
    }
  }
}

std::size_t TcpRail::GatherBatch(iovec* parts, std::size_t* part_count) {
  std::size_t frames = 0;
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
  while (frames < std::min(outgoing_count_, kBatchFrames)) {
    Channel::Frame& frame = outgoing_[(outgoing_first_ + frames++) % kRingSlots];
    add(&frame.header, sizeof frame.header);
    if (frame.header.payload_bytes > 0) add(frame.payload, frame.header.payload_bytes);
  }
  return frames;
}

bool TcpRail::Write() {
  // Signs of life go between frames, never inside one.
  if (front_written_ == 0 && (echo_due_ || heartbeat_due_) && outgoing_count_ < kRingSlots) {
    AnswerHeartbeat();
  }
  if (outgoing_count_ == 0) return false;
  iovec parts[2 * kBatchFrames];
  std::size_t part_count = 0;
  GatherBatch(parts, &part_count);
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = static_cast<decltype(message.msg_iovlen)>(part_count);
  const ssize_t written = ::sendmsg(socket_.get(), &message, kNoSignal | MSG_DONTWAIT);
  if (written < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ENOBUFS) return false;
    GoDown(/*reset=*/true, std::strerror(errno));
    return false;
  }
  sent_bytes_.fetch_add(static_cast<std::uint64_t>(written), std::memory_order_relaxed);
  OnWritten(static_cast<std::size_t>(written));
  return written > 0;
}

void TcpRail::OnWritten(std::size_t bytes) {
  std::uint32_t numbered = 0;
  front_written_ += bytes;
  while (outgoing_count_ > 0) {
    const wire::FrameHeader& header = outgoing_[outgoing_first_].header;
    const std::size_t length = sizeof header + header.payload_bytes;
    if (front_written_ < length) break;
    front_written_ -= length;
    if (header.sequence != 0) ++numbered;
    outgoing_first_ = (outgoing_first_ + 1) % kRingSlots;
    --outgoing_count_;
  }
  if (numbered == 0) return;
  RailEvent event;
  event.kind = RailEvent::Kind::kTransmitted;
  event.frames = numbered;
  Emit(std::move(event));
}

// Puts heartbeat and echo in front of what waits.
void TcpRail::AnswerHeartbeat() {
  wire::FrameHeader header;
  if (echo_due_) {
    header = echo_;
    header.type = wire::FrameType::kEcho;
    echo_due_ = false;
  } else {
    header.type = wire::FrameType::kHeartbeat;
    header.offset = platform::MonotonicNow();
    heartbeat_due_ = false;
  }
  header.magic = wire::kFrameMagic;
  header.sequence = 0;
  outgoing_first_ = (outgoing_first_ + kRingSlots - 1) % kRingSlots;
  outgoing_[outgoing_first_] = {header, nullptr};
  ++outgoing_count_;
}

bool TcpRail::HasRoomForEvent() {
  const std::uint64_t in_use = slots_used_ - slots_freed_.load(std::memory_order_acquire);
  // A few places are kept for kTransmitted, kWithdrawn and kDown.
  const bool room = in_use < kPayloadSlots && events_.HasRoom();
  waits_for_room_.store(!room, std::memory_order_release);
  return room;
}

// Reads ahead for headers and small payloads; large ones go straight to their place.
bool TcpRail::Read() {
  bool moved = false;
  for (int turn = 0; turn < 8 && !down_; ++turn) {
    if (TakeReadAhead()) moved = true;
    if (down_ || !HasRoomForEvent()) return moved;
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
      GoDown(/*reset=*/true, "the other side closed the connection");
      return moved;
    }
    if (got < 0) {
      if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return moved;
      GoDown(/*reset=*/true, std::strerror(errno));
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

// Consumes what was read ahead: true if anything was.
bool TcpRail::TakeReadAhead() {
  bool any = false;
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

// A header is complete.
bool TcpRail::BeginFrame() {
  if (!wire::IsWellFormed(incoming_)) {
    GoDown(/*reset=*/false, "a frame that breaks the protocol");
    return false;
  }
  payload_have_ = 0;
  if (incoming_.payload_bytes == 0) return FinishFrame();
  ChooseTarget();
  return true;
}

void TcpRail::ChooseTarget() {
  target_slot_ = false;
  target_posted_ = false;
  if (incoming_.type == wire::FrameType::kData) {
    const auto found = posted_.find({KeyOf(incoming_), incoming_.step});
    target_ = staging_.get();
    if (found == posted_.end()) return;  // Withdrawn: read and dropped.
    const Posted& posted = found->second;
    const bool inside = incoming_.offset <= posted.receive.bytes &&
                        incoming_.payload_bytes <= posted.receive.bytes - incoming_.offset &&
                        incoming_.payload_bytes <= posted.bytes_left;
    if (!inside) {
      GoDown(/*reset=*/false, "data outside of what was granted");
      return;
    }
    target_posted_ = true;
    if (posted.receive.place == nullptr) target_ = posted.receive.destination + incoming_.offset;
    return;
  }
  if (incoming_.payload_bytes > wire::kEagerBytesMax) {
    target_control_ = std::make_unique<std::vector<std::byte>>(incoming_.payload_bytes);
    target_ = target_control_->data();
    return;
  }
  target_slot_ = true;
  target_ = slots_.get() + (slots_used_ % kPayloadSlots) * wire::kEagerBytesMax;
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
        round_trip_ns_.store(now - incoming_.offset, std::memory_order_relaxed);
      }
      return true;
    }
    default: break;
  }
  RailEvent event;
  event.kind = RailEvent::Kind::kFrame;
  event.header = incoming_;
  if (incoming_.type == wire::FrameType::kData) {
    event.placed = std::exchange(target_posted_, false);
    if (event.placed) {
      const auto found = posted_.find({KeyOf(incoming_), incoming_.step});
      Posted& posted = found->second;
      if (posted.receive.place != nullptr) {
        posted.receive.place(posted.receive, incoming_.offset, payload, incoming_.payload_bytes);
      }
      posted.bytes_left -= incoming_.payload_bytes;
      if (posted.bytes_left == 0) posted_.erase(found);
    }
  } else if (incoming_.payload_bytes > 0) {
    event.control = std::move(target_control_);
    event.payload = {payload, incoming_.payload_bytes};
    if (target_slot_) ++slots_used_;
  }
  Emit(std::move(event));
  return !down_;
}

// The engine empties the ring in every turn; should it ever be full, this thread
// has nothing better to do than to wait for it.
void TcpRail::Emit(RailEvent&& event) {
  while (!events_.Push(std::move(event))) {
    if (stop_.load(std::memory_order_acquire)) return;
    engine_bell_.Ring();
    std::this_thread::yield();
  }
  if (events_.ConsumerSleeps()) engine_bell_.Ring();
}

void TcpRail::GoDown(bool reset, std::string reason) {
  if (std::exchange(down_, true)) return;
  up_.store(false, std::memory_order_relaxed);
  // Not a polite end: what the kernel still holds must not arrive after this.
  const linger at_once{1, 0};
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  socket_.Reset();
  RailEvent event;
  event.kind = RailEvent::Kind::kDown;
  event.reset = reset;
  event.reason = std::move(reason);
  Emit(std::move(event));
}

}  // namespace mlxcomm::fabric
