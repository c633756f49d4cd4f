// How often a rank checks before it yields its core: learnt, and retried.
#include "client/lib/first_looks.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace mlxcomm::client::first_looks_test {
namespace {

constexpr int kWaits = 1000;

// The number of waits with many checks, if the awaited event happens after that many.
int ManyOf(FirstLooks& looks, int waits, int comes_after) {
  int many = 0;
  for (int wait = 0; wait < waits; ++wait) {
    const int most = looks.Next();
    many += most == FirstLooks::kMany;
    looks.Learn(std::min(most, comes_after), comes_after < most);
  }
  return many;
}

TEST(FirstLooksTest, LooksManyTimesWhereThatIsEnough) {
  FirstLooks looks;
  EXPECT_EQ(ManyOf(looks, kWaits, 50), kWaits);
}

TEST(FirstLooksTest, LooksAFewTimesWhereManyAreInVainAndTriesManyNowAndThen) {
  FirstLooks looks;
  ManyOf(looks, 20, FirstLooks::kMany);
  const int many = ManyOf(looks, kWaits, FirstLooks::kMany);
  EXPECT_GT(many, kWaits / 100);
  EXPECT_LT(many, kWaits / 20);
}

TEST(FirstLooksTest, LooksManyTimesAgainOnceThatIsEnough) {
  FirstLooks looks;
  ManyOf(looks, kWaits, FirstLooks::kMany);
  ManyOf(looks, 200, 50);
  EXPECT_EQ(ManyOf(looks, kWaits, 50), kWaits);
}

// Two ranks on one core: one waits without success until the other one has the core, which then
// immediately finds what the first one has called.
TEST(FirstLooksTest, LearnsNothingFromWhatIsThereAlready) {
  FirstLooks looks;
  for (int wait = 0; wait < 40; ++wait) ManyOf(looks, 1, wait % 2 == 0 ? FirstLooks::kMany : 0);
  int many = 0;
  for (int wait = 0; wait < kWaits; ++wait) {
    many += ManyOf(looks, 1, wait % 2 == 0 ? FirstLooks::kMany : 0);
  }
  EXPECT_LT(many, kWaits / 20);
}

}  // namespace
}  // namespace mlxcomm::client::first_looks_test
