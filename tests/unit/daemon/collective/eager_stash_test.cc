// Credit limits the frames that were not requested, and the limit must not become a hang.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <vector>

#include "daemon/collective/eager_stash.h"

namespace mlxcomm::collective::eager_stash_test {
namespace {

constexpr std::array<std::byte, 3> kPayload = {std::byte{1}, std::byte{2}, std::byte{3}};

TEST(EagerStashTest, CreditRunsOutAndReturnsInLots) {
  EagerStash sender(2), receiver(2);
  constexpr std::uint32_t kLot = CreditOptions{}.lot();
  std::vector<std::int32_t> slots;
  while (sender.TakeCredit(1)) slots.push_back(receiver.Put(0, kPayload));
  ASSERT_EQ(slots.size(), kEagerCredits);
  EXPECT_TRUE(receiver.Starved(0));
  for (std::uint32_t i = 0; i + 1 < kLot; ++i) EXPECT_EQ(receiver.Free(slots[i]), 0u);
  // Freed but not yet returned: the sender still has none.
  EXPECT_TRUE(receiver.Starved(0));
  EXPECT_EQ(receiver.Free(slots[kLot - 1]), kLot);
  EXPECT_FALSE(receiver.Starved(0));
  EXPECT_TRUE(sender.ReturnCredit(1, kLot));
  EXPECT_TRUE(sender.TakeCredit(1));
}

// Why: the simulator runs with tiny credits; the smallest lot must still return.
TEST(EagerStashTest, CreditMayBeOfAnySize) {
  for (const std::uint32_t each : {1u, 3u, 4u, 9u}) {
    const CreditOptions options{.each = each};
    EagerStash sender(2, options), receiver(2, options);
    std::uint32_t sent = 0;
    for (std::uint32_t i = 0; i < 3 * each; ++i) {
      ASSERT_TRUE(sender.TakeCredit(1)) << each << ": after " << sent << " frames";
      const std::int32_t slot = receiver.Put(0, kPayload);
      ASSERT_GE(slot, 0);
      ASSERT_TRUE(sender.ReturnCredit(1, receiver.Free(slot)));
      ++sent;
    }
  }
}

// Why: a peer that sends more than it may, or returns more than it had, is at fault.
TEST(EagerStashTest, DetectsAPeerThatBreaksTheRules) {
  EagerStash stash(2);
  EXPECT_FALSE(stash.ReturnCredit(1, 1));
  for (std::uint32_t i = 0; i < kEagerCredits; ++i) ASSERT_GE(stash.Put(1, kPayload), 0);
  EXPECT_EQ(stash.Put(1, kPayload), -1);
  const std::vector<std::byte> long_one(kEagerBytes + 1);
  EXPECT_EQ(EagerStash(2).Put(1, long_one), -1);
  EXPECT_EQ(stash.PutSolicited(1, kPayload), -1);  // Not solicited.
}

TEST(EagerStashTest, SolicitedFramesCostNoCredit) {
  EagerStash stash(2);
  std::vector<std::int32_t> slots;
  for (std::uint32_t i = 0; i < kEagerCredits; ++i) slots.push_back(stash.Put(1, kPayload));
  ASSERT_TRUE(stash.Solicit());
  const std::int32_t slot = stash.PutSolicited(1, kPayload);
  stash.Unsolicit();
  ASSERT_GE(slot, 0);
  EXPECT_EQ(stash.NodeOf(slot), 1);
  EXPECT_EQ(stash.Data(slot)[2], std::byte{3});
  EXPECT_EQ(stash.Free(slot), 0u);
  EXPECT_TRUE(stash.Starved(1));
}

TEST(EagerStashTest, LimitsSolicitedFrames) {
  EagerStash stash(2);
  for (std::uint32_t i = 0; i < kSolicitedMax; ++i) ASSERT_TRUE(stash.Solicit());
  EXPECT_FALSE(stash.Solicit());
  stash.Unsolicit();
  EXPECT_TRUE(stash.Solicit());
}

}  // namespace
}  // namespace mlxcomm::collective::eager_stash_test
