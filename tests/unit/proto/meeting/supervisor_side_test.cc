// The daemon's side of a page, with honest ranks, dead ranks, and garbage.
#include "proto/meeting/supervisor_side.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "proto/meeting/rank_side.h"
#include "tests/unit/proto/meeting/page_memory.h"
#include "tests/unit/seeds.h"

namespace mlxcomm::meeting::supervisor_side_test {
namespace {

constexpr std::uint64_t kFirst = 2;  // The first operation on the page.

class SupervisorSideTest : public testing::Test {
 protected:
  Called Call(RankSide<>& rank, std::uint64_t what = 7) {
    return rank.Call({{what, 0}, true, nullptr, 0}, EntryOf(rank.rank(), 100));
  }
  void Open() {
    ASSERT_TRUE(supervisor_.Reopen());
    for (std::uint64_t before = 0; before < kFirst; ++before) {
      Call(zero_);
      Call(one_);
    }
  }
  std::vector<Adopted> Close() {
    std::vector<Adopted> adopted;
    supervisor_.Close(adopted);
    return adopted;
  }
  RankArea& area(std::uint32_t rank) { return memory_.view().area(rank); }

  PageMemory memory_{2};
  SupervisorSide<> supervisor_{memory_.view(), 1};
  RankSide<> zero_{memory_.view(), 0, 0};
  RankSide<> one_{memory_.view(), 1, 0};
};

TEST(SupervisorSideOpeningTest, OpensOnceAllRanksHaveMappedThePage) {
  PageMemory memory(2);
  SupervisorSide<> supervisor(memory.view(), 1);
  const RankSide<> zero(memory.view(), 0, 0);
  EXPECT_FALSE(supervisor.Reopen());
  const RankSide<> one(memory.view(), 1, 4);
  EXPECT_TRUE(supervisor.Reopen());
  EXPECT_TRUE(supervisor.open());
  EXPECT_FALSE(supervisor.Reopen()) << "it is open";
  EXPECT_EQ(memory.view().header().reopens_at.load(), 6U);
}

TEST_F(SupervisorSideTest, AdoptsIncompleteOperationsInOrderOfNumberAndRank) {
  Open();
  Call(one_, 1);
  Call(one_);
  Call(zero_, 2);
  const std::vector<Adopted> adopted = Close();
  ASSERT_EQ(adopted.size(), 3U);
  EXPECT_EQ(adopted[0].number, kFirst);
  EXPECT_EQ(adopted[0].rank, 0U);
  EXPECT_EQ(adopted[1].number, kFirst);
  EXPECT_EQ(adopted[1].rank, 1U);
  EXPECT_EQ(adopted[1].entry.ticket, 100U);
  EXPECT_EQ(adopted[1].entry.peer_rank, 1U);
  EXPECT_EQ(adopted[2].number, kFirst + 1);
  EXPECT_EQ(adopted[2].rank, 1U);
  EXPECT_EQ(Call(zero_).way, Way::kDaemon) << "the other one submits it itself";
}

TEST_F(SupervisorSideTest, TreatsAnInvalidModeAsClosed) {
  Open();
  area(0).turn.store(area(0).turn.load() | 3);
  EXPECT_EQ(Call(zero_).way, Way::kDaemon);
  Close();
  EXPECT_EQ(Turn::Of(area(0).turn.load()).mode, TurnMode::kClosed);
}

TEST_F(SupervisorSideTest, IgnoresOffersInAWrongSlotOrBeyondTheCalls) {
  Open();
  Call(zero_);
  Call(one_);
  area(0).offers[kFirst + 1].number_plus_one.store(kFirst + 1);
  area(0).offers[kFirst + 2].number_plus_one.store(~std::uint64_t{0});
  area(0).offers[kFirst + 3].number_plus_one.store(kFirst + 3 + kGenerations + 1);
  EXPECT_TRUE(Close().empty());
}

// Its reads stay in the page, because the memory after it faults.
TEST_F(SupervisorSideTest, StaysInBoundsForAnyBytes) {
  std::mt19937_64 random(1);
  for (std::uint32_t turn = 0; turn < Seeds(100); ++turn) {
    SupervisorSide<> supervisor(memory_.view(), 1);
    area(0).ready = area(1).ready = 1;
    ASSERT_TRUE(supervisor.Reopen());
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      auto* const words = reinterpret_cast<std::uint64_t*>(&area(rank));
      for (std::size_t word = 0; word < sizeof(RankArea) / 8; ++word) {
        const std::uint64_t kind = random() % 4;
        words[word] = kind == 0 ? random() : kind == 1 ? ~(random() % 16) : random() % 32;
      }
    }
    std::vector<Adopted> adopted;
    supervisor.Close(adopted);
    EXPECT_LE(adopted.size(), 2 * kGenerations);
    std::size_t records = 0;
    supervisor.TakeRecords([&](std::uint32_t, const MetRecord&) { ++records; });
    EXPECT_LE(records, 2 * kRecords);
    supervisor.Reopen();
    supervisor.Close(adopted);
    EXPECT_LE(adopted.size(), 4 * kGenerations);
  }
}

TEST_F(SupervisorSideTest, TakesEachRecordOnceAndCountsSkippedOnes) {
  std::vector<std::uint64_t> taken;
  const auto take = [&] {
    return supervisor_.TakeRecords([&](std::uint32_t rank, const MetRecord& record) {
      EXPECT_EQ(rank, 1U);
      taken.push_back(record.number_plus_one);
    });
  };
  for (std::uint64_t number = 1; number <= 3; ++number) one_.Record({number, 0, 0, {}, {}});
  EXPECT_EQ(take(), 0U);
  EXPECT_EQ(taken, (std::vector<std::uint64_t>{1, 2, 3}));
  EXPECT_EQ(take(), 0U);
  EXPECT_EQ(taken.size(), 3U);
  for (std::uint64_t number = 4; number < 4 + kRecords; ++number)
    one_.Record({number, 0, 0, {}, {}});
  EXPECT_EQ(take(), kRecords / 4);
  EXPECT_EQ(taken.size(), 3 + kRecords - kRecords / 4);
  EXPECT_EQ(taken.back(), 3 + kRecords);
  EXPECT_EQ(supervisor_.MetBy(1), 3 + kRecords);
}

}  // namespace
}  // namespace mlxcomm::meeting::supervisor_side_test
