// A link over several rails in virtual time: every frame arrives once and unharmed, whichever rail
// ends at whichever moment, and the layers above do not notice.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/daemon/link/status_of.h"
#include "tests/unit/daemon/link/two_sides.h"
#include "tests/unit/seeds.h"

namespace mlxcomm::link::link_rails_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::uint64_t kMs = 1'000'000;
constexpr std::size_t kBytes = 4 * 1024 * 1024;
constexpr std::uint32_t kChunk = 64 * 1024;

std::vector<std::byte> Pattern(std::size_t bytes, std::uint64_t seed = 1) {
  std::vector<std::byte> pattern(bytes);
  for (std::size_t i = 0; i < bytes; ++i) pattern[i] = std::byte((i * 131 + i / 977 + seed) & 0xff);
  return pattern;
}

class LinkRailsTest : public testing::Test {
 protected:
  // a receives what b sends.
  void Begin(TwoSides& two) {
    target.assign(kBytes, std::byte{0});
    two.Post(0, 7, target);
    two.SendGrant(0, 7);
    two.SendData(1, 7, source, kChunk);
  }
  void ExpectDone(TwoSides& two) {
    EXPECT_TRUE(target == source);
    EXPECT_EQ(two.a.data_bytes, kBytes);
    EXPECT_THAT(two.b.released, SizeIs(kBytes / kChunk));
    EXPECT_THAT(two.b.grants, ElementsAre(7));
    EXPECT_THAT(two.a.lost, IsEmpty());
    EXPECT_THAT(two.b.lost, IsEmpty());
    EXPECT_EQ(two.a.link.posted_receives(), 0u);
    EXPECT_EQ(two.b.link.channel().queued(), 0u);
    EXPECT_EQ(two.a.link.channel().queued(), 0u);
    EXPECT_EQ(two.a.link.arrivals().kept_bytes(), 0u);
  }
  const std::vector<std::byte> source = Pattern(kBytes);
  std::vector<std::byte> target;
};

// How: a rail ends after each further frame that has arrived; then its other end, in each possible
// order in which the two ends notice.
TEST_F(LinkRailsTest, ContinuesWhicheverRailEndsAtWhicheverMoment) {
  for (std::size_t frames = 0; frames < kBytes / kChunk; ++frames) {
    for (int how = 0; how < 3; ++how) {
      SCOPED_TRACE(absl::StrCat("after ", frames, " frames, way ", how));
      TwoSides two;
      auto& first = two.Join("first");
      two.Join("second");
      Begin(two);
      two.RunUntil(Link::kNever, [&] { return two.a.data.size() >= frames; });
      if (how == 2) {
        // The receiver has begun with a frame whose rest never arrives.
        first.ends[0]->Read(/*half=*/true);
        first.cable->lanes[1].silent = true;
      }
      two.CutEnd(first, how == 0 ? 0 : 1);
      two.Settle();
      two.RunUntil(two.now + kMs, [] { return false; });
      two.Cut(first);
      two.Run();
      EXPECT_EQ(two.a.link.state(), Link::State::kUp);
      ExpectDone(two);
      if (HasFailure()) return;
    }
  }
}

// Why: a frame that a dying rail had claimed makes the live rail drop its copy, which the sender
// counts as delivered: unless requested, it would never arrive. And each acknowledgement would
// request another copy of a frame of up to a megabyte while the first is still under way.
TEST_F(LinkRailsTest, RequestsADroppedFrameOnceHoweverOftenItAcknowledges) {
  TwoSides two;
  auto& first = two.Join("first");
  Begin(two);
  two.RunUntil(Link::kNever, [&] {
    return !first.cable->lanes[1].frames.empty() && first.cable->lanes[1].frames[0].written &&
           first.cable->lanes[1].frames[0].header.type == wire::FrameType::kData;
  });
  two.now += kMs;
  first.ends[0]->Read(/*half=*/true);
  first.cable->lanes[1].silent = true;
  two.Join("second", Cable::Of(1e9, 20 * kMs));
  two.CutEnd(first, 1);
  two.RunUntil(two.now + 500 * kMs, [] { return false; });
  ASSERT_EQ(two.a.data_bytes, kBytes - kChunk);
  const std::uint64_t resent = two.b.link.channel().resent();
  two.CutEnd(first, 0);
  for (std::uint64_t number = 100; number < 120; ++number) {
    two.SendGrant(1, number);  // a acknowledges each.
    two.RunUntil(two.now + kMs, [] { return false; });
  }
  two.Run();
  ExpectDone(two);
  EXPECT_EQ(two.b.link.channel().resent(), resent + 1);
}

// Why: a loop that is busy with other jobs is never idle, and a job with little traffic would wait
// for its buffers.
// How: a's loop never sleeps.
TEST_F(LinkRailsTest, AcknowledgesSoonThoughTheLoopNeverSleeps) {
  TwoSides two;
  auto& rail = two.Join("rail");
  two.Run();
  two.SendGrant(1, 7);
  for (int turn = 0; turn < 100; ++turn) {
    two.now += kMs / 10;
    for (CableRail* const end : rail.ends) {
      end->Write();
      end->Read();
    }
    two.a.link.Poll(two.now);
    two.b.link.Poll(two.now);
  }
  EXPECT_THAT(two.a.grants, ElementsAre(7));
  EXPECT_EQ(two.b.link.channel().queued(), 0u);
}

// Why: a closed connection looks like the end of a daemon, and neither has ended. The peer must
// find out by silence, as this side has.
// How: b falls silent, then joins again.
TEST_F(LinkRailsTest, KeepsADroppedRailOpenUntilThePeerIsHeardOnAnother) {
  TwoSides two;
  auto& first = two.Join("first");
  Begin(two);
  two.RunUntil(Link::kNever, [&] { return two.a.data.size() >= 10; });
  first.cable->lanes[1].silent = true;
  two.now += two.a.options.heartbeat_timeout_ns + kMs;
  two.a.link.OnTick(two.now);
  EXPECT_EQ(two.a.link.state(), Link::State::kGrace);
  EXPECT_FALSE(two.a.link.lost_by_reset());
  EXPECT_EQ(first.cable->kept_ends, 1);
  two.CutEnd(first, 1);
  two.b.link.Poll(two.now);
  auto& second = two.Join("second");
  two.a.link.OnTick(two.now);
  EXPECT_EQ(first.cable->kept_ends, 2) << "it may not have finished the join";
  two.Run();
  EXPECT_EQ(first.cable->kept_ends, 0);
  ExpectDone(two);
  two.Cut(second);
  EXPECT_EQ(second.cable->kept_ends, 2);
  two.now += two.a.options.grace_period_ns + kMs;
  two.a.link.OnTime(two.now);
  EXPECT_EQ(second.cable->kept_ends, 1) << "lost nodes are notified";
}

TEST_F(LinkRailsTest, KeepsFewDroppedRailsOpen) {
  TwoSides two;
  std::vector<TwoSides::Joined*> joined;
  for (std::size_t i = 0; i <= Link::kRailsMax; ++i) {
    joined.push_back(&two.Join(absl::StrCat("rail ", i)));
    two.Cut(*joined.back());
  }
  EXPECT_EQ(joined.front()->cable->kept_ends, 0);
  for (std::size_t i = 1; i < joined.size(); ++i) EXPECT_EQ(joined[i]->cable->kept_ends, 2);
}

// Why: if this side has finished a join and the other could not, a living daemon closes the
// connection. A connection with traffic is closed because the daemon ended.
TEST_F(LinkRailsTest, TreatsTheEndOfARailWithoutTrafficAsAFailedJoin) {
  TwoSides two;
  two.Cut(two.Join("first"));
  auto& second = two.Join("second");
  two.CutEnd(second, 0, rail::DownCause::kReset);
  two.a.link.Poll(two.now);
  EXPECT_EQ(two.a.link.state(), Link::State::kGrace);
  EXPECT_FALSE(two.a.link.lost_by_reset());
  two.Cut(second);
  auto& third = two.Join("third");
  two.Run();
  two.CutEnd(third, 0, rail::DownCause::kReset);
  two.a.link.Poll(two.now);
  EXPECT_TRUE(two.a.link.lost_by_reset());
}

// Why: an acknowledgement that was lost with its rail would leave the sender with buffers that are
// never released, if nothing else is sent.
TEST_F(LinkRailsTest, AcknowledgesAgainWhenARailEnds) {
  TwoSides two;
  auto& first = two.Join("first");
  two.Join("second");
  Begin(two);
  first.cable->lanes[0].silent = true;  // a's acknowledgements vanish there.
  two.RunUntil(two.now + 500 * kMs, [] { return false; });
  two.Cut(first);
  two.Run();
  ExpectDone(two);
}

TEST_F(LinkRailsTest, AcknowledgesBeforeAControlFrameAcrossRails) {
  TwoSides two;
  auto& first = two.Join("first");
  target.assign(kChunk, std::byte{0});
  two.Post(0, 7, target);
  two.SendGrant(1, 1);  // Missing for a while.
  two.Settle();
  ASSERT_THAT(first.cable->lanes[1].frames, SizeIs(1));
  first.cable->lanes[1].frames[0].arrives_ns += 500 * kMs;
  two.Join("second", Cable::Of(1e12, 10'000));
  std::vector<std::byte> chunk(source.begin(), source.begin() + kChunk);
  two.SendData(1, 7, chunk, kChunk);
  two.RunUntil(two.now + 100 * kMs, [&] { return two.a.data_bytes == kChunk; });
  ASSERT_EQ(two.a.data_bytes, kChunk);
  ASSERT_TRUE(two.a.link.arrivals().has_gaps());
  two.SendControl(0, "all is here, I leave");
  two.RunUntil(two.now + 100 * kMs, [&] { return !two.b.control.empty(); });
  EXPECT_THAT(two.b.released_at_control, ElementsAre(1));
}

// Why: the grant may go out on one rail and its data arrive on another.
TEST_F(LinkRailsTest, SendsNoFrameUntilAllRailsHaveAllReceives) {
  TwoSides two;
  auto& first = two.Join("first");
  auto& second = two.Join("second");
  two.Run();
  std::vector<std::vector<std::byte>> targets(100, std::vector<std::byte>(8));
  for (std::uint64_t i = 0; i < 100; ++i) two.Post(0, i, targets[i]);  // More than a rail takes.
  two.SendGrant(0, 99);
  EXPECT_TRUE(two.a.link.HasWork());
  first.ends[0]->TakeCommands();
  two.a.link.Poll(two.now);
  EXPECT_THAT(first.cable->lanes[0].frames, IsEmpty());
  EXPECT_THAT(second.cable->lanes[0].frames, IsEmpty());
  second.ends[0]->TakeCommands();
  two.a.link.Poll(two.now);
  EXPECT_EQ(first.cable->lanes[0].frames.size() + second.cable->lanes[0].frames.size(), 1u);
}

TEST_F(LinkRailsTest, AnswersAWithdrawalWhenEveryRailHas) {
  for (const bool second_goes : {false, true}) {
    TwoSides two;
    auto& first = two.Join("first");
    auto& second = two.Join("second");
    Begin(two);
    two.RunUntil(Link::kNever, [&] { return two.a.data.size() >= 5; });
    OperationKey key;
    key.number = 7;
    two.a.link.Withdraw(key);
    first.ends[0]->TakeCommands();
    two.a.link.Poll(two.now);
    EXPECT_THAT(two.a.withdrawn, IsEmpty());
    two.a.link.Withdraw({});  // Nothing to withdraw: it waits for its turn.
    if (second_goes) {
      two.CutEnd(second, 0);
    } else {
      second.ends[0]->TakeCommands();
    }
    two.a.link.Poll(two.now);
    two.a.link.Poll(two.now);
    const std::vector<std::byte> as_it_was = target;
    if (second_goes) two.Cut(second);
    two.Run();
    EXPECT_THAT(two.a.withdrawn, ElementsAre(7, 0));
    EXPECT_TRUE(target == as_it_was);
    EXPECT_THAT(two.a.lost, IsEmpty());
    EXPECT_THAT(two.b.released, SizeIs(kBytes / kChunk));
  }
}

// Why: the memory of a completed receive may belong to another owner.
// How: a peer that resends earlier data under the same number and under new ones.
TEST_F(LinkRailsTest, TouchesNothingOfACompletedReceiveWhateverArrives) {
  TwoSides two;
  two.Join("first");
  auto& second = two.Join("second");
  Begin(two);
  two.Run();
  ExpectDone(two);
  const std::vector<std::byte> untouched(kBytes, std::byte{0xee});
  target = untouched;
  Lane::OnWire again;
  again.header.type = wire::FrameType::kData;
  again.header.number = 7;
  again.header.payload_bytes = kChunk;
  again.payload.resize(kChunk);
  again.written = true;
  for (std::uint64_t sequence = 1; sequence <= kBytes / kChunk; ++sequence) {
    again.header.sequence = sequence;
    second.cable->lanes[1].frames.push_back(again);
  }
  two.Settle();
  EXPECT_TRUE(target == untouched);
  EXPECT_EQ(two.a.link.state(), Link::State::kUp);
  EXPECT_EQ(two.a.link.direct_rails(), 2u);
  again.header.sequence = kBytes / kChunk + 1;
  second.cable->lanes[1].frames.push_back(again);
  two.Settle();
  EXPECT_TRUE(target == untouched);
}

TEST_F(LinkRailsTest, LosesAPeerThatSendsTheSameBytesOnTwoRails) {
  TwoSides two;
  auto& first = two.Join("first");
  auto& second = two.Join("second");
  target.assign(kBytes, std::byte{0});
  two.Post(0, 7, target);
  two.Run();
  Lane::OnWire frame;
  frame.header.type = wire::FrameType::kData;
  frame.header.number = 7;
  frame.header.payload_bytes = kChunk;
  frame.payload.resize(kChunk);
  frame.written = true;
  frame.header.sequence = 1;
  first.cable->lanes[1].frames.push_back(frame);
  frame.header.sequence = 2;
  second.cable->lanes[1].frames.push_back(frame);
  two.Settle();
  EXPECT_THAT(two.a.lost, ElementsAre(HasSubstr("broke the protocol")));
  EXPECT_FALSE(two.a.link.has_rail());
}

TEST_F(LinkRailsTest, ResendsWhatAnUnreliableRailLoses) {
  for (std::uint32_t seed = 1; seed <= Seeds(5); ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    TwoSides two({}, seed);
    const Cable lossy = Cable::Lossy(0.1);
    two.Join("first", lossy);
    if (seed % 2 == 0) two.Join("second", lossy);
    if (seed % 3 == 0) two.Join("third");
    Begin(two);
    two.Run();
    ExpectDone(two);
    EXPECT_LT(two.now, 3'000 * kMs);
    if (HasFailure()) return;
  }
}

// Why: a frame that is missing on an only, reliable rail never arrives, and no numbered frame is
// delivered any more. What an unreliable rail loses is resent.
// How: b's first frame is swallowed, and b keeps sending.
TEST_F(LinkRailsTest, DropsAnOnlyReliableRailThatHasNotDeliveredAFrame) {
  for (const bool is_reliable : {true, false}) {
    TwoSides two;
    auto& first = two.Join("first", is_reliable ? Cable{} : Cable::Lossy(0));
    std::vector<std::string> sent = {"0"};
    two.SendControl(1, sent[0]);
    two.now += kMs;
    first.ends[1]->Write();
    first.cable->lanes[1].frames.clear();
    for (int tick = 1; tick <= 60 && two.Has(0, first); ++tick) {
      sent.push_back(std::to_string(tick));
      two.SendControl(1, sent.back());
      two.RunUntil(two.now + 500 * kMs, [] { return false; });
      for (int side = 0; side < 2; ++side) two.SideOf(side).link.OnTick(two.now);
    }
    EXPECT_EQ(two.Has(0, first), !is_reliable);
    if (is_reliable) {
      EXPECT_THAT(two.a.control, IsEmpty());
      EXPECT_GT(sent.size(), 32u) << "a circuit may be silent for 16 seconds";
      EXPECT_LT(sent.size(), 42u) << "more than twenty seconds";
      const v1::LinkStatus status = StatusOf(two.a.link);
      EXPECT_THAT(status.detail(), HasSubstr("frame 1 is missing, but later ones arrived"));
      EXPECT_EQ(status.reason(), v1::LinkReason::bytes_changed);
      EXPECT_EQ(status.changed_frames(), 1u);
      two.CutEnd(first, 1);
      two.b.link.Poll(two.now);
      two.Join("second");
      two.Run();
    }
    EXPECT_EQ(two.a.control, sent);
  }
}

// Why: heartbeats on a circuit queued behind a large broadcast on each cable of the path. The
// circuit was dropped, and so was each new one, until a healthy rank was lost.
TEST_F(LinkRailsTest, LetsACircuitBeSilentLongerThanAConnection) {
  TwoSides two;
  auto& circuit = two.Join("circuit", Cable::Circuit());
  two.Settle();
  const std::uint64_t timeout_ns = two.a.options.heartbeat_timeout_ns;
  circuit.cable->lanes[0].silent = circuit.cable->lanes[1].silent = true;
  const std::uint64_t began = two.now;
  const auto run_to = [&](std::uint64_t after_ns) {
    while (two.now < began + after_ns) {
      two.RunUntil(std::min(two.now + timeout_ns / 8, began + after_ns), [] { return false; });
      for (int side = 0; side < 2; ++side) two.SideOf(side).link.OnTick(two.now);
    }
  };
  run_to(7 * timeout_ns);
  EXPECT_EQ(two.a.link.state(), Link::State::kUp);
  run_to(9 * timeout_ns);
  EXPECT_EQ(two.a.link.state(), Link::State::kGrace);
}

// Why: a queue pair does not show its end, so only its connection shows that a daemon has ended;
// but something in between may have cut that.
TEST_F(LinkRailsTest, RemovesASideRailOfAClosedConnectionUnlessItIsHeard) {
  for (const bool is_heard : {false, true}) {
    TwoSides two;
    auto& first = two.Join("first");
    auto& second = two.Join("second");
    auto& beside = two.Join("rdma", Cable::Lossy(0));
    Begin(two);  // So that each rail has received something.
    two.Run();
    for (int side = 0; side < 2; ++side) two.CutEnd(first, side, rail::DownCause::kReset);
    two.RunUntil(two.now + 1000 * kMs, [] { return false; });
    EXPECT_TRUE(two.Has(0, beside)) << "another connection is left that shows it";

    beside.cable->lanes[1].silent = !is_heard;
    for (int side = 0; side < 2; ++side) {
      two.CutEnd(second, side, rail::DownCause::kReset);
      two.SideOf(side).link.Poll(two.now);
    }
    EXPECT_EQ(two.a.link.state(), Link::State::kUp);
    two.SendControl(1, "alive");
    two.RunUntil(two.now + 150 * kMs, [] { return false; });
    EXPECT_EQ(two.Has(0, beside), is_heard);
    EXPECT_EQ(two.a.link.state(), is_heard ? Link::State::kUp : Link::State::kGrace);
    EXPECT_EQ(two.a.link.lost_by_reset(), !is_heard);
  }
}

// Why: a rail of one kind may serve two transports, so its path has the transport.
TEST_F(LinkRailsTest, ReportsTheTransportOfEachRailsPath) {
  TwoSides two;
  two.Join("first");
  two.Join("rdma");
  std::vector<v1::Transport::Value> transports;
  const v1::LinkStatus status = StatusOf(two.a.link);
  for (const v1::RailStatus& rail : status.rails()) transports.push_back(rail.transport());
  EXPECT_THAT(transports, ElementsAre(v1::Transport::tcp, v1::Transport::rdma));
}

TEST_F(LinkRailsTest, UsesCircuitsOnlyWithoutAConnection) {
  TwoSides two;
  two.Join("circuit 1", Cable::Circuit());
  EXPECT_FALSE(two.a.link.is_neighbour());
  Begin(two);
  two.RunUntil(Link::kNever, [&] { return two.a.data.size() >= 5; });
  two.Join("circuit 2", Cable::Circuit());
  EXPECT_FALSE(two.a.link.HasRailOver(two.PathOf("circuit 1")));
  two.RunUntil(Link::kNever, [&] { return two.a.data.size() >= 10; });
  two.Join("cable");
  EXPECT_TRUE(two.a.link.is_neighbour());
  EXPECT_FALSE(two.a.link.HasRailOver(two.PathOf("circuit 2")));
  two.Run();
  ExpectDone(two);
  auto late = std::make_unique<CableRail>(std::make_shared<Cable>(Cable::Circuit()), 0, two.now);
  EXPECT_TRUE(absl::IsAborted(two.a.link.AddRail(std::move(late), two.PathOf("circuit 3"),
                                                 two.a.link.peer(), IntroductionOf(two.b.link),
                                                 two.a.link.standing(), two.now)));
}

TEST_F(LinkRailsTest, RefusesASecondRailOverAPathAndMoreThanTheMaximum) {
  TwoSides two;
  for (std::size_t i = 0; i < Link::kRailsMax; ++i) two.Join(absl::StrCat("rail ", i));
  const auto add = [&](const std::string& name) {
    return two.a.link.AddRail(std::make_unique<CableRail>(std::make_shared<Cable>(), 0, two.now),
                              two.PathOf(name), two.a.link.peer(), IntroductionOf(two.b.link),
                              two.a.link.standing(), two.now);
  };
  EXPECT_TRUE(absl::IsAborted(add("rail 3")));
  EXPECT_TRUE(absl::IsResourceExhausted(add("another")));
  Begin(two);
  two.Run();
  ExpectDone(two);
}

// Why: all of the above at once, in unforeseen mixtures.
// How: rails of all kinds come and go at either end while both sides receive and send; at the end
// there is one sound rail, and everything must have arrived, once and in order.
TEST_F(LinkRailsTest, DeliversEverythingWhileRailsComeAndGoAtRandom) {
  for (std::uint32_t seed = 1; seed <= Seeds(15); ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    FabricOptions options;
    options.grace_period_ns = 1'000'000 * kMs;
    options.reset_grace_ns = 1'000'000 * kMs;
    TwoSides two(options, seed);
    std::mt19937 random(seed);
    two.Join("begin");
    std::deque<std::vector<std::byte>> targets[2];
    std::deque<std::vector<std::byte>> sources[2];
    std::uint64_t grants[2] = {0, 0};
    for (int turn = 0; turn < 150; ++turn) {
      const int side = static_cast<int>(random() % 2);
      TwoSides::Joined& some = *two.rails[random() % two.rails.size()];
      switch (random() % 8) {
        case 0:
        case 1: {
          const std::uint64_t number = 1000 + targets[side].size();
          targets[side].emplace_back(1 + random() % 300'000);
          sources[side].push_back(Pattern(targets[side].back().size(), number));
          two.Post(side, number, targets[side].back());
          two.SendGrant(side, ++grants[side]);
          two.SendData(1 - side, number, sources[side].back(),
                       static_cast<std::uint32_t>(2'000 + random() % 60'000));
          break;
        }
        case 2: two.SendGrant(side, ++grants[side]); break;
        case 3:
          if (two.a.link.direct_rails() < 4 && two.b.link.direct_rails() < 4) {
            Cable cable = Cable::Lossy(0.1);
            cable.reliable = random() % 3 != 0;
            for (Lane& lane : cable.lanes) {
              lane.bytes_per_second = 1e7 * static_cast<double>(1 + random() % 200);
              lane.latency_ns = random() % (2 * kMs);
            }
            two.Join(absl::StrCat("rail ", turn), cable);
          }
          break;
        case 4: two.CutEnd(some, side); break;
        case 5: two.Cut(some); break;
        default: two.RunUntil(two.now + random() % (3 * kMs), [] { return false; });
      }
      // An end whose other end is gone learns of it eventually.
      for (const auto& joined : two.rails) {
        if (random() % 3 != 0) continue;
        for (int end = 0; end < 2; ++end) {
          if (two.Has(end, *joined) && !two.Has(1 - end, *joined)) two.CutEnd(*joined, end);
        }
      }
    }
    for (const auto& joined : two.rails) two.Cut(*joined);
    two.Join("end");
    two.Run();
    for (int side = 0; side < 2; ++side) {
      for (std::size_t i = 0; i < targets[side].size(); ++i) {
        ASSERT_TRUE(targets[side][i] == sources[side][i]) << "receive " << i << " of " << side;
      }
      ASSERT_EQ(two.SideOf(1 - side).grants.size(), grants[side]);
      for (std::uint64_t i = 0; i < grants[side]; ++i) {
        ASSERT_EQ(two.SideOf(1 - side).grants[i], i + 1);
      }
      ASSERT_THAT(two.SideOf(side).lost, IsEmpty());
      ASSERT_EQ(two.SideOf(side).link.posted_receives(), 0u);
      ASSERT_EQ(two.SideOf(side).link.channel().queued(), 0u);
    }
    ASSERT_EQ(two.a.released.size() + two.b.released.size(), two.cookie);
  }
}

}  // namespace
}  // namespace mlxcomm::link::link_rails_test
