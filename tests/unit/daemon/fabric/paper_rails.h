// Simple rails between Links in one process, with a clock that the test advances: a frame given to
// one end arrives when the other is polled. A connection can be cut so that both, one or neither of
// its ends notice.
//
// Owner: a test. Thread: its own. Memory: frames in flight.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/fabric/links.h"
#include "tests/unit/daemon/link/link_events.h"

namespace mlxcomm::fabric {

class PaperRail;

// A connection: its two ends, while they exist, and the frames in flight to each.
struct Connection {
  using Frame = std::pair<wire::FrameHeader, std::vector<std::byte>>;
  std::array<PaperRail*, 2> ends = {};
  std::array<std::deque<Frame>, 2> arrived;
  bool cut = false;                     // Nothing passes any more, and neither end is notified.
  std::array<int, 2> beats = {};        // Heartbeats that each end has sent.
  bool answers = true;                  // False: the process at the other end has stopped.
  bool small_only = false;              // A large frame blocks it and everything behind.
  std::array<bool, 2> asks_large = {};  // By an end that does not exist yet.
};

class PaperRail final : public rail::Rail {
 public:
  PaperRail(std::shared_ptr<Connection> connection, std::size_t side, std::uint64_t now_ns)
      : connection_(std::move(connection)), side_(side), received_ns_(now_ns) {
    connection_->ends[side_] = this;
  }
  ~PaperRail() override { Stop(); }

  void Expect(const rail::PostedReceive&, rail::ReceiveBudget::Share) override {}
  absl::Status Start(bool, rail::ArrivalClaims&) override {
    PaperRail* const other = connection_->ends[1 - side_];
    if (other != nullptr && connection_->asks_large[1 - side_]) other->PassLarge();
    return absl::OkStatus();
  }
  bool Give(const rail::RailCommand& command) override {
    if (command.kind == rail::RailCommand::Kind::kHeartbeat) {
      ++connection_->beats[side_];
      PaperRail* const other = connection_->ends[1 - side_];
      if (command.padded && connection_->small_only) connection_->cut = true;
      const bool passes = !connection_->cut && connection_->answers;
      const bool arrives = passes && other != nullptr;
      if (arrives && command.padded) passed_large_ = true;
      if (passes && command.padded && other == nullptr) connection_->asks_large[side_] = true;
      if (arrives) received_ns_ = other->received_ns_ = command.clock_ns;
    }
    if (command.kind != rail::RailCommand::Kind::kTransmit) return true;
    if (!connection_->cut) {
      const auto* const from = command.frame.payload;
      connection_->arrived[1 - side_].push_back(
          {command.frame.header, {from, from + command.frame.header.payload_bytes}});
    }
    if (command.frame.header.sequence != 0) ++transmitted_;
    return true;
  }
  void Finish() override {}
  // The other side sees its connection closed.
  void Stop() override {
    if (std::exchange(stopped_, true)) return;
    connection_->ends[side_] = nullptr;
    PaperRail* const other = connection_->ends[1 - side_];
    if (other != nullptr && !connection_->cut) other->GoDown(rail::DownCause::kReset);
    GoDown(rail::DownCause::kCut);
  }
  bool Pop(rail::RailEvent& event) override {
    event = {};
    event.transmitted = std::exchange(transmitted_, 0);
    std::deque<Connection::Frame>& arrived = connection_->arrived[side_];
    if (!arrived.empty()) {
      now_ = std::move(arrived.front());
      arrived.pop_front();
      event.header = now_.first;
      event.payload = now_.second;
      return true;
    }
    if (down_.has_value()) {
      event.kind = rail::RailEvent::Kind::kDown;
      event.cause = *std::exchange(down_, std::nullopt);
      event.reason = "a test wants it";
      return true;
    }
    event.kind = rail::RailEvent::Kind::kTransmitted;
    return event.transmitted > 0;
  }
  bool PrepareToSleep() override { return true; }
  void WakeUp() override {}
  // Heartbeats pass while both ends exist.
  std::uint64_t last_received_ns() const override { return received_ns_; }
  bool has_passed_large() const override { return passed_large_; }
  void PassLarge() { passed_large_ = true; }
  rail::RailFigures figures() const override { return {.up = !ended_}; }
  void Describe(v1::RailStatus&) const override {}

  void GoDown(rail::DownCause cause) {
    if (std::exchange(ended_, true)) return;
    down_ = cause;
  }

 private:
  std::shared_ptr<Connection> connection_;
  std::size_t side_;
  std::uint64_t received_ns_;
  bool passed_large_ = false;
  bool stopped_ = false;
  bool ended_ = false;
  std::uint32_t transmitted_ = 0;
  std::optional<rail::DownCause> down_;
  Connection::Frame now_;
};

// One run of a daemon: its Links, and their reports.
struct Daemon : link::LinkEvents {
  // The first has the smallest id.
  explicit Daemon(std::size_t side, std::uint64_t life = 0) {
    options.self.id.bytes[0] = static_cast<std::uint8_t>(side + 1);
    options.self.name = std::string(1, static_cast<char>('a' + side));
    options.self.incarnation = 100 + 10 * side + life;
    options.random = [next = 1000 * (side + 1) + 100 * life]() mutable { return ++next; };
    links = std::make_unique<Links>(options, *this);
  }
  link::NodeClaim ClaimOf(const NodeId& node) const override {
    return std::find(wanted.begin(), wanted.end(), node) == wanted.end() ? link::NodeClaim::kComes
                                                                         : link::NodeClaim::kInJob;
  }
  void OnSameId(const NodeId&, const std::string&) override { ++same_ids; }

  const NodeId& id() const { return options.self.id; }
  absl::Status Say(const Daemon& to, const std::string& text) {
    wire::FrameHeader header;
    header.type = wire::FrameType::kControl;
    header.payload_bytes = static_cast<std::uint32_t>(text.size());
    return links->Send(to.id(), header, reinterpret_cast<const std::byte*>(text.data()), 0);
  }
  // Each turn is a tick.
  void Pass(std::uint64_t seconds, std::uint64_t& now_ns) {
    for (const std::uint64_t end_ns = now_ns + seconds * 1'000'000'000; now_ns < end_ns;) {
      now_ns += options.heartbeat_interval_ns;
      links->OnTime(now_ns);
      links->Poll(now_ns);
    }
  }

  link::FabricOptions options;
  std::vector<NodeId> wanted;  // Jobs have ranks there.
  int same_ids = 0;
  std::unique_ptr<Links> links;
};

// A node that no Daemon runs, and its introduction.
inline NodeId Stranger(int number) {
  NodeId id;
  id.bytes = {99, static_cast<std::uint8_t>(number / 256), static_cast<std::uint8_t>(number % 256)};
  return id;
}
inline wire::Introduction StrangersIntroduction(std::uint64_t known_session = 0) {
  wire::Introduction theirs{};
  theirs.session = 5;
  theirs.known_peer_session = known_session;
  theirs.next_expected = 1;
  return theirs;
}

// A rail between two, with the same path at both ends.
inline std::shared_ptr<Connection> Join(Daemon& from, Daemon& to, const rail::RailPath& path,
                                        std::uint64_t now_ns, bool small_only = false) {
  const auto connection = std::make_shared<Connection>();
  connection->small_only = small_only;
  const Links::Join dialer = *from.links->BeginAsDialer(to.id(), path);
  const Links::Join acceptor = *to.links->BeginAsAcceptor(
      from.id(), path, dialer.own, to.links->MarkOf(from.id(), path), now_ns);
  const auto finish = [&](Daemon& daemon, const Links::Join& own, std::size_t side,
                          const Links::Join& other) {
    const absl::Status done = daemon.links->Finish(
        own, std::make_unique<PaperRail>(connection, side, now_ns), other.own, now_ns);
    EXPECT_TRUE(done.ok()) << done;
  };
  finish(to, acceptor, 1, dialer);
  finish(from, dialer, 0, acceptor);
  to.links->Poll(now_ns);  // Its large frame is answered.
  return connection;
}

}  // namespace mlxcomm::fabric
