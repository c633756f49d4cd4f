// The rules for every threaded rail, whatever its transport: two links over several rails. What the
// threads share (claims, budgets, waiting commands) must stay correct while rails are cut or lose
// frames.
//
// A file per transport includes this and makes its rails.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/link/link.h"
#include "daemon/platform/machine.h"
#include "daemon/platform/wakeup.h"
#include "tests/unit/daemon/link/link_events.h"
#include "tests/unit/daemon/link/status_of.h"
#include "tests/unit/looks.h"
#include "tests/unit/never.h"
#include "tests/unit/seeds.h"

namespace mlxcomm::link {

using testing::IsEmpty;

inline constexpr std::uint32_t kChunk = 32 * 1024;
inline constexpr std::size_t kCutsMin = 3;

// Makes rails of one kind, two ends at a time.
class RailMaker {
 public:
  virtual ~RailMaker() = default;
  virtual std::array<std::unique_ptr<rail::Rail>, 2> Make(platform::Wakeup& bell) = 0;
  // The `which`th rail carries nothing any more; at least one end notices. Returns false if a test
  // cannot break it.
  virtual bool Cut(std::size_t which) = 0;
  // More cuts take too long if the other end notices only by silence.
  virtual std::size_t cuts_max() const { return 60; }
  // The silence after which a rail is dropped: longer than a busy machine delays any thread.
  virtual std::uint64_t silence_ns() const { return 10'000'000'000; }
  // One in this many steps of a test is executed.
  virtual std::uint32_t steps_divisor() const { return 1; }
};
using RailMakerFactory = std::function<std::unique_ptr<RailMaker>()>;

// Adds each byte of a step; a wrong sum shows by how much.
inline void AddBytes(const rail::PostedReceive& receive, std::uint64_t offset,
                     const std::byte* staged, std::uint32_t bytes) {
  for (std::uint32_t i = 0; i < bytes; ++i) {
    std::byte& sum = receive.destination[offset + i];
    sum = static_cast<std::byte>(std::to_integer<int>(sum) + std::to_integer<int>(staged[i]));
  }
}

// Receives step after step, and sends what the peer requests.
class Side : public LinkEvents {
 public:
  Side() : link(options, NodeId{}, *this) {}

  void OnGrant(const NodeId&, const wire::FrameHeader& grant) override {
    wire::FrameHeader header;
    header.type = wire::FrameType::kData;
    header.number = grant.number;
    for (std::size_t at = 0; at < source.size(); at += kChunk) {
      header.offset = at;
      header.payload_bytes =
          static_cast<std::uint32_t>(std::min<std::size_t>(kChunk, source.size() - at));
      ASSERT_TRUE(link.Send(header, source.data() + at, 1).ok());
      ++sent;
    }
  }
  void OnDataReceived(const NodeId&, const wire::FrameHeader& header) override {
    received += header.payload_bytes;
    if (received < target.size()) return;
    // Complete: it must be right, and nothing may touch it any more.
    const std::byte added = number % 2 == 0 ? std::byte{1} : std::byte{0};
    for (std::size_t i = 0; i < target.size(); ++i) {
      const int expected = std::to_integer<int>(theirs[i]) + std::to_integer<int>(added);
      if (target[i] != static_cast<std::byte>(expected)) ++wrong;
    }
    if (number < last) Ask();
  }

  // The next step: copied if its number is odd, added if it is even.
  void Ask() {
    ++number;
    received = 0;
    std::fill(target.begin(), target.end(), number % 2 == 0 ? std::byte{1} : std::byte{0});
    rail::PostedReceive receive;
    receive.key.number = number;
    receive.bytes = target.size();
    receive.destination = target.data();
    if (number % 2 == 0) receive.place = AddBytes;
    ASSERT_TRUE(link.PostReceive(receive).ok());
    wire::FrameHeader grant;
    grant.type = wire::FrameType::kGrant;
    grant.number = number;
    ASSERT_TRUE(link.Send(grant, nullptr, 0).ok());
  }
  bool done() const {
    return number == last && received == target.size() && released.size() == sent;
  }

  FabricOptions options;
  std::vector<std::byte> source, theirs, target;  // Used by rails until the link is destroyed.
  Link link;
  std::uint64_t number = 0, last = 0, received = 0, wrong = 0, sent = 0;
};

class RailContractTest : public testing::TestWithParam<RailMakerFactory> {
 protected:
  RailContractTest() : maker(GetParam()()) {
    for (Side& side : sides) {
      side.options.heartbeat_timeout_ns = maker->silence_ns();
      // One side may have no rail for as long as the other takes to notice, and more.
      side.options.grace_period_ns = 4 * maker->silence_ns();
    }
  }
  void Prepare(std::size_t bytes, std::uint32_t steps) {
    for (int i : {0, 1}) {
      sides[i].last = Steps(steps);
      sides[i].target.resize(bytes);
      sides[i].source.resize(bytes);
      for (std::size_t k = 0; k < bytes; ++k) {
        sides[i].source[k] =
            static_cast<std::byte>((k * 31 + k / 251 + static_cast<std::size_t>(i)) & 0x7f);
      }
    }
    sides[0].theirs = sides[1].source;
    sides[1].theirs = sides[0].source;
  }
  std::uint32_t Steps(std::uint32_t usual) const {
    return std::max(Seeds(usual) / maker->steps_divisor(), 1u);
  }
  void Join() {
    const std::string name = "rail " + std::to_string(names.size());
    names.push_back(name);
    std::array<std::unique_ptr<rail::Rail>, 2> rails = maker->Make(bell);
    wire::Introduction reported[2];
    Link::Standing standing[2];
    for (int i : {0, 1}) {
      standing[i] = sides[i].link.standing();
      reported[i] = IntroductionOf(sides[i].link);
    }
    for (int i : {0, 1}) {
      ASSERT_NE(rails[static_cast<std::size_t>(i)], nullptr);
      const absl::Status added = sides[i].link.AddRail(
          std::move(rails[static_cast<std::size_t>(i)]), {name, name}, NodeIdentity{},
          reported[1 - i], standing[i], platform::MonotonicNow());
      ASSERT_TRUE(added.ok()) << added;
    }
  }
  void Poll() {
    std::size_t count = 0;
    const std::uint64_t now = platform::MonotonicNow();
    for (Side& side : sides) {
      count += side.link.Poll(now);
      if (now >= side.link.deadline_ns()) side.link.OnTime(now);
      side.link.FlushAcknowledgement();
    }
    if (now >= next_tick) {
      for (Side& side : sides) side.link.OnTick(now);
      next_tick = now + 100'000'000;
    }
    looks.Rest(count > 0);
  }
  bool Has(int side, std::size_t which) const {
    return sides[side].link.HasRailOver({names[which], names[which]});
  }
  static void Remove(Side& side, const std::string& name) {
    side.link.RemoveRail({name, name}, {"a test wants it", rail::DownCause::kCut},
                         platform::MonotonicNow());
  }
  void RemoveBoth(std::size_t which) {
    for (Side& side : sides) Remove(side, names[which]);
  }
  void RunUntil(const std::function<bool()>& done, const std::function<void()>& turn = [] {}) {
    const std::uint64_t deadline = platform::MonotonicNow() + kNeverNs;
    while (!done() && !HasFatalFailure()) {
      Poll();
      turn();
      ASSERT_LT(platform::MonotonicNow(), deadline);
      for (const Side& side : sides) ASSERT_THAT(side.lost, IsEmpty());
    }
  }
  // Runs all steps, and more until it is enough: the progress of rails per turn depends on the
  // machine.
  void RunUntilDone(
      const std::function<void()>& turn = [] {},
      const std::function<bool()>& enough = [] { return true; }) {
    const auto all_done = [this] { return sides[0].done() && sides[1].done(); };
    for (Side& side : sides) side.Ask();
    RunUntil([&] { return all_done() && enough(); },
             [&] {
               turn();
               if (!all_done() || enough()) return;
               for (Side& side : sides) {
                 ++side.last;
                 side.Ask();
               }
             });
    for (const Side& side : sides) {
      EXPECT_EQ(side.wrong, 0u);
      EXPECT_EQ(side.up.size(), 1u);
      EXPECT_EQ(side.link.posted_receives(), 0u);
      EXPECT_EQ(side.link.arrivals().kept_bytes(), 0u);
    }
  }

  platform::Wakeup bell;
  std::unique_ptr<RailMaker> maker;  // Destroyed after the sides.
  Side sides[2];
  std::vector<std::string> names;
  std::uint64_t next_tick = 0;
  Looks looks;
};

TEST_P(RailContractTest, CarriesStepAfterStepOverTwoRails) {
  Prepare(1024 * 1024, 15);
  Join();
  Join();
  ASSERT_EQ(sides[0].link.direct_rails(), 2u);
  // The rail on which a frame would arrive first gets it: on a busy machine one rail for a long
  // time.
  RunUntilDone([] {},
               [&] {
                 const v1::LinkStatus snapshot = StatusOf(sides[0].link);
                 return std::all_of(
                     snapshot.rails().begin(), snapshot.rails().end(),
                     [](const v1::RailStatus& rail) { return rail.sent_bytes() > kChunk; });
               });
}

TEST_P(RailContractTest, CarriesSmallStepsOverOneRail) {
  Prepare(8, 125);
  Join();
  RunUntilDone();
}

// Why: small messages and those too large for a slot must arrive in order.
TEST_P(RailContractTest, CarriesMessagesOfAllSizesInOrder) {
  Join();
  std::vector<std::string> sent;
  for (std::size_t i = 0; i < 60; ++i) {
    const std::size_t bytes = i % 10 == 9 ? 200'000 : 1 + i * 1000 % 16'000;
    sent.push_back(std::string(bytes, static_cast<char>('a' + i % 26)));
    wire::FrameHeader header;
    header.type = wire::FrameType::kControl;
    header.payload_bytes = static_cast<std::uint32_t>(bytes);
    ASSERT_TRUE(
        sides[0].link.Send(header, reinterpret_cast<const std::byte*>(sent.back().data()), 0).ok());
  }
  RunUntil([&] { return sides[1].control.size() == sent.size(); });
  EXPECT_TRUE(sides[1].control == sent);
}

// Why: the grant goes out on one rail, and its data arrives on another, whose thread may not have
// taken the receive yet.
TEST_P(RailContractTest, FindsTheReceiveOfDataOnWhicheverRailItArrives) {
  Prepare(4 * 1024, 75);
  for (int i = 0; i < 3; ++i) Join();
  RunUntilDone();
  EXPECT_EQ(sides[0].link.direct_rails(), 3u);
}

// Why: once a withdrawal is answered, the memory belongs to its owner again, whatever still
// arrives.
TEST_P(RailContractTest, TouchesNothingOfAWithdrawnReceive) {
  Prepare(4 * 1024 * 1024, 1);
  Join();
  const std::size_t rounds = Steps(5);
  for (std::size_t round = 1; round <= rounds; ++round) {
    sides[0].Ask();
    RunUntil([&] { return sides[1].sent > 0; });
    for (std::size_t i = 0; i < round; ++i) Poll();
    OperationKey key;
    key.number = sides[0].number;
    sides[0].link.Withdraw(key);
    RunUntil([&] { return sides[0].withdrawn.size() == round; });
    std::fill(sides[0].target.begin(), sides[0].target.end(), std::byte{0x55});
    RunUntil([&] { return sides[1].released.size() == sides[1].sent; });
    for (const std::byte byte : sides[0].target) ASSERT_EQ(byte, std::byte{0x55});
  }
}

// How: one of three rails is cut at random moments and replaced. One always stays, because either
// side may be slow to notice a cut. If a rail cannot be cut, one side drops it and the other must
// notice by silence: often, and no sooner than in a daemon, because a rail that is dropped too soon
// is replaced as well.
TEST_P(RailContractTest, ContinuesWhileRailsAreCut) {
  for (Side& side : sides) side.options.heartbeat_timeout_ns = FabricOptions{}.heartbeat_timeout_ns;
  Prepare(2 * 1024 * 1024, 10);
  std::mt19937 random(1);
  for (int i = 0; i < 3; ++i) Join();
  int turns = 0;
  std::set<std::size_t> cut;
  const auto is_whole = [&](std::size_t which) {
    return cut.count(which) == 0 && Has(0, which) && Has(1, which);
  };
  RunUntilDone(
      [&] {
        if (++turns % 50 != 0) return;
        const std::size_t which = random() % names.size();
        int whole = 0;
        for (std::size_t i = 0; i < names.size(); ++i) whole += is_whole(i);
        if (is_whole(which) && whole > 1 && cut.size() < maker->cuts_max() && random() % 2 == 0) {
          if (!maker->Cut(which)) Remove(sides[0], names[which]);
          cut.insert(which);
        }
        if (sides[0].link.direct_rails() < 3 && sides[1].link.direct_rails() < 3) Join();
      },
      [&] { return cut.size() >= kCutsMin; });
}

// How: this side drops them, so that half-received frames are stopped.
TEST_P(RailContractTest, ContinuesWhileRailsAreStopped) {
  Prepare(2 * 1024 * 1024, 8);
  for (int i = 0; i < 2; ++i) Join();
  std::size_t next = 0;
  int turns = 0;
  RunUntilDone(
      [&] {
        if (++turns % 100 != 0 || names.size() >= 60) return;
        Join();
        RemoveBoth(next++);
      },
      [&] { return next >= 3; });
}

}  // namespace mlxcomm::link
