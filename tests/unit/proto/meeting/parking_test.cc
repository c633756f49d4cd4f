// Sleeping on a page's word, in this process and in another.
#include "proto/meeting/parking.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <vector>

#include "proto/meeting/rank_side.h"
#include "proto/meeting/supervisor_side.h"
#include "tests/unit/forked_child.h"
#include "tests/unit/looks.h"
#include "tests/unit/proto/meeting/page_memory.h"

namespace mlxcomm::meeting::parking_test {
namespace {

constexpr CallWords kCall{7, 0};
constexpr std::uint64_t kFirst = 2;

Called Call(RankSide<>& rank) {
  return rank.Call({kCall, true, nullptr, 0}, EntryOf(rank.rank(), 100));
}

// Polls and sleeps until there is an answer.
Progress WaitFor(const RankSide<>& rank, std::uint64_t number) {
  std::uint32_t from = 0;
  for (;;) {
    const Progress progress = rank.Look(number, kCall, from);
    if (progress != Progress::kWaits) return progress;
    rank.Sleep(number, from, kNeverNs);
  }
}

class ParkingTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!CanPark()) GTEST_SKIP() << "nobody can sleep on memory here";
    ASSERT_TRUE(supervisor_.Reopen());
    for (RankSide<>* const rank : {&zero_, &one_}) {
      for (std::uint64_t before = 0; before < kFirst; ++before) Call(*rank);
    }
  }
  // Another rank sleeps, or is about to, until this rank announces the operation.
  void AwaitSleeper(std::uint32_t rank) {
    LookUntil([&] { return memory_.view().offer(rank, kFirst).sleepers.load() != 0; });
  }

  PageMemory memory_{2};
  SupervisorSide<> supervisor_{memory_.view(), 1};
  RankSide<> zero_{memory_.view(), 0, 0};
  RankSide<> one_{memory_.view(), 1, 0};
};

TEST_F(ParkingTest, DoesNotSleepOnAWordThatHasChanged) {
  std::atomic<std::uint64_t> word{5};
  Park(word, 4, kNeverNs);
}

TEST_F(ParkingTest, WakesAfterItsTime) {
  std::atomic<std::uint64_t> word{5};
  Park(word, 5, 1000);
}

TEST_F(ParkingTest, WakesAnotherProcess) {
  Call(zero_);
  ForkedChild child([&] { return WaitFor(zero_, kFirst) == Progress::kMet; });
  ASSERT_GT(child.pid(), 0);
  AwaitSleeper(1);
  Call(one_);
  const int status = child.Wait();
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST_F(ParkingTest, WakesAnotherProcessWhenThePageIsClosed) {
  Call(zero_);
  ForkedChild child([&] { return WaitFor(zero_, kFirst) == Progress::kAdopted; });
  ASSERT_GT(child.pid(), 0);
  AwaitSleeper(1);
  std::vector<Adopted> adopted;
  supervisor_.Close(adopted);
  const int status = child.Wait();
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace mlxcomm::meeting::parking_test
