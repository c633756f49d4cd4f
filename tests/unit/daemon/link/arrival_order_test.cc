// The receiving half: detects copies, keeps early frames until their turn, and limits what a peer
// can make it keep.
#include "daemon/link/arrival_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

namespace mlxcomm::link::arrival_order_test {
namespace {

using testing::ElementsAre;
using Arrival = ArrivalOrder::Arrival;

class ArrivalOrderTest : public testing::Test {
 protected:
  static wire::FrameHeader Header(std::uint64_t sequence, std::uint32_t bytes) {
    wire::FrameHeader header;
    header.type = wire::FrameType::kEager;
    header.sequence = sequence;
    header.payload_bytes = bytes;
    return header;
  }
  bool Keep(std::uint64_t sequence, std::vector<std::byte> payload) {
    return order.Keep(Header(sequence, static_cast<std::uint32_t>(payload.size())), payload,
                      nullptr) == ArrivalOrder::Keeping::kKept;
  }
  std::vector<std::uint64_t> Due() {
    std::vector<std::uint64_t> sequences;
    std::span<const std::byte> payload;
    while (const wire::FrameHeader* const header = order.NextDue(payload)) {
      sequences.push_back(header->sequence);
      EXPECT_EQ(payload.size(), header->payload_bytes);
      for (const std::byte byte : payload) EXPECT_EQ(byte, std::byte(header->sequence & 0xff));
    }
    return sequences;
  }

  rail::ArrivalClaims claims;
  ArrivalOrder order{claims};
};

TEST_F(ArrivalOrderTest, DistinguishesNextEarlyDuplicateAndBeyondTheWindow) {
  EXPECT_EQ(order.OnArrived(1), Arrival::kNext);
  EXPECT_EQ(order.OnArrived(1), Arrival::kDuplicate);
  EXPECT_EQ(order.OnArrived(3), Arrival::kEarly);
  EXPECT_EQ(order.OnArrived(3), Arrival::kDuplicate);
  EXPECT_EQ(order.OnArrived(1 + wire::kWindow), Arrival::kEarly);
  EXPECT_EQ(order.OnArrived(2 + wire::kWindow), Arrival::kViolation);
  EXPECT_TRUE(order.has_gaps());
  EXPECT_EQ(order.received(), 1u);
  EXPECT_EQ(order.OnArrived(2), Arrival::kNext);
  EXPECT_EQ(order.received(), 3u);
}

TEST_F(ArrivalOrderTest, ReturnsEarlyFramesInTheirTurn) {
  for (const std::uint64_t sequence : {4u, 2u, 3u}) {
    EXPECT_EQ(order.OnArrived(sequence), Arrival::kEarly);
    // 3 is data, which is delivered at once.
    if (sequence != 3) {
      ASSERT_TRUE(Keep(sequence, std::vector<std::byte>(10, std::byte(sequence))));
    }
  }
  EXPECT_EQ(order.kept_bytes(), 20u);
  EXPECT_EQ(order.OnArrived(1), Arrival::kNext);
  EXPECT_THAT(Due(), ElementsAre(2, 4));
  EXPECT_EQ(order.kept_bytes(), 0u);
}

TEST_F(ArrivalOrderTest, KeepsLargeControlMessagesWithoutCopy) {
  auto control = std::make_unique<std::vector<std::byte>>(100'000, std::byte{2});
  const std::byte* const at = control->data();
  EXPECT_EQ(order.OnArrived(2), Arrival::kEarly);
  const std::span<const std::byte> payload(*control);
  ASSERT_EQ(order.Keep(Header(2, 100'000), payload, std::move(control)),
            ArrivalOrder::Keeping::kKept);
  EXPECT_EQ(order.OnArrived(1), Arrival::kNext);
  std::span<const std::byte> kept;
  ASSERT_NE(order.NextDue(kept), nullptr);
  EXPECT_EQ(kept.data(), at);
  EXPECT_EQ(order.NextDue(kept), nullptr);
}

TEST_F(ArrivalOrderTest, RefusesToKeepMoreThanAnHonestPeerSends) {
  std::uint64_t sequence = 2;
  for (; order.kept_bytes() + wire::kControlBytesMax <= wire::kEarlyBytesMax; ++sequence) {
    ASSERT_EQ(order.OnArrived(sequence), Arrival::kEarly);
    ASSERT_TRUE(
        Keep(sequence, std::vector<std::byte>(wire::kControlBytesMax, std::byte(sequence & 0xff))));
  }
  ASSERT_EQ(order.OnArrived(sequence), Arrival::kEarly);
  EXPECT_FALSE(Keep(sequence, std::vector<std::byte>(1)));
}

// Why: one neighbour may keep a window of frames waiting for an earlier one. Sixty-four identities
// that all did so made a daemon hold more than a gigabyte.
TEST_F(ArrivalOrderTest, LimitsWhatAllPeersTogetherMayKeep) {
  EarlyBudget budget;
  std::vector<std::unique_ptr<rail::ArrivalClaims>> ranges;
  std::vector<std::unique_ptr<ArrivalOrder>> peers;
  std::uint64_t held = 0;
  for (int peer = 0; peer < 64; ++peer) {
    ranges.push_back(std::make_unique<rail::ArrivalClaims>());
    peers.push_back(std::make_unique<ArrivalOrder>(*ranges.back(), &budget));
    const std::vector<std::byte> eager(16'000);
    std::uint64_t kept = 0;
    for (std::uint64_t sequence = 2; sequence < wire::kWindow; ++sequence, ++kept) {
      ASSERT_EQ(peers.back()->OnArrived(sequence), Arrival::kEarly);
      const auto keeping = peers.back()->Keep(Header(sequence, 16'000), eager, nullptr);
      if (keeping == ArrivalOrder::Keeping::kNoRoom) break;
      ASSERT_EQ(keeping, ArrivalOrder::Keeping::kKept);
    }
    EXPECT_GE(kept * eager.size(), EarlyBudget::kOwnBytes * 9 / 10)
        << "whatever others have, peer " << peer;
    held += kept * eager.size();
  }
  EXPECT_LE(held, EarlyBudget::kSharedBytesMax + 64 * EarlyBudget::kOwnBytes);
  EXPECT_GT(budget.shared_bytes(), EarlyBudget::kSharedBytesMax - 16'000);
  peers[0]->Reset();  // Its own share has grown and stays.
  EXPECT_LT(budget.shared_bytes(), EarlyBudget::kSharedBytesMax - wire::kEarlyBytesMax / 2);
  peers.clear();
  EXPECT_EQ(budget.shared_bytes(), 0u);
}

// Why: beyond a link's own share, small frames must count by their size, because honest peers may
// have a window of them.
TEST_F(ArrivalOrderTest, CountsSmallFramesBeyondTheOwnShareByTheirSize) {
  EarlyBudget budget;
  ArrivalOrder small(claims, &budget);
  for (std::uint64_t sequence = 2; sequence < wire::kWindow; ++sequence) {
    ASSERT_EQ(small.OnArrived(sequence), Arrival::kEarly);
    ASSERT_EQ(small.Keep(Header(sequence, 64), std::vector<std::byte>(64), nullptr),
              ArrivalOrder::Keeping::kKept);
  }
  EXPECT_LT(budget.shared_bytes(), 64 * wire::kWindow);
}

// How: numbers in random order within the window, over many windows; the description must match
// what has arrived.
TEST_F(ArrivalOrderTest, DescribesWhatHasArrivedBeyondGaps) {
  std::mt19937 random(1);
  std::vector<std::uint64_t> coming;
  std::uint64_t next = 1;
  for (unsigned turn = 0; turn < 3000; ++turn) {
    while (next <= order.received() + wire::kWindow) coming.push_back(next++);
    const std::size_t at = random() % std::min<std::size_t>(coming.size(), 1 + turn % 900);
    const std::uint64_t sequence = coming[at];
    coming.erase(coming.begin() + static_cast<std::ptrdiff_t>(at));
    const Arrival arrival = order.OnArrived(sequence);
    ASSERT_TRUE(arrival == Arrival::kNext || arrival == Arrival::kEarly);
    if (arrival == Arrival::kNext) Due();
    if (turn % 100 != 0) continue;
    std::vector<std::uint64_t> described;
    for (std::uint32_t block = 0; block < wire::Arrived::kBlocks; ++block) {
      wire::Arrived arrived;
      const bool any = order.Describe(block, arrived);
      wire::FrameHeader header;
      wire::PutArrived(arrived, header);
      const wire::Arrived read = wire::ArrivedOf(header);
      ASSERT_EQ(read.block, block);
      bool found = false;
      for (std::uint64_t i = 0; i < wire::Arrived::kBits; ++i) {
        if ((read.bits[i / 64] >> (i % 64) & 1) == 0) continue;
        found = true;
        described.push_back(order.received() + 1 + block * wire::Arrived::kBits + i);
      }
      ASSERT_EQ(found, any);
    }
    std::vector<std::uint64_t> expected;
    for (std::uint64_t s = order.received() + 1; s < next; ++s) {
      if (std::find(coming.begin(), coming.end(), s) == coming.end()) expected.push_back(s);
    }
    ASSERT_EQ(described, expected);
  }
}

TEST_F(ArrivalOrderTest, StartsAgainAfterReset) {
  EXPECT_EQ(order.OnArrived(2), Arrival::kEarly);
  ASSERT_TRUE(Keep(2, std::vector<std::byte>(10)));
  EXPECT_EQ(order.OnArrived(5), Arrival::kEarly);
  order.Reset();
  EXPECT_EQ(order.kept_bytes(), 0u);
  EXPECT_FALSE(order.has_gaps());
  EXPECT_EQ(order.OnArrived(1), Arrival::kNext);
  EXPECT_THAT(Due(), ElementsAre());
  EXPECT_EQ(order.received(), 1u);
}

}  // namespace
}  // namespace mlxcomm::link::arrival_order_test
