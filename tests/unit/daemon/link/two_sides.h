// The two sides of a link in virtual time, and the cables between them: each has a rate and a
// latency, may lose single frames, and may be cut at one end or both.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "daemon/link/link.h"
#include "tests/ground/simulated_rail.h"
#include "tests/unit/daemon/link/link_events.h"

namespace mlxcomm::link {

// One direction of a cable.
struct Lane {
  struct OnWire {
    wire::FrameHeader header;
    std::vector<std::byte> payload;
    std::uint64_t written_ns = 0;  // The sender's rail has written it.
    std::uint64_t arrives_ns = 0;
    bool written = false;
  };
  double bytes_per_second = 1e9;
  std::uint64_t latency_ns = 10'000;
  std::uint64_t busy_until_ns = 0;
  double loss = 0;
  bool silent = false;  // Takes frames and delivers none.
  std::deque<OnWire> frames;
  std::uint64_t carried_bytes = 0;
};

// A cable; its two ends may end at different times.
struct Cable {
  Lane lanes[2];  // By the sending side.
  bool reliable = true;
  bool direct = true;
  std::mt19937* random = nullptr;
  int kept_ends = 0;  // Dropped and still open.

  static Cable Of(double bytes_per_second, std::uint64_t latency_ns) {
    Cable cable;
    for (Lane& lane : cable.lanes) {
      lane.bytes_per_second = bytes_per_second;
      lane.latency_ns = latency_ns;
    }
    return cable;
  }
  static Cable Lossy(double loss) {
    Cable cable;
    cable.reliable = false;
    for (Lane& lane : cable.lanes) lane.loss = loss;
    return cable;
  }
  static Cable Circuit() {
    Cable cable;
    cable.direct = false;
    return cable;
  }
};

// One end of a cable. A test decides when it writes and reads what is due.
class CableRail final : public ground::SimulatedRail {
 public:
  CableRail(std::shared_ptr<Cable> cable, int side, const std::uint64_t& now)
      : SimulatedRail(now, rail::DownCause::kCut),
        cable_(std::move(cable)),
        side_(side),
        now_(now) {}
  ~CableRail() override { Stop(); }

  bool Give(const rail::RailCommand& command) override {
    if (is_down()) return true;
    if (command.kind != rail::RailCommand::Kind::kTransmit) {
      if (commands() >= 64) return false;
      Queue(command);
      return true;
    }
    if (lane().frames.size() >= 1024) return false;
    Lane::OnWire frame;
    frame.header = command.frame.header;
    // Reads as late as a real rail may.
    source_.push_back(command.frame.payload);
    const std::uint64_t bytes = sizeof frame.header + frame.header.payload_bytes;
    lane().busy_until_ns =
        std::max(lane().busy_until_ns, now_) +
        static_cast<std::uint64_t>(static_cast<double>(bytes) * 1e9 / lane().bytes_per_second);
    frame.written_ns = lane().busy_until_ns;
    frame.arrives_ns = frame.written_ns + lane().latency_ns;
    lane().frames.push_back(std::move(frame));
    return true;
  }
  void Finish() override { Stop(); }
  void Stop() override { GoDown(rail::DownCause::kCut, "stopped"); }
  std::shared_ptr<void> KeepEnd() override {
    return open_ ? std::make_shared<End>(cable_) : nullptr;
  }
  bool is_direct() const override { return cable_->direct; }
  bool is_reliable() const override { return cable_->reliable; }
  std::optional<rail::HeldBytes> held() const override {
    if (!cable_->reliable) return std::nullopt;
    rail::HeldBytes held{0, now_};
    for (const Lane::OnWire& frame : cable_->lanes[side_].frames) {
      if (frame.written) held.bytes += sizeof frame.header + frame.header.payload_bytes;
    }
    return held;
  }
  // As if a heartbeat had come back while nothing else was on the cable.
  rail::RailFigures figures() const override {
    return {.round_trip_ns_min = cable_->lanes[0].latency_ns + cable_->lanes[1].latency_ns};
  }
  void Describe(v1::RailStatus&) const override {}

  // Everything that is written by now.
  void Write() {
    for (std::size_t i = 0; i < lane().frames.size() && !source_.empty(); ++i) {
      Lane::OnWire& frame = lane().frames[i];
      if (frame.written) continue;
      if (frame.written_ns > now_) return;
      frame.written = true;
      const std::byte* const from = source_.front();
      source_.pop_front();
      if (from != nullptr) frame.payload.assign(from, from + frame.header.payload_bytes);
      OnWritten(frame.header);
      lane().carried_bytes += frame.header.payload_bytes;
    }
  }
  // Everything that has arrived by now; commands are taken as late as possible. `half`: up to the
  // first data frame, whose header is read, and half of its payload.
  void Read(bool half = false) {
    Lane& from = cable_->lanes[1 - side_];
    while (!is_down() && !from.silent && !from.frames.empty() && from.frames.front().written &&
           from.frames.front().arrives_ns <= now_) {
      OnHeard(now_);
      if (half && from.frames.front().header.type == wire::FrameType::kData) {
        if (Begin(from.frames.front().header)) PlaceHalf(from.frames.front().payload);
        return;
      }
      Lane::OnWire frame = std::move(from.frames.front());
      from.frames.pop_front();
      if (!cable_->reliable && Chance() < from.loss) continue;
      Take(frame.header, std::move(frame.payload));
    }
    if (!half) TakeCommands();
  }
  // When the next event happens on this end; kNever: none.
  std::uint64_t NextNs() const {
    std::uint64_t next = ~std::uint64_t{0};
    const auto& out = cable_->lanes[side_].frames;
    for (const Lane::OnWire& frame : out) {
      if (!frame.written) {
        next = frame.written_ns;
        break;
      }
    }
    const Lane& in = cable_->lanes[1 - side_];
    if (!in.silent && !in.frames.empty()) next = std::min(next, in.frames.front().arrives_ns);
    return next;
  }

 private:
  struct End {
    explicit End(std::shared_ptr<Cable> of) : cable(std::move(of)) { ++cable->kept_ends; }
    ~End() { --cable->kept_ends; }
    std::shared_ptr<Cable> cable;
  };
  Lane& lane() { return cable_->lanes[side_]; }
  double Chance() { return static_cast<double>((*cable_->random)()) / 4294967296.0; }
  // Written frames are still on the cable; the rest are lost.
  void OnDown(rail::DownCause cause) override {
    open_ = cause == rail::DownCause::kCut;
    source_.clear();
    std::erase_if(lane().frames, [](const Lane::OnWire& frame) { return !frame.written; });
  }

  std::shared_ptr<Cable> cable_;
  int side_;
  const std::uint64_t& now_;
  bool open_ = false;
  std::deque<const std::byte*> source_;
};

// A link's two sides in one virtual time.
class TwoSides {
 public:
  struct Side : LinkEvents {
    explicit Side(FabricOptions with) : options(std::move(with)), link(options, NodeId{}, *this) {}
    void OnControl(const NodeId& node, std::span<const std::byte> message) override {
      LinkEvents::OnControl(node, message);
      released_at_control.push_back(released.size());
    }
    FabricOptions options;
    Link link;
    std::vector<std::size_t> released_at_control;
  };
  struct Joined {
    std::string name;
    std::shared_ptr<Cable> cable;
    CableRail* ends[2] = {nullptr, nullptr};  // Owned by the links; checked by HasRailOver.
  };

  explicit TwoSides(const FabricOptions& options = {}, std::uint32_t seed = 1)
      : random(seed), a(options), b(options) {}

  // "rdma": a side rail.
  rail::RailPath PathOf(const std::string& name) const {
    return {name, name, name == "rdma" ? Transport::kRdma : Transport::kTcp};
  }
  // Joins both sides over a new cable.
  Joined& Join(const std::string& name, const Cable& like = {}) {
    Joined& joined = *rails.emplace_back(std::make_unique<Joined>());
    joined.name = name;
    joined.cable = std::make_shared<Cable>(like);
    joined.cable->random = &random;
    const wire::Introduction reported[2] = {IntroductionOf(a.link), IntroductionOf(b.link)};
    const Link::Standing standing[2] = {a.link.standing(), b.link.standing()};
    for (int side = 0; side < 2; ++side) {
      auto rail = std::make_unique<CableRail>(joined.cable, side, now);
      joined.ends[side] = rail.get();
      NodeIdentity peer;
      peer.name = side == 0 ? "b" : "a";
      peer.incarnation = 1;
      const absl::Status added = SideOf(side).link.AddRail(std::move(rail), PathOf(name), peer,
                                                           reported[1 - side], standing[side], now);
      EXPECT_TRUE(added.ok()) << added;
    }
    return joined;
  }
  Side& SideOf(int side) { return side == 0 ? a : b; }
  bool Has(int side, const Joined& joined) {
    return SideOf(side).link.HasRailOver(PathOf(joined.name));
  }
  // One end notices that the cable is cut; what was written may still arrive.
  void CutEnd(Joined& joined, int side, rail::DownCause cause = rail::DownCause::kCut) {
    if (Has(side, joined)) joined.ends[side]->GoDown(cause, "cut");
  }
  void Cut(Joined& joined) {
    joined.cable->lanes[0].silent = joined.cable->lanes[1].silent = true;
    CutEnd(joined, 0);
    CutEnd(joined, 1);
    for (int side = 0; side < 2; ++side) SideOf(side).link.Poll(now);
  }
  // Does everything that is due now.
  void Settle() {
    for (bool moved = true; moved;) {
      moved = false;
      for (const auto& joined : rails) {
        for (int side = 0; side < 2; ++side) {
          if (!Has(side, *joined)) continue;
          joined->ends[side]->Write();
          joined->ends[side]->Read();
        }
      }
      for (int side = 0; side < 2; ++side) {
        Link& link = SideOf(side).link;
        if (link.Poll(now) > 0) moved = true;
        if (link.deadline_ns() <= now) link.OnTime(now);
        link.FlushAcknowledgement();
      }
    }
  }
  std::uint64_t NextNs() {
    std::uint64_t next = std::min(a.link.deadline_ns(), b.link.deadline_ns());
    for (const auto& joined : rails) {
      for (int side = 0; side < 2; ++side) {
        if (Has(side, *joined)) next = std::min(next, joined->ends[side]->NextNs());
      }
    }
    return next;
  }
  // Runs until `done`, or nothing can happen any more, or the time is over.
  template <typename Done>
  bool RunUntil(std::uint64_t end_ns, Done done) {
    for (;;) {
      Settle();
      if (done()) return true;
      const std::uint64_t next = NextNs();
      if (next == Link::kNever || next > end_ns) {
        now = std::max(now, end_ns == Link::kNever ? now : end_ns);
        return done();
      }
      now = std::max(now + 1, next);
    }
  }
  void Run() {
    RunUntil(Link::kNever, [] { return false; });
  }

  // One side posts, the other sends in chunks.
  void Post(int side, std::uint64_t number, std::vector<std::byte>& target) {
    rail::PostedReceive receive;
    receive.key.number = number;
    receive.bytes = target.size();
    receive.destination = target.data();
    ASSERT_TRUE(SideOf(side).link.PostReceive(receive).ok());
  }
  void SendData(int side, std::uint64_t number, const std::vector<std::byte>& source,
                std::uint32_t chunk) {
    for (std::size_t at = 0; at < source.size(); at += chunk) {
      wire::FrameHeader header;
      header.type = wire::FrameType::kData;
      header.number = number;
      header.offset = at;
      header.payload_bytes =
          static_cast<std::uint32_t>(std::min<std::size_t>(chunk, source.size() - at));
      ASSERT_TRUE(SideOf(side).link.Send(header, source.data() + at, ++cookie).ok());
    }
  }
  void SendGrant(int side, std::uint64_t number) {
    wire::FrameHeader header;
    header.type = wire::FrameType::kGrant;
    header.number = number;
    ASSERT_TRUE(SideOf(side).link.Send(header, nullptr, 0).ok());
  }
  void SendControl(int side, const std::string& text) {
    wire::FrameHeader header;
    header.type = wire::FrameType::kControl;
    header.payload_bytes = static_cast<std::uint32_t>(text.size());
    ASSERT_TRUE(
        SideOf(side).link.Send(header, reinterpret_cast<const std::byte*>(text.data()), 0).ok());
  }

  std::mt19937 random;
  std::uint64_t now = 1'000'000'000;
  std::uint64_t cookie = 0;
  Side a;
  Side b;
  std::vector<std::unique_ptr<Joined>> rails;
};

}  // namespace mlxcomm::link
