// Which neighbours are found, and by what; strangers, recordings and floods must have no effect.
#include "daemon/discovery/discovery.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/daemon/discovery/hellos.h"
#include "tests/unit/daemon/discovery/segment.h"

namespace mlxcomm::discovery::discovery_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// Two nodes on a cable, whose third end the test holds.
class DiscoveryTest : public testing::Test {
 protected:
  DiscoveryTest() {
    segments_.Add(1);
    segments_.Add(2);
  }
  void Join() {
    segments_.Plug(1, "en0", 0);
    segments_.Plug(2, "en0", 0);
    segments_.RunFor(100 * kMs);
  }
  Discovery& one() { return segments_.node(1).discovery(); }
  // Delivers this to node 1 on its interface.
  void Give(const std::vector<std::uint8_t>& bytes, std::uint16_t from) {
    one().OnDatagram("en0", AddressOf(from, 0), bytes, segments_.now());
  }

  Segments segments_{1};
  HelloSeal seal_{KeyOf(1), "lab"};
};

TEST_F(DiscoveryTest, FindsTheOtherWithinAFewMilliseconds) {
  segments_.Plug(1, "en0", 0);
  segments_.RunFor(30'000 * kMs);  // The first one has been there for a long time.
  segments_.Plug(2, "en0", 0);
  segments_.RunFor(60 * kMs);
  EXPECT_EQ(segments_.node(1).heard(segments_.now()), 1u);
  EXPECT_EQ(segments_.node(2).heard(segments_.now()), 1u);
  EXPECT_TRUE(one().Knows(NodeOf(2), "en0", "en0"));
}

TEST_F(DiscoveryTest, OnlyTheSmallerIdDials) {
  Join();
  EXPECT_THAT(segments_.node(1).dialed(), ElementsAre("[fe80::2:0%en0]:7470"));
  EXPECT_THAT(segments_.node(2).dialed(), IsEmpty());
}

TEST_F(DiscoveryTest, SaysLittleOnceAllIsKnown) {
  Join();
  segments_.RunFor(5'000 * kMs);
  const std::uint64_t before = segments_.said();
  segments_.RunFor(60'000 * kMs);
  EXPECT_LE(segments_.said() - before, 2 * 36u);  // One in 2 s each, a little early.
}

// Both have two interfaces on one switch: four pairs hear each other, two are enough.
TEST_F(DiscoveryTest, UsesEachInterfaceOnceForANodeOnASwitch) {
  for (std::uint16_t node = 1; node <= 2; ++node) {
    segments_.Plug(node, "en0", 0, 0);
    segments_.Plug(node, "en1", 0, 1);
  }
  segments_.RunFor(3'000 * kMs);
  EXPECT_EQ(segments_.node(1).heard(segments_.now()), 4u);
  EXPECT_THAT(segments_.node(1).dialed(), SizeIs(2));
  EXPECT_GT(one().counters().looped(), 0u);
  EXPECT_NE(one().FaultOf("en0", segments_.now()).text.find("en1"), std::string::npos);
  // Why: a fault that is fixed must not be reported forever.
  segments_.Unplug(1, "en1");
  segments_.RunFor(Discovery::kLostNs);
  EXPECT_EQ(one().FaultOf("en0", segments_.now()).text, "");
}

TEST_F(DiscoveryTest, FindsADaemonAgainThatWasRestarted) {
  Join();
  segments_.Unplug(2, "en0");
  segments_.Add(2);
  segments_.Plug(2, "en0", 0, 3);  // With another address.
  segments_.RunFor(100 * kMs);
  EXPECT_THAT(segments_.node(1).dialed(), ElementsAre("[fe80::2:3%en0]:7470"));
  EXPECT_EQ(segments_.node(1).heard(segments_.now()), 1u);
}

TEST_F(DiscoveryTest, LosesAndForgetsWhoIsSilent) {
  Join();
  segments_.End(2);
  segments_.RunFor(Discovery::kLostNs + 3'000 * kMs);
  EXPECT_EQ(segments_.node(1).heard(segments_.now()), 0u);
  EXPECT_THAT(segments_.node(1).dialed(), SizeIs(1));  // Perhaps only its hellos are lost.
  segments_.RunFor(Discovery::kDialNs);
  EXPECT_THAT(segments_.node(1).dialed(), IsEmpty());
  EXPECT_THAT(one().Neighbours(), SizeIs(1));
  segments_.RunFor(Discovery::kForgetNs);
  EXPECT_THAT(one().Neighbours(), IsEmpty());
}

// While the key is being changed some hold both; they meet nodes with the old one and nodes with
// the new one.
TEST_F(DiscoveryTest, SaysHelloWithEachOfItsKeys) {
  std::mt19937_64 random(5);
  class Silent final : public DiscoveryPort {
   public:
    void SendHello(const std::string&, const wire::DiscoveryHello& hello) override {
      const auto* const first = reinterpret_cast<const std::uint8_t*>(&hello);
      said.emplace_back(first, first + sizeof hello);
    }
    void Dial(const std::string&) override {}
    void StopDialing(const std::string&) override {}
    std::vector<std::vector<std::uint8_t>> said;
  } port;
  DiscoveryOptions options;
  options.self = {NodeOf(5), "node-5", "test", 5};
  options.cluster = "lab";
  options.keys = {KeyOf(2), KeyOf(1)};
  Discovery changing(options, port);
  changing.OnInterfaceUp({"en0", AddressOf(5, 0), 7470}, segments_.now());
  ASSERT_THAT(port.said, SizeIs(2));
  EXPECT_TRUE(HelloSeal(KeyOf(2), "lab").Open(port.said[0]).has_value());
  EXPECT_TRUE(seal_.Open(port.said[1]).has_value());
  changing.OnDatagram("en0", AddressOf(7, 0), BytesOf(HelloOf(7, 1), seal_), segments_.now());
  EXPECT_EQ(changing.counters().foreign(), 0u);
}

TEST_F(DiscoveryTest, CountsGarbageAndForgeries) {
  Join();
  Give({}, 9);
  Give(std::vector<std::uint8_t>(744), 9);
  Give(std::vector<std::uint8_t>(9000, 0xff), 9);
  EXPECT_EQ(one().counters().malformed(), 3u);
  std::vector<std::uint8_t> forged = BytesOf(HelloOf(9, 1), seal_);
  forged.back() ^= 1;
  Give(forged, 9);
  EXPECT_EQ(one().counters().forged(), 1u);
  EXPECT_EQ(segments_.node(1).heard(segments_.now()), 1u);
}

// Why: a stranger that had recorded a whole conversation could otherwise play one side of it later.
TEST_F(DiscoveryTest, RefusesANonceOfAnEarlierTime) {
  Join();
  Give(BytesOf(ReplyOf(9, 1, /*nonce=*/12345), seal_), 9);
  EXPECT_EQ(one().counters().replayed(), 1u);
  EXPECT_THAT(one().Neighbours(), SizeIs(1));
}

TEST_F(DiscoveryTest, RefusesALifeThatHasEnded) {
  Join();
  const auto before = seal_.Open(segments_.last_said(1));  // Has the nonce of node 1.
  wire::DiscoveryHello hello = ReplyOf(9, 1, before->nonce);
  const std::vector<std::uint8_t> first_life = BytesOf(hello, seal_);
  Give(first_life, 9);
  EXPECT_EQ(segments_.node(1).heard(segments_.now()), 2u);
  hello.incarnation += 1;
  Give(BytesOf(hello, seal_), 9);
  EXPECT_EQ(one().counters().replayed(), 0u);
  hello.incarnation -= 1;
  hello.sequence = 50;  // Even one that was never delivered.
  Give(BytesOf(hello, seal_), 9);
  Give(first_life, 9);
  EXPECT_EQ(one().counters().replayed(), 2u);
}

TEST_F(DiscoveryTest, TakesOnlyHellosWhoseNumbersRise) {
  Join();
  const auto before = seal_.Open(segments_.last_said(1));
  const auto give = [&](std::uint64_t sequence) {
    const std::uint64_t replayed = one().counters().replayed();
    Give(BytesOf(ReplyOf(9, sequence, before->nonce), seal_), 9);
    return one().counters().replayed() == replayed;
  };
  EXPECT_TRUE(give(100));
  EXPECT_TRUE(give(102));
  EXPECT_FALSE(give(102));
  EXPECT_FALSE(give(101));
}

// Why: a new node must be found while a stranger floods the switch.
TEST_F(DiscoveryTest, FindsANewNodeWhileAStrangerForges) {
  Join();
  std::vector<std::uint8_t> forged = BytesOf(HelloOf(9, 1), seal_);
  forged.back() ^= 1;
  segments_.Add(3);
  segments_.Plug(3, "en0", 0);
  for (int i = 0; i < 100; ++i) {
    for (int k = 0; k < 70; ++k) Give(forged, 9);
    segments_.RunFor(kMs);
  }
  EXPECT_GE(one().counters().over_limit(), 6'900u);
  EXPECT_TRUE(one().Knows(NodeOf(3), "en0", "en0"));
}

// Why: proofs are dear. What is seen without one uses up none.
TEST_F(DiscoveryTest, ChecksNoProofOfARecording) {
  Join();
  const std::vector<std::uint8_t> recorded = segments_.last_said(2);
  for (std::uint64_t i = 0; i < 1'000; ++i) {
    Give(recorded, 2);
    Give(BytesOf(HelloOf(9, 1), seal_), 8);
  }
  EXPECT_EQ(one().counters().replayed(), 2'000u);
  EXPECT_EQ(one().counters().over_limit(), 0u);
}

// How: forgeries from so many addresses that no ration is left for any.
TEST_F(DiscoveryTest, HearsItsNeighbourThoughStrangersInventAddresses) {
  Join();
  for (int round = 0; round < 20; ++round) {
    for (std::uint16_t i = 100; i < 20'000; ++i) {
      std::vector<std::uint8_t> forged(sizeof(wire::DiscoveryHello));
      std::ranges::copy(BytesOf(HelloOf(i, 1), seal_), forged.begin());
      forged.back() ^= 1;
      Give(forged, i);
    }
    segments_.RunFor(1'000 * kMs);
  }
  EXPECT_EQ(segments_.node(1).heard(segments_.now()), 1u);
}

// How: ten thousand at once, as fast as a wire carries them.
TEST_F(DiscoveryTest, LooksAtSoManyOnlyAndSaysSoManyOnly) {
  Join();
  const std::uint64_t said = segments_.said();
  for (std::uint64_t i = 1; i <= 10'000; ++i) {
    Give(BytesOf(HelloOf(static_cast<std::uint16_t>(i), 1), seal_), static_cast<std::uint16_t>(i));
  }
  EXPECT_GE(one().counters().over_limit(),
            10'000 - Discovery::kRationsMax * static_cast<std::size_t>(Discovery::kProofs.burst));
  EXPECT_THAT(one().Neighbours(), SizeIs(1));
  segments_.RunFor(1'000 * kMs);
  EXPECT_LE(segments_.said() - said, 60u);
  // Its neighbour is heard all the same.
  segments_.RunFor(30'000 * kMs);
  EXPECT_EQ(segments_.node(1).heard(segments_.now()), 1u);
}

// Of the nodes that hold the key, a limited number is remembered.
TEST_F(DiscoveryTest, RemembersSoManyNeighboursOnly) {
  segments_.Plug(1, "en0", 0);
  for (std::uint16_t i = 100; i < 2'000; ++i) {
    segments_.RunFor(10 * kMs);
    const auto own = seal_.Open(segments_.last_said(1));
    Give(BytesOf(ReplyOf(i, 1, own->nonce), seal_), i);
    ASSERT_LE(one().Neighbours().size(), Discovery::kNeighboursMax);
  }
  EXPECT_THAT(one().Neighbours(), SizeIs(Discovery::kNeighboursMax));
  EXPECT_GT(one().counters().over_limit(), 0u);
}

TEST_F(DiscoveryTest, CountsItsOwnHelloWhenSomebodyElseSaysIt) {
  segments_.Plug(1, "en0", 0, 0);
  one().OnDatagram("en0", AddressOf(1, 0), segments_.last_said(1), segments_.now());
  EXPECT_EQ(one().counters().replayed(), 0u);  // The system's own copy.
  one().OnDatagram("en0", AddressOf(9, 9), segments_.last_said(1), segments_.now());
  EXPECT_EQ(one().counters().replayed(), 1u);
  EXPECT_EQ(one().counters().looped(), 0u);
}

TEST_F(DiscoveryTest, TellsOfAnotherMachineWithTheSameId) {
  segments_.Plug(1, "en0", 0);
  Segments other(2);
  other.Add(1);
  other.Plug(1, "en0", 0, 9);
  // The two hear each other.
  for (int i = 0; i < 3; ++i) {
    one().OnDatagram("en0", AddressOf(1, 9), other.last_said(1), segments_.now());
    other.node(1).discovery().OnDatagram("en0", AddressOf(1, 0), segments_.last_said(1),
                                         other.now());
    segments_.RunFor(50 * kMs);
    other.RunFor(50 * kMs);
  }
  EXPECT_NE(one().FaultOf("en0", segments_.now()).text.find("has this node's id"),
            std::string::npos);
}

// How: many nodes at once on a switch that loses a third of all datagrams; both sides of a link
// must agree on it.
class LossyDiscoveryTest : public testing::TestWithParam<std::uint64_t> {};

TEST_P(LossyDiscoveryTest, AllFindEachOther) {
  SCOPED_TRACE(GetParam());
  constexpr std::uint16_t kNodes = 16;
  Segments segments(GetParam(), /*loss=*/0.3);
  for (std::uint16_t i = 1; i <= kNodes; ++i) {
    segments.Add(i);
    segments.Plug(i, "en0", 0);
  }
  segments.RunFor(60'000 * kMs);
  for (std::uint16_t i = 1; i <= kNodes; ++i) {
    // Some may have lost five hellos in a row, so that their sender seems silent.
    EXPECT_THAT(segments.node(i).discovery().Neighbours(), SizeIs(kNodes - 1u));
    EXPECT_THAT(segments.node(i).dialed(), SizeIs(kNodes - i));
    EXPECT_EQ(segments.node(i).discovery().counters().forged(), 0u);
    EXPECT_EQ(segments.node(i).discovery().counters().replayed(), 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, LossyDiscoveryTest, testing::Range<std::uint64_t>(1, 11));

}  // namespace
}  // namespace mlxcomm::discovery::discovery_test
