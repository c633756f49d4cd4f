#include "daemon/control/answer_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mlxcomm::control {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kMost = AnswerBudget::kBytesPerUserMax;

TEST(AnswerBudgetTest, RefusesWhatIsTooMuchWithWhatIsHeld) {
  AnswerBudget budget;
  EXPECT_TRUE(budget.Take(1, kMost - 10).ok());
  EXPECT_TRUE(budget.Take(1, 10).ok());
  const Failure refused = budget.Take(1, 1);
  EXPECT_EQ(refused.code, FailureCode::kResourceExhausted);
  EXPECT_THAT(refused.message, HasSubstr("processes of user 1 have not taken 4194304 bytes"));
  EXPECT_EQ(budget.refused(), 1u);
}

// Why: an honest process could not ask at all in a cluster whose status is larger.
TEST(AnswerBudgetTest, TakesAnyAnswerThatIsTheUsersOnlyOne) {
  AnswerBudget budget;
  EXPECT_TRUE(budget.Take(1, 3 * kMost).ok());
  EXPECT_FALSE(budget.Take(1, 1).ok());
  EXPECT_FALSE(budget.Take(1, ~std::uint64_t{0}).ok());
  budget.GiveBack(1, 3 * kMost);
  EXPECT_TRUE(budget.Take(1, 2 * kMost).ok());
}

TEST(AnswerBudgetTest, HoldsOneUserApartFromOthers) {
  AnswerBudget budget;
  EXPECT_TRUE(budget.Take(1, kMost).ok());
  EXPECT_TRUE(budget.Take(2, 10).ok());
  EXPECT_FALSE(budget.Take(1, 10).ok());
  budget.GiveBack(1, kMost);
  EXPECT_TRUE(budget.Take(1, kMost).ok());
  EXPECT_FALSE(budget.Take(2, kMost).ok());
}

}  // namespace
}  // namespace mlxcomm::control
