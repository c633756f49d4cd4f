#include "daemon/rail/frame_reader.h"

#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/platform/machine.h"
#include "daemon/rail/frame_sum.h"

namespace mlxcomm::rail {
namespace {

// Only these come from the peer; all others from this machine or the network.
DownCause CauseOf(int error) {
  return error == ECONNRESET || error == EPIPE ? DownCause::kReset : DownCause::kCut;
}

const char* ErrorText(int error) {
  return error == EBADMSG ? "a TLS record that is not authentic" : std::strerror(error);
}

}  // namespace

FrameReader::FrameReader(const FileDescriptor& socket, ByteStream& stream, FrameReaderPort& port)
    : socket_(socket),
      stream_(stream),
      port_(port),
      has_sums_(!stream.is_encrypted()),
      memory_(platform::MapSparse(2 * kReadAheadBytes + kPayloadSlots * wire::kSlotBytesMax +
                                  wire::kChunkBytesMax)),
      read_ahead_{memory_.data(), memory_.data() + kReadAheadBytes},
      slots_(read_ahead_[1] + kReadAheadBytes),
      staging_(slots_ + kPayloadSlots * wire::kSlotBytesMax),
      last_received_ns_(platform::MonotonicNow()) {}

void FrameReader::Forget(const OperationKey& key) {
  // The rest of a payload goes to the staging buffer and is dropped.
  if (!posted_.Forget(key)) return;
  target_ = staging_;
  copied_to_ = nullptr;
}

bool FrameReader::HasRoom() const {
  const std::uint64_t in_use = slots_used_ - slots_freed_.load(std::memory_order_acquire);
  const std::uint64_t large_controls =
      large_controls_used_ - large_controls_freed_.load(std::memory_order_acquire);
  return in_use < kPayloadSlots && large_controls < kLargeControlsMax && port_.HasRoomForEvent();
}

bool FrameReader::Read(int write_error, int turns) {
  bool moved = false;
  for (int turn = 0; turn < turns && !has_ended_; ++turn) {
    if (TakeReadAhead()) moved = true;
    if (has_ended_ || stalled_ || has_read_ahead() || !MayRead()) return moved;
    const Filled filled = Fill(write_error);
    if (filled == Filled::kNothing) return moved;
    moved = true;
    if (filled == Filled::kAll) break;
  }
  if (!has_ended_) TakeReadAhead();
  return moved;
}

// Reads ahead for headers and small payloads; large payloads go directly to their place.
FrameReader::Filled FrameReader::Fill(int write_error) {
  if (stream_.TakeGap()) DropBegun();
  const bool in_payload = target_ != nullptr;
  const std::size_t wanted = in_payload ? incoming_.payload_bytes - payload_have_ : std::size_t{0};
  iovec parts[2];
  int count = 0;
  if (wanted > 0) parts[count++] = {target_ + payload_have_, wanted};
  read_first_ = 0;
  read_end_ = 0;
  if (IsLent(current_)) current_ = 1 - current_;
  // Grants and acknowledgements do not predict what follows.
  const bool among_data = incoming_.type == wire::FrameType::kData ||
                          (incoming_.payload_bytes == 0 && posted_.has_large());
  parts[count++] = {read_ahead_[current_], among_data ? kReadAheadBytesAmongData : kReadAheadBytes};
  const ssize_t got = stream_.Read(socket_.get(), parts, count);
  if (got == 0) {
    End(DownCause::kReset, "the other side closed the connection");
    return Filled::kNothing;
  }
  if (got < 0) {
    if (errno == EINTR) return Filled::kNothing;
    const bool all_read = errno == EAGAIN || errno == EWOULDBLOCK;
    if (all_read && write_error == 0) return Filled::kNothing;
    const int error = all_read ? write_error : errno;
    if (error == EBADMSG) {
      EndAndReport(ErrorText(error), LinkReason::kTlsFailed);
    } else {
      End(CauseOf(error), ErrorText(error));
    }
    return Filled::kNothing;
  }
  const auto bytes = static_cast<std::size_t>(got);
  const bool is_short = bytes < wanted + parts[count - 1].iov_len;
  received_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  last_received_ns_.store(platform::MonotonicNow(), std::memory_order_relaxed);
  const std::size_t direct = std::min(bytes, wanted);
  if (direct > 0) SumPayload(target_ + payload_have_, direct);
  payload_have_ += direct;
  read_end_ = bytes - direct;
  if (in_payload) {
    if (payload_have_ == incoming_.payload_bytes) {
      FinishFrame();
    } else {
      if (target_ == staging_ && copied_to_ == nullptr)
        posted_.PlaceSome(incoming_, staging_, payload_have_);
      if (direct <= kLittleBytes && HoldsMark(target_ + payload_have_ - direct, direct))
        EndAndReport("the rest of a frame did not arrive", LinkReason::kBytesChanged);
    }
  }
  return is_short && stream_.DrainsOnShortRead() ? Filled::kAll : Filled::kSome;
}

// If the rest of a payload was swallowed, what follows is read as payload, heartbeats included.
bool FrameReader::HoldsMark(const std::byte* bytes, std::size_t count) const {
  return peers_mark_ != 0 && ::memmem(bytes, count, &peers_mark_, sizeof peers_mark_) != nullptr;
}

void FrameReader::DropBegun() {
  counts_frames_ = false;
  header_have_ = 0;
  payload_have_ = 0;
  target_ = copied_to_ = nullptr;
  target_control_.reset();
  const std::uint64_t abandoned = posted_.Abandon();
  if (abandoned != 0) ReportAbandoned(abandoned, LinkReason::kNone);
}

// Consumes what was read ahead, while there is room. Returns whether anything was consumed.
bool FrameReader::TakeReadAhead() {
  bool any = false;
  if (stalled_) {
    any = BeginFrame();
    if (stalled_) return false;
  }
  while (has_read_ahead() && !has_ended_) {
    if (target_ == nullptr) {
      if (header_have_ == 0 && !HasRoom()) return any;
      const std::size_t take = std::min(sizeof incoming_ - header_have_, read_end_ - read_first_);
      std::memcpy(reinterpret_cast<std::byte*>(&incoming_) + header_have_,
                  read_ahead_[current_] + read_first_, take);
      header_have_ += take;
      read_first_ += take;
      any = true;
      if (header_have_ == sizeof incoming_ && !OnHeader()) return any;
      continue;
    }
    const std::size_t take =
        std::min<std::size_t>(incoming_.payload_bytes - payload_have_, read_end_ - read_first_);
    std::memcpy(target_ + payload_have_, read_ahead_[current_] + read_first_, take);
    SumPayload(read_ahead_[current_] + read_first_, take);
    payload_have_ += take;
    read_first_ += take;
    any = true;
    if (payload_have_ == incoming_.payload_bytes) FinishFrame();
  }
  return any;
}

// A header is complete. Its sum comes first, because a corrupt length could make us wait forever.
bool FrameReader::OnHeader() {
  sum_have_ = 0;
  if (has_sums_ && !TakeSums(incoming_, sum_reported_)) {
    EndAndReport("the header of a frame is not as it was sent", LinkReason::kBytesChanged);
    return false;
  }
  return BeginFrame();
}

void FrameReader::SumPayload(const std::byte* bytes, std::size_t count) {
  if (has_sums_) sum_have_ = ExtendSum(sum_have_, bytes, count);
}

bool FrameReader::BeginFrame() {
  if (!wire::IsWellFormed(incoming_)) {
    End(DownCause::kViolation, "a frame that breaks a bound");
    return false;
  }
  payload_have_ = 0;
  incoming_began_ns_ = last_received_ns();
  if (incoming_.payload_bytes > 0 && !LendReadAhead()) return ChooseTarget();
  FinishFrame();
  return true;
}

bool FrameReader::LendReadAhead() {
  if (incoming_.type != wire::FrameType::kEager || IsLent(1 - current_)) return false;
  if (incoming_.payload_bytes > read_end_ - read_first_) return false;
  target_ = read_ahead_[current_] + read_first_;
  SumPayload(target_, incoming_.payload_bytes);
  target_slot_ = true;
  read_first_ += incoming_.payload_bytes;
  lent_until_[current_] = slots_used_ + 1;
  return true;
}

bool FrameReader::ChooseTarget() {
  target_slot_ = false;
  target_duplicate_ = false;
  if (incoming_.type == wire::FrameType::kData) {
    switch (PlaceOfData()) {
      case PostedReceives::Place::kDirect:
        if ((incoming_.flags & wire::kRepeated) != 0 && has_sums_) {
          copied_to_ = std::exchange(target_, staging_);
        }
        return true;
      case PostedReceives::Place::kDuplicate: target_duplicate_ = true; [[fallthrough]];
      case PostedReceives::Place::kDropped:
      case PostedReceives::Place::kStaged: target_ = staging_; return true;
      case PostedReceives::Place::kUnknown:
        if (!stalled_) End(DownCause::kCut, "data that was never requested");
        return false;
      case PostedReceives::Place::kOutside:
        End(DownCause::kViolation, "data outside of its grant");
        return false;
    }
  }
  if (wire::IsSignOfLife(incoming_.type)) {
    target_ = staging_;  // Padding.
    return true;
  }
  if (incoming_.payload_bytes > wire::kSlotBytesMax) {
    target_control_ = std::make_unique<std::vector<std::byte>>(incoming_.payload_bytes);
    target_ = target_control_->data();
    return true;
  }
  target_slot_ = true;
  target_ = TakeSlot();
  return true;
}

// Slots are freed in order. An idle rail starts again at the first, to touch little memory.
std::byte* FrameReader::TakeSlot() {
  if (slots_used_ == slots_freed_.load(std::memory_order_acquire)) slots_begun_ = slots_used_;
  return slots_ + (slots_used_ - slots_begun_) % kPayloadSlots * wire::kSlotBytesMax;
}

// The grant may have gone out on another rail while the receive waits among our commands.
PostedReceives::Place FrameReader::PlaceOfData() {
  if (!stalled_) {
    const PostedReceives::Place place = posted_.Begin(incoming_, &target_);
    if (place != PostedReceives::Place::kUnknown) return place;
    port_.TakeCommands();
  }
  stalled_ = port_.CommandsWait();
  return stalled_ ? PostedReceives::Place::kUnknown : posted_.Begin(incoming_, &target_);
}

void FrameReader::FinishFrame() {
  header_have_ = 0;
  ++frames_;
  if (has_sums_ && sum_have_ != sum_reported_ && OnWrongSum()) return;
  std::byte* const payload = std::exchange(target_, nullptr);
  if (std::byte* const to = std::exchange(copied_to_, nullptr); to != nullptr) {
    std::memcpy(to, payload, incoming_.payload_bytes);
  }
  if (wire::IsSignOfLife(incoming_.type) && !CheckFrameCount()) return;
  if (incoming_.type == wire::FrameType::kHeartbeat) return port_.OnHeartbeat(incoming_);
  if (incoming_.type == wire::FrameType::kEcho) return OnEcho();
  if (incoming_.type == wire::FrameType::kGivenUp) return OnGivenUp();
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
  if (observer_ != nullptr) {
    // Small frames arrived with the last read; placing a large one takes time.
    const bool large = incoming_.type == wire::FrameType::kData;
    observer_->OnReceived(incoming_, incoming_began_ns_,
                          large ? platform::MonotonicNow() : last_received_ns());
  }
  port_.OnEvent(std::move(event));
}

// Processes may write to their data at any time, so a wrong sum must not take down a rail that
// others use. The data is requested again, sent from a copy and read into one, so that only the
// network can have changed it. All other payloads are copies that no process reaches. Returns false
// if the payload is not needed.
bool FrameReader::OnWrongSum() {
  if (incoming_.type != wire::FrameType::kData) {
    EndAndReport("the payload of a frame is not as it was sent", LinkReason::kBytesChanged);
    return true;
  }
  if (!posted_.is_placing()) return false;
  target_ = copied_to_ = nullptr;
  ReportAbandoned(posted_.Disown(), LinkReason::kBytesChanged);
  return true;
}

// Checks that all frames before this heartbeat have arrived. After a gap, counts from here.
bool FrameReader::CheckFrameCount() {
  peers_mark_ = incoming_.digest;
  if (!std::exchange(counts_frames_, true)) frames_ = incoming_.number + 1;
  if (incoming_.number == 0 || incoming_.number == frames_ - 1) return true;
  EndAndReport(absl::StrCat("of ", incoming_.number, " frames that the peer has sent, ",
                            frames_ - 1, " have arrived"),
               LinkReason::kBytesChanged);
  return false;
}

void FrameReader::OnEcho() {
  if (incoming_.payload_bytes > 0) {  // Its time is not the latency.
    const bool is_first = !passed_large_.exchange(true, std::memory_order_relaxed);
    if (is_first) ReportAbandoned(0, LinkReason::kNone);  // Wakes the loop, which waits for it.
    return;
  }
  const std::uint64_t now = platform::MonotonicNow();
  if (incoming_.offset > now) return;
  const std::uint64_t took = now - incoming_.offset;
  const std::uint64_t least = round_trip_ns_min();
  round_trip_ns_.store(took, std::memory_order_relaxed);
  round_trips_.store(round_trips() + 1, std::memory_order_relaxed);
  if (least == 0 || took < least) round_trip_ns_min_.store(took, std::memory_order_relaxed);
}

void FrameReader::ReportAbandoned(std::uint64_t sequence, LinkReason reason) {
  RailEvent event;
  event.kind = RailEvent::Kind::kTransmitted;
  event.abandoned = sequence;
  event.link_reason = reason;
  port_.OnEvent(std::move(event));
}

void FrameReader::OnGivenUp() {
  const bool changed = incoming_.tag == static_cast<std::uint32_t>(LinkReason::kBytesChanged);
  End(DownCause::kCut,
      changed ? "the peer received different bytes from those sent" : "the peer has dropped it",
      changed ? LinkReason::kBytesChanged : LinkReason::kCut);
}

void FrameReader::End(DownCause cause, std::string reason, LinkReason link_reason) {
  has_ended_ = true;
  end_cause_ = cause;
  end_reason_ = std::move(reason);
  end_link_reason_ = link_reason;
}

void FrameReader::EndAndReport(std::string reason, LinkReason link_reason) {
  End(DownCause::kCut, std::move(reason), link_reason);
  reports_end_ = true;
}

}  // namespace mlxcomm::rail
