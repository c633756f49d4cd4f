// A rank's calls step by step: where they go, and what the rank sees of other ranks' calls.
#include "proto/meeting/rank_side.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "proto/meeting/supervisor_side.h"
#include "tests/unit/proto/meeting/page_memory.h"

namespace mlxcomm::meeting::rank_side_test {
namespace {

constexpr CallWords kSum{7, 2};

class RankSideTest : public testing::Test {
 protected:
  Called Call(RankSide<>& rank, const CallWords& call = kSum, bool may_meet = true) {
    const std::array<std::uint64_t, 2> brings{rank.rank() + 10, rank.rank() + 20};
    return rank.Call({call, may_meet, reinterpret_cast<const std::byte*>(brings.data()), 16},
                     EntryOf(rank.rank(), 100));
  }
  Progress Look(const RankSide<>& rank, std::uint64_t number, const CallWords& call = kSum) {
    std::uint32_t from = 0;
    return rank.Look(number, call, from);
  }
  // Both ranks call the operations before the page's first one through the daemon.
  void Open() {
    ASSERT_TRUE(supervisor_.Reopen());
    for (int before = 0; before < 2; ++before) {
      ASSERT_EQ(Call(zero_).way, Way::kDaemon);
      ASSERT_EQ(Call(one_).way, Way::kDaemon);
    }
  }
  std::vector<Adopted> Close() {
    std::vector<Adopted> adopted;
    supervisor_.Close(adopted);
    return adopted;
  }

  PageMemory memory_{2};
  SupervisorSide<> supervisor_{memory_.view(), 1};
  RankSide<> zero_{memory_.view(), 0, 0};
  RankSide<> one_{memory_.view(), 1, 0};
};

TEST_F(RankSideTest, ReturnsToThePageAfterAnOperationOfTheDaemon) {
  Open();
  for (RankSide<>* const rank : {&zero_, &one_}) {
    EXPECT_EQ(Call(*rank, kSum, false).way, Way::kDaemon);
    EXPECT_EQ(Call(*rank).way, Way::kPage);
  }
  EXPECT_EQ(Look(zero_, 3), Progress::kMet);
}

TEST_F(RankSideTest, ClosesThePageIfAllSlotsAreInUse) {
  Open();
  for (std::uint32_t call = 0; call < kGenerations; ++call) {
    ASSERT_EQ(Call(zero_).way, Way::kPage);
  }
  EXPECT_EQ(Call(zero_).way, Way::kDaemonCloses);
  EXPECT_EQ(Close().size(), kGenerations);
}

class CellsTest : public RankSideTest {
 protected:
  // The cell that holds the contribution; its index is in the first byte.
  std::size_t CallInCell(RankSide<>& rank, std::uint64_t number) {
    std::vector<std::byte> brings(kWorthCells, static_cast<std::byte>(number));
    const Called called =
        rank.Call({kSum, true, brings.data(), brings.size()}, EntryOf(rank.rank(), 100));
    EXPECT_EQ(called.number, number);
    EXPECT_EQ(called.way, Way::kPage);
    const std::byte* const lies = Brought(rank.rank(), number);
    return static_cast<std::size_t>(lies - memory_.view().cell(rank.rank(), 0)) / kCellBytes;
  }
  std::byte* Brought(std::uint32_t rank, std::uint64_t number) {
    return memory_.view().contribution(rank, number, kWorthCells);
  }

  static constexpr std::uint64_t kWorthCells = 8192;
};

// Why: the cells stay in the caches.
TEST_F(CellsTest, AlternatesBetweenTwoIfOperationsDoNotOverlap) {
  Open();
  for (std::uint64_t number = 2; number < 40; ++number) {
    EXPECT_LT(CallInCell(zero_, number), 2U);
    EXPECT_LT(CallInCell(one_, number), 2U);
    zero_.End(number);
    one_.End(number);
  }
}

TEST_F(CellsTest, NeverOverwritesOneThatARankMayRead) {
  Open();
  for (std::uint64_t number = 2; number < 2 + kGenerations; ++number) {
    CallInCell(zero_, number);
    CallInCell(one_, number);
    zero_.End(number);
  }
  for (std::uint64_t number = 2; number < 2 + kGenerations; ++number) {
    EXPECT_EQ(*Brought(0, number), static_cast<std::byte>(number));
  }
  // One rank has ended the first half, in another order.
  for (const std::uint64_t number : {3U, 2U, 5U, 4U}) one_.End(number);
  for (std::uint64_t number = 2 + kGenerations; number < 6 + kGenerations; ++number) {
    CallInCell(zero_, number);
  }
  for (std::uint64_t number = 6; number < 6 + kGenerations; ++number) {
    EXPECT_EQ(*Brought(0, number), static_cast<std::byte>(number));
  }
}

TEST_F(CellsTest, StaysInsideTheCellsForAnyIndex) {
  Open();
  CallInCell(zero_, 2);
  memory_.view().slot(0, 2).inline_bytes[0] = std::byte{0xff};
  EXPECT_EQ(Brought(0, 2), memory_.view().cell(0, kGenerations - 1));
}

// Why: a call that the daemon refuses does not count, and its number is used again. The number may
// have been announced, so the next call goes to the daemon as well.
TEST_F(RankSideTest, TakesBackTheLastCallsAndRepeatsThemThroughTheDaemon) {
  Open();
  const std::uint64_t number = Call(zero_, kSum, /*may_meet=*/false).number;
  Call(zero_, kSum, /*may_meet=*/false);
  EXPECT_FALSE(zero_.TakeBack(number)) << "another one was called after it";
  EXPECT_TRUE(zero_.TakeBack(number + 1));
  EXPECT_FALSE(zero_.TakeBack(number + 1)) << "it has been taken back";
  EXPECT_TRUE(zero_.TakeBack(number));
  for (std::uint64_t again = number; again < number + 2; ++again) {
    const Called called = Call(zero_);
    EXPECT_EQ(called.number, again);
    EXPECT_NE(called.way, Way::kPage);
  }
  EXPECT_EQ(Call(zero_).way, Way::kPage);
}

TEST_F(RankSideTest, ContinuesToLookAtTheSameRank) {
  PageMemory memory(3);
  SupervisorSide<> supervisor(memory.view(), 1);
  RankSide<> zero(memory.view(), 0, 5);
  RankSide<> one(memory.view(), 1, 5);
  RankSide<> two(memory.view(), 2, 5);
  ASSERT_TRUE(supervisor.Reopen());
  for (RankSide<>* const rank : {&zero, &one, &two}) {
    Call(*rank);
    Call(*rank);
  }
  const std::uint64_t number = Call(zero).number;
  EXPECT_EQ(number, 7U);
  std::uint32_t from = 0;
  EXPECT_EQ(zero.Look(number, kSum, from), Progress::kWaits);
  EXPECT_EQ(from, 1U);
  Call(one);
  EXPECT_EQ(zero.Look(number, kSum, from), Progress::kWaits);
  EXPECT_EQ(from, 2U);
  Call(two);
  EXPECT_EQ(zero.Look(number, kSum, from), Progress::kMet);
}

}  // namespace
}  // namespace mlxcomm::meeting::rank_side_test
