// The choice of stores, on a machine whose costs the test sets.
#include "daemon/reduce/store_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace mlxcomm::reduce::store_choice_test {
namespace {

constexpr std::uint64_t kMiB = 1024 * 1024;
constexpr std::uint64_t kCache = 32 * kMiB;
constexpr std::uint64_t kPiece = kMiB / 4;
constexpr std::uint64_t kStep = 12 * kMiB;
constexpr std::uint64_t kParts = 4;  // Work items per step.

StoredWork Sum(std::uint64_t step_bytes) {
  StoredWork work;
  work.input_count = 2;
  work.step_bytes = step_bytes;
  return work;
}

// Does one work item after another.
class Machine {
 public:
  // Costs per byte of whole lines and of non-temporal stores; ordinary ones cost more than both.
  void Cost(double whole_lines, double non_temporal) {
    Cost(whole_lines, non_temporal, 2 * std::max(whole_lines, non_temporal));
  }
  void Cost(double whole_lines, double non_temporal, double ordinary) {
    costs_ = {{Stores::kWholeLines, whole_lines},
              {Stores::kNonTemporal, non_temporal},
              {Stores::kOrdinary, ordinary}};
  }
  // How many of this many passes were stored in this way.
  int PassesOf(Stores stores, int passes, const StoredWork& work = Sum(kStep)) {
    int found = 0;
    for (int i = 0; i < passes; ++i) found += Pass(work) == stores ? 1 : 0;
    return found;
  }
  int WholeLinesOf(int passes, const StoredWork& work = Sum(kStep)) {
    return PassesOf(Stores::kWholeLines, passes, work);
  }
  Stores Pass(const StoredWork& work, double slowness = 1) {
    const Stores stores = choice.Choose(work);
    const double cost = costs_.at(stores);
    const std::uint64_t bytes = work.step_bytes / kParts;
    for (std::uint64_t part = 0; part < kParts; ++part) {
      choice.Learn(work, stores, bytes,
                   static_cast<std::uint64_t>(slowness * cost * static_cast<double>(bytes)));
    }
    return stores;
  }

  StoreChoice choice{kCache, kPiece};

 private:
  std::map<Stores, double> costs_;
};

TEST(StoreChoiceTest, KeepsSmallStepsInTheCacheAndLetsLargeOnesBypassIt) {
  Machine machine;
  machine.Cost(1, 0.5);
  EXPECT_EQ(machine.WholeLinesOf(300, Sum(kMiB / 4)), 300);
  EXPECT_EQ(machine.PassesOf(Stores::kNonTemporal, 300, Sum(4 * kMiB)), 0);
  machine.Cost(0.5, 1);
  EXPECT_EQ(machine.PassesOf(Stores::kNonTemporal, 300, Sum(kCache + 1)), 300);
}

TEST(StoreChoiceTest, FindsOutputsInTheCacheAfterOneTrial) {
  Machine machine;
  machine.Cost(0.5, 1);
  EXPECT_EQ(machine.PassesOf(Stores::kNonTemporal, 32), 32);
  EXPECT_EQ(machine.WholeLinesOf(32), 32);  // The trial, and from then on.
  EXPECT_GE(machine.WholeLinesOf(10'000), 9'800);
}

// Why: if cores share a cache, ordinary stores may be the cheapest, and their turn comes last.
TEST(StoreChoiceTest, FindsEachOfTheThreeWhereItIsCheapest) {
  for (const Stores cheapest : {Stores::kOrdinary, Stores::kWholeLines, Stores::kNonTemporal}) {
    Machine machine;
    const auto cost = [&](Stores stores) { return stores == cheapest ? 0.5 : 1; };
    machine.Cost(cost(Stores::kWholeLines), cost(Stores::kNonTemporal), cost(Stores::kOrdinary));
    machine.PassesOf(cheapest, 32 + 4 + 64 + 4);
    EXPECT_EQ(machine.choice.Choose(Sum(kStep)), cheapest);
    EXPECT_GE(machine.PassesOf(cheapest, 10'000), 9'800);
  }
}

// Why: whole lines are worth their copy only if another core's cache has the lines that they
// replace.
TEST(StoreChoiceTest, UsesOrdinaryStoresForSmallStepsIfThatIsCheaper) {
  for (const std::uint64_t bytes : {kMiB / 4 + kParts, kMiB, 4 * kMiB}) {
    Machine machine;
    machine.Cost(1, 1, 0.8);
    EXPECT_EQ(machine.WholeLinesOf(32, Sum(bytes)), 32);
    EXPECT_EQ(machine.PassesOf(Stores::kOrdinary, 4, Sum(bytes)), 4);
    EXPECT_GE(machine.PassesOf(Stores::kOrdinary, 10'000, Sum(bytes)), 9'800);
    machine.Cost(1, 1, 1.8);
    machine.PassesOf(Stores::kOrdinary, 1024 + 4, Sum(bytes));
    EXPECT_GE(machine.WholeLinesOf(10'000, Sum(bytes)), 9'800) << "the threads have moved apart";
  }
}

// Why: caches are of any size, and may be unknown.
TEST(StoreChoiceTest, NeverBypassesTheCacheForStepsThatFitIt) {
  for (const std::uint64_t cache :
       {std::uint64_t{0}, std::uint64_t{1'000'000}, 33 * kMiB, 512 * kMiB}) {
    StoreChoice choice{cache, kPiece};
    for (std::uint64_t bytes = 1; bytes <= 2 * cache + 1; bytes = bytes * 3 / 2 + 1) {
      for (int pass = 0; pass < 200; ++pass) {
        const Stores stores = choice.Choose(Sum(bytes));
        const bool goes_past = stores == Stores::kNonTemporal;
        ASSERT_FALSE(goes_past && bytes <= cache / 8) << bytes << " of " << cache;
        ASSERT_TRUE(goes_past || bytes <= cache) << bytes << " of " << cache;
        choice.Learn(Sum(bytes), stores, bytes, goes_past ? bytes : 2 * bytes);
      }
    }
  }
}

// Why: trials must not cost programs whose outputs are never in the cache.
TEST(StoreChoiceTest, MakesTrialsRareIfTheyFail) {
  Machine machine;
  machine.Cost(2, 1);
  EXPECT_EQ(machine.PassesOf(Stores::kNonTemporal, 32 + 4 + 64 + 4), 32 + 64);
  const int tried = 10'000 - machine.PassesOf(Stores::kNonTemporal, 10'000);
  EXPECT_LE(tried, 4 * 14);
  const int tried_later = 10'000 - machine.PassesOf(Stores::kNonTemporal, 10'000);
  EXPECT_GE(tried_later, 4 * 9);
}

TEST(StoreChoiceTest, ChangesWithTheProgram) {
  Machine machine;
  machine.Cost(0.5, 1);
  machine.WholeLinesOf(40);
  EXPECT_EQ(machine.choice.Choose(Sum(kStep)), Stores::kWholeLines);
  machine.Cost(2, 1);
  machine.WholeLinesOf(2 * (64 + 4));  // Ordinary stores have their turn before.
  EXPECT_EQ(machine.choice.Choose(Sum(kStep)), Stores::kNonTemporal);
}

// Why: one interruption of a millisecond is longer than a whole pass.
TEST(StoreChoiceTest, DecidesNothingByOneInterruptedPass) {
  Machine machine;
  machine.Cost(0.5, 1);
  machine.WholeLinesOf(32);
  for (int pass = 0; pass < 4; ++pass) machine.Pass(Sum(kStep), pass == 2 ? 50 : 1);
  EXPECT_EQ(machine.choice.Choose(Sum(kStep)), Stores::kWholeLines);
}

// Why: the first pass finds the outputs where the other stores have left them.
TEST(StoreChoiceTest, DoesNotCountTheFirstPassOfATrial) {
  Machine machine;
  machine.Cost(1, 1);
  machine.WholeLinesOf(32);
  ASSERT_EQ(machine.Pass(Sum(kStep), 0.1), Stores::kWholeLines);
  machine.WholeLinesOf(3);
  EXPECT_EQ(machine.choice.Choose(Sum(kStep)), Stores::kNonTemporal);
}

TEST(StoreChoiceTest, LearnsForEachSize) {
  Machine machine;
  machine.Cost(0.5, 1);
  machine.WholeLinesOf(40, Sum(6 * kMiB));
  EXPECT_EQ(machine.choice.Choose(Sum(6 * kMiB)), Stores::kWholeLines);
  EXPECT_EQ(machine.choice.Choose(Sum(12 * kMiB)), Stores::kNonTemporal);
  EXPECT_EQ(machine.choice.Choose(Sum(20 * kMiB)), Stores::kNonTemporal);
}

// Why: work that began before a trial may end during it.
TEST(StoreChoiceTest, IgnoresWorkThatBeganBeforeTheTrial) {
  Machine machine;
  machine.Cost(0.5, 1);
  machine.WholeLinesOf(32);
  ASSERT_EQ(machine.choice.Choose(Sum(kStep)), Stores::kWholeLines);
  for (int i = 0; i < 4; ++i) {
    machine.choice.Learn(Sum(kStep), Stores::kNonTemporal, kStep, 100 * kStep);
  }
  EXPECT_EQ(machine.choice.Choose(Sum(kStep)), Stores::kWholeLines) << "the trial has not ended";
}

// Why: a trial of copies only, after sums, would find them cheaper with any stores.
// How: nine sums and three copies in turn, so that trials begin at the same point.
TEST(StoreChoiceTest, DoesNotCompareCopiesWithSums) {
  Machine machine;
  machine.Cost(1.3, 1);
  StoredWork copy = Sum(kStep);
  copy.input_count = 1;
  StoredWork half = Sum(kStep);
  half.type = DataType::kFloat16;
  int whole_lines = 0;
  for (int turn = 0; turn < 1000; ++turn) {
    for (int i = 0; i < 12; ++i) {
      const bool copies = i >= 9;
      const Stores stores = machine.Pass(copies       ? copy
                                         : i % 3 == 0 ? half
                                                      : Sum(kStep),
                                         copies       ? 0.6
                                         : i % 3 == 0 ? 2
                                                      : 1);
      whole_lines += stores == Stores::kWholeLines ? 1 : 0;
    }
  }
  EXPECT_LT(whole_lines, 12'000 / 50);
}

}  // namespace
}  // namespace mlxcomm::reduce::store_choice_test
