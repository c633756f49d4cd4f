// Two daemons' ends of one path in virtual time: set-up (setup.h) over a channel that is slow and
// may be cut, drivers that are slow, fail or hang, and messages (message_stream.h) over queue pairs
// that lose and delay them, while either side's thread may pause. One seed decides everything.
//
//   Side: Setup ══ channel ══ Setup        what must hold is looked at with each step:
//           driver: makes, connects          a send meets a receive; what is read are whole frames
//           End ═════ wire ═════ End         of this life, in order; both sides mean the same rail;
//                                            no side has more than a few queue pairs
//
// Owner: a test. Thread: its own. Memory: what is under way.
#pragma once

#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <sys/uio.h>

#include "absl/strings/str_cat.h"
#include "daemon/transport/rdma/message_stream.h"
#include "daemon/transport/rdma/setup.h"
#include "proto/wire/frame.h"
#include "proto/wire/rdma_message.h"

namespace mlxcomm::fabric::rdma {

// Deliberate faults, for tests of the test.
enum class Planted : std::uint8_t {
  kNothing,
  kOverstatesCredit,  // Messages report receives that are not posted again yet.
  kHidesLoss,         // Messages are numbered as they come.
  kSendsTooEarly,     // The answerer sends before the offerer has connected.
  kKeepsDropped,      // Objects that are not needed any more are not destroyed.
  kForgetsSilence,    // A rail on which nothing comes any more stays.
};

class SimulatedRails {
 public:
  SimulatedRails(std::uint32_t seed, Planted planted) : random_(seed), planted_(planted) {
    loss_of_100_ = Random(8);
    latency_ns_ = Random(2'000'000);
    messages_ = 10 + static_cast<std::uint32_t>(Random(20));
    for (std::uint32_t i : {0u, 1u}) sides_[i] = std::make_unique<Side>(*this, i, messages_);
  }

  // With faults, then without; what was found, or nothing.
  std::string Run() {
    for (int i = 0; i < 6000 && wrong_.empty(); ++i) Step(true);
    loss_of_100_ = 0;
    for (auto& side : sides_) side->driver_hangs = false;
    const std::uint64_t healed = now_ns_;
    while (wrong_.empty() && now_ns_ < healed + 2 * Setup::kPauseNsMax) {
      Step(false);
      if (BothUp() && sides_[0]->pairs.at(sides_[0]->rail)->frames_read > 50 &&
          sides_[1]->pairs.at(sides_[1]->rail)->frames_read > 50) {
        return {};
      }
    }
    return wrong_.empty() ? "no rail carries although nothing is in the way" : wrong_;
  }
  int rails() const { return rails_; }
  int lost() const { return lost_; }

 private:
  static constexpr std::uint64_t kMs = 1'000'000;
  static constexpr std::uint64_t kSilenceNs = 2'000 * kMs;
  static constexpr std::uint32_t kSlotBytes = 4096;

  struct UnderWay {
    std::uint64_t arrives_ns = 0;
    std::vector<std::byte> bytes;
  };
  // A queue pair, and the stream over it once it is a rail.
  struct Pair {
    std::uint32_t number = 0;
    std::uint32_t peer = 0;  // 0: not connected.
    std::vector<std::byte> memory;
    std::deque<std::uint32_t> posted;
    std::deque<std::pair<std::uint32_t, std::uint32_t>> completed;  // Receives: slot, bytes.
    std::deque<UnderWay> wire;                                      // To it.
    std::unique_ptr<MessageStream> stream;
    bool is_dead = false;  // Nothing reaches it any more, and neither side is notified.
    std::uint64_t attempt = 0;
    std::uint64_t heard_ns = 0;
    std::uint64_t next_frame = 1;
    std::size_t written = 0;
    std::vector<std::byte> partial;
    std::uint64_t last_read = 0;
    std::uint64_t frames_read = 0;
  };
  struct Job {
    enum class Kind : std::uint8_t { kMake, kConnect } kind = Kind::kMake;
    std::uint64_t attempt = 0;
    std::uint64_t done_ns = 0;
    QueuePairAddress to;
  };

  struct Side final : SetupPort {
    Side(SimulatedRails& in, std::uint32_t place, std::uint32_t messages)
        : world(in),
          index(place),
          setup(*this, place == 0 ? RailPath("a", "b") : RailPath("b", "a"), place == 0,
                LimitsOf(messages)) {}
    static Limits LimitsOf(std::uint32_t messages) {
      Limits limits;
      limits.message_bytes = kSlotBytes;
      limits.messages_max = messages;
      return limits;
    }
    void Send(const wire::RailSetup& message) override {
      channel.push_back({world.now_ns_ + world.Random(5 * kMs), message});
    }
    void Make(std::uint64_t attempt, const QueuePairShape&) override {
      Give(Job::Kind::kMake, attempt, {});
    }
    void Connect(std::uint64_t attempt, const QueuePairAddress& peer) override {
      Give(Job::Kind::kConnect, attempt, peer);
    }
    void Give(Job::Kind kind, std::uint64_t attempt, const QueuePairAddress& to) {
      job = {kind, attempt, world.now_ns_ + world.Random(20 * kMs), to};
    }
    absl::Status AddRail(std::uint64_t attempt, Service, const QueuePairAddress& peer,
                         std::uint32_t peer_receives) override {
      world.StartRail(*this, attempt, peer, peer_receives);
      return absl::OkStatus();
    }
    void Drop(std::uint64_t) override {
      job.reset();
      if (world.planted_ != Planted::kKeepsDropped) {
        pairs.erase(made);
        pairs.erase(rail);
      }
      made = rail = 0;
    }

    SimulatedRails& world;
    const std::uint32_t index;
    Setup setup;
    std::deque<std::pair<std::uint64_t, wire::RailSetup>> channel;  // From it.
    std::optional<Job> job;
    bool driver_hangs = false;
    std::map<std::uint32_t, std::unique_ptr<Pair>> pairs;  // By number.
    std::uint32_t made = 0;
    std::uint32_t rail = 0;
    std::uint64_t stands_until_ns = 0;  // Its rail's thread.
    std::uint64_t reads_from_ns = 0;    // Its loop takes nothing before.
  };

  std::uint64_t Random(std::uint64_t below) { return below == 0 ? 0 : random_() % below; }
  bool Chance(std::uint64_t of_million) { return random_() % 1'000'000 < of_million; }
  void Wrong(const std::string& what) {
    if (wrong_.empty()) wrong_ = absl::StrCat(what, " at ", now_ns_ / kMs, " ms");
  }
  bool BothUp() const { return sides_[0]->rail != 0 && sides_[1]->rail != 0; }
  Side& Other(const Side& side) { return *sides_[1 - side.index]; }

  void Step(bool faults) {
    now_ns_ += 1 + Random(4 * kMs);
    for (auto& side : sides_) {
      if (faults) DoHarm(*side);
      side->setup.OnTime(now_ns_, random_() | 1);
      Drive(*side, faults);
      CarryChannel(*side);
      for (auto& [number, pair] : side->pairs) Arrive(*pair);
      if (side->rail != 0 && now_ns_ >= side->stands_until_ns)
        Turn(*side, *side->pairs.at(side->rail));
      LookAtSilence(*side);
      if (side->pairs.size() > 2) Wrong("more queue pairs than there may be");
    }
    if (BothUp() && sides_[0]->setup.state() == Setup::State::kUp &&
        sides_[1]->setup.state() == Setup::State::kUp && sides_[0]->channel.empty() &&
        sides_[1]->channel.empty() && sides_[0]->setup.attempt() != sides_[1]->setup.attempt()) {
      Wrong("the sides have different rails");
    }
  }
  void DoHarm(Side& side) {
    if (Chance(1500)) side.stands_until_ns = now_ns_ + Random(3'000 * kMs);
    if (Chance(3000)) side.reads_from_ns = now_ns_ + Random(1'000 * kMs);
    if (Chance(200) && side.rail != 0) side.pairs.at(side.rail)->is_dead = true;
    if (Chance(500)) side.driver_hangs = !side.driver_hangs;
    if (Chance(300)) side.setup.TryNow(now_ns_);
    if (Chance(300) && side.rail != 0) RemoveRail(side);
    if (!Chance(150)) return;
    for (auto& each : sides_) {  // The channel has gone, and comes back.
      each->channel.clear();
      each->setup.Abandon();
    }
  }
  void RemoveRail(Side& side) {
    side.pairs.erase(std::exchange(side.rail, 0));
    side.setup.OnRailGone(now_ns_);
  }
  void LookAtSilence(Side& side) {
    if (side.rail == 0 || planted_ == Planted::kForgetsSilence) return;
    if (now_ns_ >= side.pairs.at(side.rail)->heard_ns + kSilenceNs) RemoveRail(side);
  }

  void Drive(Side& side, bool faults) {
    if (!side.job.has_value() || side.driver_hangs || now_ns_ < side.job->done_ns) return;
    const Job job = *side.job;
    side.job.reset();
    const bool fails = faults && Random(20) == 0;
    const absl::Status failed = absl::UnavailableError("the driver says no");
    if (job.kind == Job::Kind::kMake) {
      if (fails) return side.setup.OnMade(job.attempt, failed, 0, now_ns_);
      auto pair = std::make_unique<Pair>();
      pair->number = side.made = ++last_number_;
      side.pairs[pair->number] = std::move(pair);
      return side.setup.OnMade(job.attempt, QueuePairAddress{{}, last_number_, 0, 0, 4096},
                               messages_, now_ns_);
    }
    if (fails) return side.setup.OnConnected(job.attempt, failed, now_ns_);
    Pair& pair = *side.pairs.at(side.made);
    pair.peer = job.to.number;
    pair.memory.resize(std::size_t{2} * messages_ * kSlotBytes);
    for (std::uint32_t slot = 0; slot < messages_; ++slot) pair.posted.push_back(slot);
    side.setup.OnConnected(job.attempt, absl::OkStatus(), now_ns_);
    if (planted_ == Planted::kSendsTooEarly && side.index == 1 && side.made != 0) {
      StartRail(side, job.attempt, job.to, messages_);
    }
  }
  void CarryChannel(Side& side) {
    while (!side.channel.empty() && side.channel.front().first <= now_ns_) {
      const wire::RailSetup message = side.channel.front().second;
      side.channel.pop_front();
      Other(side).setup.OnMessage(message, now_ns_);
    }
  }

  void StartRail(Side& side, std::uint64_t attempt, const QueuePairAddress& peer,
                 std::uint32_t peer_receives) {
    if (side.made == 0) return;  // It is one already: see kSendsTooEarly.
    side.rail = std::exchange(side.made, 0);
    Pair& pair = *side.pairs.at(side.rail);
    if (pair.peer != peer.number) Wrong("a rail to another queue pair than it is connected to");
    pair.attempt = attempt;
    pair.heard_ns = now_ns_;
    pair.stream = std::make_unique<MessageStream>(
        MessageStream::Shape{pair.memory.data(), kSlotBytes, messages_, messages_, peer_receives,
                             attempt},
        now_ns_);
    ++rails_;
  }

  // The device: a message goes to the receive that was posted first, whatever the thread does.
  void Arrive(Pair& pair) {
    for (; !pair.wire.empty() && pair.wire.front().arrives_ns <= now_ns_; pair.wire.pop_front()) {
      if (pair.posted.empty()) return Wrong("a send met no receive");
      const std::uint32_t slot = pair.posted.front();
      pair.posted.pop_front();
      const std::vector<std::byte>& bytes = pair.wire.front().bytes;
      std::memcpy(pair.memory.data() + std::size_t{slot} * kSlotBytes, bytes.data(), bytes.size());
      pair.completed.emplace_back(slot, static_cast<std::uint32_t>(bytes.size()));
    }
  }
  // The same as in rail_thread.cc.
  void Turn(Side& side, Pair& pair) {
    MessageStream& stream = *pair.stream;
    stream.OnNow(now_ns_);
    for (int i = 0; i < 8 && Write(pair); ++i) continue;
    if (now_ns_ >= side.reads_from_ns) Read(pair);
    stream.OnTime();
    for (; !pair.completed.empty(); pair.completed.pop_front()) {
      const auto [slot, bytes] = pair.completed.front();
      pair.heard_ns = now_ns_;
      if (!stream.OnReceived(slot, bytes))
        return Wrong("a message that the other side would not send");
    }
    std::uint32_t slot = 0;
    while (stream.NextReceive(slot)) {
      pair.posted.push_back(slot);
      stream.OnReceivePosted();
    }
    MessageStream::Outgoing out;
    while (stream.NextSend(out)) {
      Transmit(Other(side), pair, out.slot, out.bytes);
      stream.OnSent(out.slot);
    }
  }
  void Transmit(Side& other, const Pair& pair, std::uint32_t slot, std::uint32_t bytes) {
    const auto to = other.pairs.find(pair.peer);
    const bool lost = Random(100) < loss_of_100_;
    lost_ += lost ? 1 : 0;
    if (to == other.pairs.end() || to->second->is_dead || lost) return;
    if (to->second->peer != 0 && to->second->peer != pair.number) return;  // Another life.
    const std::byte* const from = pair.memory.data() + std::size_t{slot} * kSlotBytes;
    UnderWay message{now_ns_ + latency_ns_, {from, from + bytes}};
    wire::MessageHeader header;
    std::memcpy(&header, message.bytes.data(), sizeof header);
    if (planted_ == Planted::kOverstatesCredit) header.posted = messages_;
    if (planted_ == Planted::kHidesLoss) header.number = ++numbers_[pair.peer];
    const bool planted = planted_ == Planted::kOverstatesCredit || planted_ == Planted::kHidesLoss;
    if (planted) header.sum = MessageStream::SumOf(header);
    std::memcpy(message.bytes.data(), &header, sizeof header);
    to->second->wire.push_back(std::move(message));
  }

  // The size and the bytes of frame n follow from n and the rail's name.
  static std::uint32_t SizeOf(std::uint64_t frame) {
    return static_cast<std::uint32_t>(frame % 7 == 0 ? frame * 131 % 9000 : frame * 17 % 300);
  }
  static std::byte ByteOf(std::uint64_t frame, std::uint64_t attempt) {
    return static_cast<std::byte>(frame + attempt);
  }
  bool Write(Pair& pair) {
    wire::FrameHeader header;
    header.sequence = pair.next_frame;
    header.number = pair.attempt;
    header.payload_bytes = SizeOf(pair.next_frame);
    std::vector<std::byte> payload(header.payload_bytes, ByteOf(pair.next_frame, pair.attempt));
    iovec parts[2] = {{&header, sizeof header}, {payload.data(), payload.size()}};
    const std::size_t all = sizeof header + payload.size();
    while (pair.written < all) {
      const bool in_header = pair.written < sizeof header;
      const std::size_t at = in_header ? 0 : pair.written - sizeof header;
      parts[1] = {payload.data() + at, payload.size() - at};
      const ssize_t done = pair.stream->Write(-1, in_header ? parts : parts + 1,
                                              in_header && !payload.empty() ? 2 : 1);
      if (done < 0) return false;
      pair.written += static_cast<std::size_t>(done);
    }
    pair.written = 0;
    ++pair.next_frame;
    return true;
  }
  void Read(Pair& pair) {
    for (;;) {
      if (pair.stream->TakeGap()) pair.partial.clear();
      std::byte some[700];
      iovec part{some, sizeof some};
      const ssize_t got = pair.stream->Read(-1, &part, 1);
      if (got < 0) return;
      pair.partial.insert(pair.partial.end(), some, some + got);
      while (TakeFrame(pair)) continue;
    }
  }
  bool TakeFrame(Pair& pair) {
    wire::FrameHeader header;
    if (!wrong_.empty() || pair.partial.size() < sizeof header) return false;
    std::memcpy(&header, pair.partial.data(), sizeof header);
    if (header.magic != wire::kFrameMagic || header.payload_bytes != SizeOf(header.sequence)) {
      return Wrong("what is read is no frame"), false;
    }
    const std::size_t all = sizeof header + header.payload_bytes;
    if (pair.partial.size() < all) return false;
    if (header.number != pair.attempt) Wrong("a frame of another life");
    if (header.sequence <= pair.last_read) Wrong("a frame twice, or out of order");
    for (std::size_t i = sizeof header; i < all; ++i) {
      if (pair.partial[i] != ByteOf(header.sequence, pair.attempt))
        return Wrong("a torn frame"), false;
    }
    pair.last_read = header.sequence;
    ++pair.frames_read;
    pair.partial.erase(pair.partial.begin(),
                       pair.partial.begin() + static_cast<std::ptrdiff_t>(all));
    return true;
  }

  std::mt19937_64 random_;
  const Planted planted_;
  std::uint64_t now_ns_ = 1'000 * kMs;
  std::uint64_t loss_of_100_ = 0;
  std::uint64_t latency_ns_ = 0;
  std::uint32_t messages_ = 0;
  std::uint32_t last_number_ = 0;
  std::map<std::uint32_t, std::uint64_t> numbers_;
  std::unique_ptr<Side> sides_[2];
  int rails_ = 0;
  int lost_ = 0;
  std::string wrong_;
};

}  // namespace mlxcomm::fabric::rdma
