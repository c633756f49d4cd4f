// Two message streams and the messages in flight between them, in one virtual time; and a fake
// arena, registered with a fake device, that one of them may send from.
//
// Owner: a test. Thread: its own. Memory: the streams' slots and the messages.
#pragma once

#include <gtest/gtest.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "daemon/rdma/message_header.h"
#include "daemon/rdma/message_stream.h"
#include "proto/wire/frame.h"

namespace mlxcomm::rdma {

// Counts the existing regions.
class PaperDevice final : public Device {
 public:
  class PaperRegion final : public Region {
   public:
    PaperRegion(PaperDevice& device, std::shared_ptr<const void> owner, std::byte* data,
                std::uint64_t bytes)
        : Region(data, bytes, ++device.registered), device_(device), owner_(std::move(owner)) {
      ++device_.now.regions;
    }
    ~PaperRegion() override { --device_.now.regions; }

   private:
    PaperDevice& device_;
    const std::shared_ptr<const void> owner_;
  };
  const Limits& limits() const override { return limits_; }
  bool IsThere() override { return true; }
  DeviceUse use() const override { return now; }
  absl::StatusOr<std::unique_ptr<QueuePair>> MakeQueuePairIn(std::span<std::byte>,
                                                             const QueuePairShape&,
                                                             const Gid&) override {
    return absl::UnimplementedError("of paper");
  }
  absl::StatusOr<std::shared_ptr<const Region>> Register(const rail::ClientMemory& arena,
                                                         std::byte* data,
                                                         std::uint64_t bytes) override {
    ++asked;
    if (refuses) return absl::UnavailableError("no more");
    return std::make_shared<const PaperRegion>(*this, arena.owner, data, bytes);
  }

  DeviceUse now;
  std::uint32_t registered = 0;
  int asked = 0;
  bool refuses = false;

 private:
  const Limits limits_;
};

// An arena whose regions are made as soon as they are requested.
struct PaperArena {
  explicit PaperArena(const Limits& limits = {}, std::size_t bytes = 4 << 20)
      : memory(bytes),
        regions(limits, [this] { wants_tending = true; }),
        sends({std::shared_ptr<void>(), &regions}) {
    regions.Add({nullptr, memory.data(), memory.size()});
    sends.Refresh(0);
  }
  void Update(std::uint64_t now_ns = 1) {
    wants_tending = false;
    regions.Update(device, now_ns);
    sends.Refresh(now_ns);
  }
  // Bytes equal to the number; each payload has a place that the next few do not use.
  std::span<std::byte> Payload(std::uint64_t sequence, std::size_t bytes, bool begins) {
    if (begins) {
      if (next + bytes > memory.size()) next = 0;
      at = next;
      next += bytes;
      std::memset(memory.data() + at, static_cast<int>(sequence & 0xff), bytes);
    }
    return {memory.data() + at, bytes};
  }

  std::shared_ptr<PaperDevice> device = std::make_shared<PaperDevice>();
  std::vector<std::byte> memory;
  ArenaRegions regions;
  SendRegions sends;
  bool wants_tending = false;
  std::size_t next = 0;
  std::size_t at = 0;
};

inline std::unique_ptr<PaperArena> RegisteredArena(const Limits& limits = {}) {
  auto arena = std::make_unique<PaperArena>(limits);
  arena->sends.Find(arena->memory.data());
  arena->Update();
  return arena;
}

inline constexpr std::uint64_t kMs = 1'000'000;

// One end: its slots, its stream, its posted receives, and the frames that it has read.
struct End {
  // `arena`: holds the frames' payload; nullptr: ordinary memory does.
  End(std::uint32_t messages, std::uint32_t slot_bytes, std::uint64_t now,
      std::unique_ptr<PaperArena> with_arena = nullptr)
      : memory(std::size_t{2} * messages * slot_bytes),
        slot_bytes(slot_bytes),
        arena(std::move(with_arena)) {
    for (std::uint32_t slot = 0; slot < messages; ++slot) receives.push_back(slot);
    SendRegions* const regions = arena == nullptr ? nullptr : &arena->sends;
    stream = std::make_unique<MessageStream>(
        MessageStream::Shape{memory.data(), slot_bytes, messages, messages, 77, regions}, now);
  }

  // Writes a frame whose payload follows from its number; false: call again to write the rest.
  bool Write(std::uint64_t sequence, std::uint32_t payload_bytes) {
    wire::FrameHeader header;
    header.sequence = sequence;
    header.payload_bytes = payload_bytes;
    std::vector<std::byte> anywhere(arena == nullptr ? payload_bytes : 0,
                                    static_cast<std::byte>(sequence));
    std::span<std::byte> payload(anywhere);
    if (arena != nullptr) payload = arena->Payload(sequence, payload_bytes, written == 0);
    const std::size_t all = sizeof header + payload_bytes;
    while (written < all) {
      iovec parts[2];
      int count = 0;
      if (written < sizeof header) {
        EXPECT_EQ(written, 0u) << "a header was split";
        parts[count++] = {&header, sizeof header};
      }
      const std::size_t at = written < sizeof header ? 0 : written - sizeof header;
      if (at < payload.size()) parts[count++] = {payload.data() + at, payload.size() - at};
      const ssize_t done = stream->Write(-1, parts, count);
      if (done < 0) return false;
      written += static_cast<std::size_t>(done);
    }
    written = 0;
    return true;
  }

  // Reads everything, in pieces of odd sizes.
  void Read() {
    for (;;) {
      if (stream->TakeGap()) {
        ++gaps;
        partial.clear();
      }
      std::byte one[1000];
      std::byte other[77];
      iovec parts[2] = {{one, sizeof one}, {other, sizeof other}};
      const ssize_t got = stream->Read(-1, parts, 2);
      if (got < 0) return;
      const auto bytes = static_cast<std::size_t>(got);
      partial.insert(partial.end(), one, one + std::min(bytes, sizeof one));
      if (bytes > sizeof one) partial.insert(partial.end(), other, other + (bytes - sizeof one));
      TakeFrames();
    }
  }
  void TakeFrames() {
    for (;;) {
      wire::FrameHeader header;
      if (partial.size() < sizeof header) return;
      std::memcpy(&header, partial.data(), sizeof header);
      ASSERT_EQ(header.magic, wire::kFrameMagic) << "what is read does not begin with a header";
      if (partial.size() < sizeof header + header.payload_bytes) return;
      for (std::size_t i = 0; i < header.payload_bytes; ++i) {
        ASSERT_EQ(partial[sizeof header + i], static_cast<std::byte>(header.sequence));
      }
      ASSERT_TRUE(frames.empty() || header.sequence > frames.back());
      frames.push_back(header.sequence);
      partial.erase(partial.begin(), partial.begin() + static_cast<std::ptrdiff_t>(
                                                           sizeof header + header.payload_bytes));
    }
  }

  std::vector<std::byte> memory;
  std::uint32_t slot_bytes;
  std::unique_ptr<PaperArena> arena;
  std::deque<std::uint32_t> receives;  // Posted.
  std::unique_ptr<MessageStream> stream;
  std::size_t written = 0;
  std::vector<std::byte> partial;
  std::vector<std::uint64_t> frames;
  int gaps = 0;
};

// Both ends and the messages in flight between them, in one virtual time.
class Pair {
 public:
  explicit Pair(std::uint32_t messages = 8, std::uint32_t slot_bytes = 4096)
      : ends{End(messages, slot_bytes, now), End(messages, slot_bytes, now)} {}
  // The first end sends from its arena.
  Pair(std::uint32_t messages, std::uint32_t slot_bytes, std::unique_ptr<PaperArena> arena)
      : ends{End(messages, slot_bytes, now, std::move(arena)), End(messages, slot_bytes, now)} {}

  // Posts receives, completes sends, and delivers what is due.
  void Turn(bool read = true) {
    for (const int side : {0, 1}) TurnOf(side, read);
  }
  void TurnOf(int side, bool read = true) {
    End& end = ends[side];
    end.stream->OnNow(now);
    while (!in_flight[side].empty() && in_flight[side].front().arrives <= now) Deliver(side);
    if (read) end.Read();
    end.stream->OnTime();
    std::uint32_t slot = 0;
    while (end.stream->NextReceive(slot)) {
      end.receives.push_back(slot);
      end.stream->OnReceivePosted();
    }
    MessageStream::Outgoing out;
    while (end.stream->NextSend(out)) Send(side, out);
    while (completes && !posted[side].empty()) Complete(side);
  }
  void Send(int side, const MessageStream::Outgoing& out) {
    const End& end = ends[side];
    ++sent[side];
    const bool raw = out.from != nullptr;
    sent_with_frames[side] += raw || out.bytes > sizeof(MessageHeader) ? 1 : 0;
    sent_raw[side] += raw ? 1 : 0;
    posted[side].push_back(out);
    // Read when it is sent, which may be later than when it is posted.
    const std::byte* const from =
        raw ? out.from : end.memory.data() + std::size_t{out.slot} * end.slot_bytes;
    if (!lose(side)) in_flight[1 - side].push_back({now + latency, {from, from + out.bytes}});
  }
  void Complete(int side) {
    const MessageStream::Outgoing out = posted[side].front();
    posted[side].pop_front();
    ends[side].stream->OnSent(out.slot);
  }
  void Deliver(int to) {
    End& end = ends[to];
    const std::vector<std::byte> message = std::move(in_flight[to].front().bytes);
    in_flight[to].pop_front();
    ASSERT_FALSE(end.receives.empty()) << "a send met no receive";
    const std::uint32_t slot = end.receives.front();
    end.receives.pop_front();
    std::memcpy(end.memory.data() + std::size_t{slot} * end.slot_bytes, message.data(),
                message.size());
    ASSERT_TRUE(end.stream->OnReceived(slot, static_cast<std::uint32_t>(message.size())));
  }

  struct InFlight {
    std::uint64_t arrives = 0;
    std::vector<std::byte> bytes;
  };
  std::uint64_t now = 1000 * kMs;
  std::uint64_t latency = 0;
  std::function<bool(int from)> lose = [](int) { return false; };
  End ends[2];
  std::deque<InFlight> in_flight[2];  // To each side.
  int sent[2] = {0, 0};
  int sent_with_frames[2] = {0, 0};
  int sent_raw[2] = {0, 0};
  bool completes = true;
  std::deque<MessageStream::Outgoing> posted[2];
};

}  // namespace mlxcomm::rdma
