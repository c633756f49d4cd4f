// Frames: the bytes on a rail, from a node that has proved the key.
//
// Hostile: every byte, how many arrive at a time, where the stream loses some (an RDMA rail may),
// and when it ends. A node that holds the key may have a bug, or be taken over. Read by:
// wire::IsWellFormed (proto/wire/frame.h) and rail::FrameReader with PostedReceives
// (daemon/rail/frame_reader.h), from a stream in memory.
//
// Must hold, compared with a reader of this target's own that knows only wire/frame.h and rail.h:
//   - a header is well-formed exactly if it respects the bounds of its type, repeated here;
//   - every whole frame becomes one event, in order, header and payload as they were sent, until
//     the first one that is not allowed: that ends the rail, with the side at fault;
//   - data is placed where its receive was posted, and no byte beside it changes; a copy, and data
//     for a withdrawn operation, is dropped;
//   - a payload that was passed on stays unchanged until its slot is given back;
//   - no event comes while there is no place for one.
//
// Script: a byte for each posted receive, then steps: frames, described in few bytes or given in
// full, bytes that are not frames, and actions of the loop in between.
#include <sanitizer/asan_interface.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <deque>
#include <memory>
#include <new>
#include <set>
#include <utility>
#include <vector>

#include "daemon/rail/frame_reader.h"
#include "proto/wire/frame.h"
#include "tests/fuzz/fuzz.h"

namespace {

// A reader has three megabytes of its own. Mapping them again for each run would take ten times as
// long as the run itself, so large blocks are kept. They are poisoned until then, and have the
// sanitizer's red zones, so nothing is overlooked.
class LargeBlocks {
 public:
  static constexpr std::size_t kLeast = 64 * 1024;

  void* Take(std::size_t bytes) {
    Block* unused = nullptr;
    for (Block& block : blocks_) {
      if (block.data == nullptr) unused = &block;
      if (block.data == nullptr || block.taken || block.bytes != bytes) continue;
      __asan_unpoison_memory_region(block.data, bytes);
      block.taken = true;
      return block.data;
    }
    void* const data = std::malloc(bytes);
    if (unused != nullptr) *unused = {data, bytes, true};
    return data;
  }
  bool GiveBack(void* data) {
    for (Block& block : blocks_) {
      if (data == nullptr || block.data != data) continue;
      __asan_poison_memory_region(data, block.bytes);
      block.taken = false;
      return true;
    }
    return false;
  }

 private:
  struct Block {
    void* data = nullptr;
    std::size_t bytes = 0;
    bool taken = false;
  };
  std::array<Block, 8> blocks_;
};
LargeBlocks large_blocks;

}  // namespace

void* operator new(std::size_t bytes) {
  void* const data =
      bytes >= LargeBlocks::kLeast ? large_blocks.Take(bytes) : std::malloc(bytes == 0 ? 1 : bytes);
  if (data == nullptr) std::abort();
  return data;
}
void* operator new[](std::size_t bytes) { return operator new(bytes); }
void* operator new(std::size_t bytes, const std::nothrow_t& /*tag*/) noexcept {
  return operator new(bytes);
}
void* operator new[](std::size_t bytes, const std::nothrow_t& /*tag*/) noexcept {
  return operator new(bytes);
}
void operator delete(void* data) noexcept {
  if (!large_blocks.GiveBack(data)) std::free(data);
}
void operator delete[](void* data) noexcept { operator delete(data); }
void operator delete(void* data, std::size_t /*bytes*/) noexcept { operator delete(data); }
void operator delete[](void* data, std::size_t /*bytes*/) noexcept { operator delete(data); }

namespace mlxcomm::rail {
namespace {

using fuzz::Input;
using wire::FrameHeader;
using wire::FrameType;

// As wire/frame.h and route.h state them: least and most payload.
struct Bounds {
  bool numbered;
  std::uint32_t least;
  std::uint32_t most;
};
constexpr std::array<Bounds, 18> kBounds = {{{false, 1, 0},
                                             {false, 0, 0},
                                             {false, 0, 0},
                                             {false, 0, 0},
                                             {true, 0, 256 * 1024},
                                             {true, 0, 16 * 1024},
                                             {true, 1, 1024 * 1024},
                                             {true, 0, 0},
                                             {true, 0, 0},
                                             {true, 0, 0},
                                             {true, 104, 104 + 64 * 16},
                                             {true, 168, 168 + 33 * 16},
                                             {true, 160, 160},
                                             {true, 80, 16 * 1024 + 80},
                                             {true, 0, 0},
                                             {true, 0, 512},
                                             {true, 312, 312},
                                             {false, 0, 0}}};

bool MayBe(const FrameHeader& header) {
  const auto type = static_cast<std::size_t>(header.type);
  if (header.magic != 0x46434c4d || type >= kBounds.size()) return false;
  const Bounds& bounds = kBounds[type];
  if ((header.sequence != 0) != bounds.numbered || header.sequence >> 60 != 0) return false;
  const bool padded = (type == 1 || type == 2) && header.payload_bytes == 64 * 1024;
  if (!padded && (header.payload_bytes < bounds.least || header.payload_bytes > bounds.most)) {
    return false;
  }
  if (header.header_sum != 0 || header.payload_sum != 0) return false;
  const bool may_have_flag = type == 5 || type == 6 || type == 1;
  if (header.flags > 1 || (header.flags == 1 && !may_have_flag)) return false;
  if (type == 3) return header.tag < 4 && header.step <= 1024;
  return type != 15 || header.step <= 1;
}

// Payload is generated, so that large ones need no script.
std::uint8_t PayloadByte(std::uint64_t sequence, std::uint64_t at) {
  return static_cast<std::uint8_t>(sequence * 31 + at * 7 + (at >> 8) + 1);
}

// The bytes of the other side; a gap is where something was lost.
class Stream final : public ByteStream {
 public:
  ssize_t Read(int /*socket*/, iovec* parts, int count) override {
    if (gap_at_.contains(taken_)) return Wait();
    std::size_t most = bytes_.size() - taken_;
    if (const auto gap = gap_at_.upper_bound(taken_); gap != gap_at_.end()) {
      most = std::min(most, *gap - taken_);
    }
    most = std::min<std::size_t>(most, std::exchange(allowed_, 0));
    if (most == 0) {
      return ended_ ? 0 : Wait();
    }
    std::size_t got = 0;
    for (int i = 0; i < count && got < most; ++i) {
      const std::size_t bytes = std::min(parts[i].iov_len, most - got);
      std::memcpy(parts[i].iov_base, bytes_.data() + taken_, bytes);
      taken_ += bytes;
      got += bytes;
    }
    return static_cast<ssize_t>(got);
  }
  ssize_t Write(int /*socket*/, iovec* /*parts*/, int /*count*/) override { return -1; }
  // So frames have no sums, which would reject everything that a rail did not send.
  bool is_encrypted() const override { return true; }
  bool TakeGap() override { return gap_at_.erase(taken_) > 0; }

  void Append(const void* data, std::size_t bytes) {
    const auto* const first = static_cast<const std::uint8_t*>(data);
    bytes_.insert(bytes_.end(), first, first + bytes);
  }
  MLXCOMM_NOT_TRACED void AppendPayload(std::uint64_t sequence, std::size_t bytes) {
    const std::size_t at = bytes_.size();
    bytes_.resize(at + bytes);
    for (std::size_t i = 0; i < bytes; ++i) bytes_[at + i] = PayloadByte(sequence, i);
  }
  void AppendGap() { gap_at_.insert(bytes_.size()); }
  void Allow(std::size_t bytes) { allowed_ = bytes; }
  void Finish() { ended_ = true; }
  bool all_taken() const { return taken_ == bytes_.size() && gap_at_.empty(); }
  std::size_t written() const { return bytes_.size(); }

 private:
  static ssize_t Wait() {
    errno = EAGAIN;
    return -1;
  }
  std::vector<std::uint8_t> bytes_;
  std::size_t taken_ = 0;
  std::size_t allowed_ = 0;  // In the next read.
  std::set<std::size_t> gap_at_;
  bool ended_ = false;
};

constexpr std::size_t kReceives = 4;
constexpr std::size_t kGuard = 64;
constexpr std::size_t kLargest = 160 * 1024;
constexpr std::uint8_t kUntouched = 0xA5;

// One of the posted receives: data is read to its place, or combined with what is there.
struct Receive {
  std::uint64_t bytes = 0;
  std::size_t at = 0;  // In the memory.
  bool combines = false;
  bool open = false;  // A part of it has not arrived.
  std::uint64_t budget = 0;
  std::uint64_t placed = 0;
};

OperationKey KeyOfReceive(std::size_t number) {
  FrameHeader header;
  header.group = 1;
  header.number = number;
  return KeyOf(header);
}

// The operand next to it has one value throughout.
constexpr std::uint8_t kOperand = 0x3C;
MLXCOMM_NOT_TRACED void Combine(const PostedReceive& receive, std::uint64_t offset,
                                const std::byte* staged, std::uint32_t bytes) {
  for (std::uint32_t i = 0; i < bytes; ++i) {
    receive.destination[offset + i] = staged[i] ^ receive.operand[offset + i];
  }
}

class ReadRail final : FrameReaderPort {
 public:
  explicit ReadRail(Input& input) : input_(input) {
    reader_.posted().ShareClaims(*claims_);
    std::size_t at = kGuard;
    for (std::size_t i = 0; i < kReceives; ++i) {
      const std::uint8_t how = input.TakeByte();
      Receive& receive = receives_[i];
      constexpr std::uint32_t kSizes[] = {1, 80, 4096, 40 * 1024, 70'000, kLargest, 0, 0};
      receive.bytes = kSizes[how & 7];
      receive.combines = (how & 8) != 0;
      receive.at = at;
      if (receive.bytes == 0) continue;
      at += receive.bytes + kGuard;
      receive.open = true;
      receive.budget = receive.bytes;
    }
    memory_.assign(at, std::byte{kUntouched});
    expected_.assign(at, std::byte{kUntouched});
    operand_.assign(kLargest, std::byte{kOperand});
    for (std::size_t i = 0; i < kReceives; ++i) Post(i);
  }

  void Run() {
    while (!input_.empty() && !reader_.has_ended()) Step();
    while (!reader_.has_ended() && ReadSome(1 << 20)) {
    }
    ReadAll();
    CheckEnd();
    FreeSome(~std::size_t{0});
    CheckMemory();
    if (reader_.has_ended()) return;
    stream_.Finish();
    reader_.Read(/*write_error=*/0);
    MLXCOMM_MUST(reader_.has_ended() && reader_.end_cause() == DownCause::kReset,
                 "a connection that the other side has closed has ended");
  }

 private:
  void Post(std::size_t number) {
    const Receive& mine = receives_[number];
    if (mine.bytes == 0) return;
    PostedReceive receive;
    receive.key = KeyOfReceive(number);
    receive.bytes = mine.bytes;
    receive.destination = memory_.data() + mine.at;
    if (mine.combines) {
      receive.place = &Combine;
      receive.operand = operand_.data();
    }
    reader_.posted().Expect(receive, budgets_[number].Open(mine.bytes));
  }

  // FrameReaderPort
  bool HasRoomForEvent() const override { return held_.size() < places_; }
  void TakeCommands() override { commands_ -= commands_ > 0 ? 1 : 0; }
  bool CommandsWait() const override { return commands_ > 0; }
  void OnHeartbeat(const FrameHeader& heartbeat) override { Came(heartbeat, {}); }
  void OnEvent(RailEvent&& event) override {
    MLXCOMM_MUST(held_.size() < places_, "no event comes while there is no place for it");
    MLXCOMM_MUST(event.abandoned == 0, "nobody drops a copy of what this rail alone has begun");
    MLXCOMM_MUST(event.kind == RailEvent::Kind::kFrame, "a reader tells of frames");
    const Sent sent = Came(event.header, event.payload);
    MLXCOMM_MUST(event.duplicate == sent.duplicate && event.placed == sent.placed,
                 "data is placed, a copy of it, or dropped, as its receive says");
    held_.push_back(std::move(event));
  }

  // A frame of the script, in order, and what must follow from it.
  struct Sent {
    FrameHeader header;
    std::size_t end = 0;  // In the stream.
    bool lost = false;    // It has a gap.
    bool duplicate = false;
    bool placed = false;
  };
  // Echoes cause no event, and lost frames do not arrive.
  void JudgeSilent() {
    const auto is_silent = [](const Sent& sent) {
      return sent.lost || sent.header.type == FrameType::kEcho;
    };
    for (; !sent_.empty() && is_silent(sent_.front()); sent_.pop_front()) {
      MLXCOMM_MUST(Judge(sent_.front()).empty(), "a rail ends by what may not be");
    }
  }
  Sent Came(const FrameHeader& header, std::span<const std::byte> payload) {
    JudgeSilent();
    MLXCOMM_MUST(!sent_.empty(), "what comes was sent");
    Sent sent = sent_.front();
    sent_.pop_front();
    MLXCOMM_MUST(std::memcmp(&sent.header, &header, sizeof header) == 0,
                 "frames come in order, headers as they were sent");
    const std::string wrong = Judge(sent);
    MLXCOMM_MUST(wrong.empty(), "what may not be is not handed on: " + wrong);
    if (header.type == FrameType::kData || header.type == FrameType::kHeartbeat) return sent;
    MLXCOMM_MUST(payload.size() == header.payload_bytes, "a payload is whole");
    CheckPayload(header, payload);
    return sent;
  }
  MLXCOMM_NOT_TRACED static void CheckPayload(const FrameHeader& header,
                                              std::span<const std::byte> payload) {
    for (std::size_t i = 0; i < payload.size(); ++i) {
      MLXCOMM_MUST(payload[i] == std::byte{PayloadByte(header.sequence, i)},
                   "a payload is as it was sent, until its slot is given back");
    }
  }

  // This frame's effect on the receives. If not empty, why it ends the rail.
  std::string Judge(Sent& sent) {
    const FrameHeader& header = sent.header;
    if (!MayBe(header)) return "a header that breaks a bound";
    if (header.type == FrameType::kGivenUp) return "the other side has given it up";
    if (header.type != FrameType::kData) return {};
    if (header.sequence > wire::kWindow) return "a number beyond the window";
    if (claimed_.contains(header.sequence)) {
      sent.duplicate = !sent.lost;
      return {};
    }
    const bool has_place = KeyOf(header) == KeyOfReceive(header.number) &&
                           header.number < kReceives && header.step == 0;
    Receive* const receive = has_place ? &receives_[header.number] : nullptr;
    const bool withdrawn = withdrawn_.contains(KeyOf(header));
    const bool is_open = receive != nullptr && receive->open;
    if (!is_open && !withdrawn) return "data that nobody asked for";
    if (is_open) {
      if (header.offset > receive->bytes || header.payload_bytes > receive->bytes - header.offset) {
        return "data outside of its receive";
      }
      if (header.payload_bytes > receive->budget) return "more data than its receive";
    }
    // A lost one is given back: it may arrive again.
    if (!sent.lost) claimed_.insert(header.sequence);
    if (!is_open) return {};
    Place(header, *receive, sent.lost);
    if (sent.lost) return {};
    sent.placed = true;
    receive->budget -= header.payload_bytes;
    receive->placed += header.payload_bytes;
    if (receive->placed == receive->bytes) receive->open = false;
    return {};
  }

  // A lost frame may have been placed in part.
  MLXCOMM_NOT_TRACED void Place(const FrameHeader& header, const Receive& receive, bool lost) {
    const std::size_t at = receive.at + header.offset;
    if (lost) unknown_.resize(memory_.size());
    std::byte* const expected = expected_.data() + at;
    for (std::uint32_t i = 0; i < header.payload_bytes; ++i) {
      const std::uint8_t byte = PayloadByte(header.sequence, i);
      const std::uint8_t placed = receive.combines ? byte ^ kOperand : byte;
      expected[i] = std::byte{placed};
    }
    if (!unknown_.empty()) std::memset(unknown_.data() + at, lost ? 1 : 0, header.payload_bytes);
  }

  void Step() {
    const std::uint8_t what = input_.TakeByte();
    switch (what & 7) {
      case 0: return Send(input_.Take<FrameHeader>(), ~0u);
      case 1: {  // Bytes that are not a frame; reading them ends the rail.
        if (broken_) return;
        broken_ = true;
        const std::span<const std::uint8_t> bytes = input_.TakeBytes(sizeof(FrameHeader));
        FrameHeader header{};
        std::memcpy(&header, bytes.data(), bytes.size());
        header.magic ^= header.magic == wire::kFrameMagic ? 1u : 0u;
        sent_.push_back({header, stream_.written() + sizeof header, false, false, false});
        return stream_.Append(&header, sizeof header);
      }
      case 2: {
        ReadSome(1 + input_.Take<std::uint16_t>() * std::size_t{4});
        return;
      }
      case 3: return FreeSome(1u + (what >> 3));
      case 4: {
        // A frame that has begun keeps its place.
        places_ = what >> 3 == 31 ? 4096 : std::max<std::size_t>(1 + (what >> 3), held_.size() + 1);
        return;
      }
      case 5: {  // The loop withdraws an operation: between frames, to keep the model simple.
        const std::size_t number = (what >> 3) % kReceives;
        ReadAll();
        if (reader_.has_ended()) return;
        MLXCOMM_MUST(stream_.all_taken() && reader_.is_between_frames(),
                     "with room for all of it, all that came is read");
        JudgeSilent();
        reader_.Forget(KeyOfReceive(number));
        receives_[number].open = false;
        withdrawn_.insert(KeyOfReceive(number));
        return;
      }
      case 6:  // The rail has commands to execute, for this many turns.
        commands_ = what >> 3;
        return;
      default: Describe(what >> 3);
    }
  }

  // A valid frame, in a few bytes.
  void Describe(std::uint8_t type) {
    FrameHeader header;
    header.type = static_cast<FrameType>(type % 17);
    const std::uint8_t how = input_.TakeByte();
    const bool numbered = kBounds[type % 17].numbered;
    header.sequence = numbered ? ++next_sequence_ : 0;
    if ((how & 1) != 0 && numbered) header.sequence = input_.Take<std::uint16_t>();
    const Bounds& bounds = kBounds[type % 17];
    header.payload_bytes = bounds.least;
    if (bounds.most > bounds.least) {
      const std::uint32_t more = input_.Take<std::uint16_t>() * ((how & 2) != 0 ? 16u : 1u);
      header.payload_bytes += more % (bounds.most - bounds.least + 1);
    }
    if (header.type == FrameType::kData) {
      header.group = 1;
      header.number = (how >> 2) & 3;
      if ((how & 16) != 0) header.offset = input_.Take<std::uint16_t>() * std::uint64_t{16};
    }
    const bool cut = (how & 0xE0) == 0xE0;
    Send(header, cut ? input_.Take<std::uint16_t>() * 8u : ~0u);
  }

  // `most`: only this many of its bytes arrive, the rest is lost. Signs of life reveal nothing
  // about earlier frames.
  void Send(FrameHeader header, std::uint32_t most) {
    if (broken_) return;
    if (wire::IsSignOfLife(header.type)) header.number = header.digest = 0;
    const bool may_be = MayBe(header);
    const std::uint64_t payload = may_be ? header.payload_bytes : 0;
    const std::uint64_t all = sizeof header + payload;
    if (stream_.written() + all > kStreamMax) return;
    const std::uint64_t bytes = std::min<std::uint64_t>(all, most);
    stream_.Append(&header, std::min<std::uint64_t>(bytes, sizeof header));
    if (bytes > sizeof header) stream_.AppendPayload(header.sequence, bytes - sizeof header);
    const bool lost = bytes < all;
    if (lost) stream_.AppendGap();
    broken_ = !may_be && !lost;
    // Without a whole header there is nothing to expect.
    if (bytes >= sizeof header) sent_.push_back({header, stream_.written(), lost, false, false});
  }

  // False if nothing has moved.
  bool ReadSome(std::size_t bytes) {
    stream_.Allow(bytes);
    TakeCommands();
    return reader_.Read(/*write_error=*/0) || commands_ > 0;
  }
  void ReadAll() {
    do {
      FreeSome(~std::size_t{0});
    } while (!reader_.has_ended() && ReadSome(1 << 20));
  }
  // In the order of their arrival.
  void FreeSome(std::size_t count) {
    for (; count > 0 && !held_.empty(); --count) {
      const RailEvent& event = held_.front();
      if (event.header.type != FrameType::kData) CheckPayload(event.header, event.payload);
      if (event.control != nullptr) {
        reader_.OnLargeControlFreed();
      } else if (!event.payload.empty()) {
        reader_.OnSlotFreed();
      }
      held_.pop_front();
    }
  }

  void CheckEnd() {
    std::string wrong;
    while (!sent_.empty() && wrong.empty()) {
      const bool comes = !sent_.front().lost && sent_.front().header.type != FrameType::kEcho;
      wrong = Judge(sent_.front());
      if (wrong.empty() && comes) break;
      sent_.pop_front();
    }
    if (reader_.has_ended()) {
      MLXCOMM_MUST(!wrong.empty(), "a rail ends by what may not be: " + reader_.end_reason());
      const bool asked = wrong == "data that nobody asked for";
      MLXCOMM_MUST(reader_.end_cause() == (asked ? DownCause::kCut : DownCause::kViolation),
                   "a rail's end says whose fault it was: " + wrong);
      return;
    }
    MLXCOMM_MUST(wrong.empty(), "what may not be ends the rail: " + wrong);
    MLXCOMM_MUST(sent_.empty(), "every whole frame comes");
  }
  MLXCOMM_NOT_TRACED void CheckMemory() {
    // By pointers: tracing a container's work for each byte would take a second in total.
    const std::uint8_t* const unknown = unknown_.data();
    const std::byte* const memory = memory_.data();
    std::byte* const expected = expected_.data();
    for (std::size_t i = 0, bytes = unknown_.size(); i < bytes; ++i) {
      if (unknown[i] != 0) expected[i] = memory[i];
    }
    if (std::memcmp(memory_.data(), expected_.data(), memory_.size()) == 0) return;
    const auto differs = std::mismatch(memory_.begin(), memory_.end(), expected_.begin());
    MLXCOMM_MUST(false, "data is where its receive says, and nowhere else: byte " +
                            std::to_string(differs.first - memory_.begin()));
  }

  static constexpr std::size_t kStreamMax = 512 * 1024;

  Input& input_;
  FileDescriptor socket_;
  Stream stream_;
  const std::unique_ptr<ArrivalClaims> claims_ = std::make_unique<ArrivalClaims>();
  std::array<ReceiveBudget, kReceives> budgets_;
  std::array<Receive, kReceives> receives_;
  std::vector<std::byte> memory_;
  std::vector<std::byte> expected_;
  std::vector<std::uint8_t> unknown_;  // 1 for each unknown byte; empty if all are known.
  std::vector<std::byte> operand_;
  std::deque<Sent> sent_;
  std::deque<RailEvent> held_;
  std::set<std::uint64_t> claimed_;
  std::set<OperationKey> withdrawn_;
  std::uint64_t next_sequence_ = 0;
  std::size_t places_ = 64;
  int commands_ = 0;     // That wait.
  bool broken_ = false;  // Nothing after it is read.
  FrameReader reader_{socket_, stream_, *this};
};

void CheckHeader(const FrameHeader& header) {
  MLXCOMM_MUST(wire::IsWellFormed(header) == MayBe(header),
               "a header is well-formed when it keeps the bounds of its type");
}

}  // namespace
}  // namespace mlxcomm::rail

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  using namespace mlxcomm;  // NOLINT
  {
    fuzz::Input headers(data, bytes);
    while (headers.size() >= sizeof(wire::FrameHeader)) {
      rail::CheckHeader(headers.Take<wire::FrameHeader>());
    }
  }
  fuzz::Input input(data, bytes);
  rail::ReadRail(input).Run();
  return 0;
}
