#include "daemon/services/answer_budget.h"

#include <gmock/gmock.h>

namespace mlxcomm::services {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kMost = AnswerBudget::kBytesPerUserMax;

TEST(AnswerBudgetTest, RefusesWhatIsTooMuchWithWhatIsHeld) {
  AnswerBudget budget([](uid_t, double) {});
  EXPECT_TRUE(budget.Take(1, kMost - 10).ok());
  EXPECT_TRUE(budget.Take(1, 10).ok());
  const Failure refused = budget.Take(1, 1);
  EXPECT_EQ(refused.code, FailureCode::kResourceExhausted);
  EXPECT_THAT(refused.message, HasSubstr("processes of user 1 have not read 4194304 bytes"));
}

// Why: an honest process could not ask at all in a cluster whose status is larger.
TEST(AnswerBudgetTest, TakesAnyAnswerThatIsTheUsersOnlyOne) {
  AnswerBudget budget([](uid_t, double) {});
  EXPECT_TRUE(budget.Take(1, 3 * kMost).ok());
  EXPECT_FALSE(budget.Take(1, 1).ok());
  EXPECT_FALSE(budget.Take(1, ~std::uint64_t{0}).ok());
  budget.GiveBack(1, 3 * kMost);
  EXPECT_TRUE(budget.Take(1, 2 * kMost).ok());
}

TEST(AnswerBudgetTest, HoldsOneUserApartFromOthers) {
  AnswerBudget budget([](uid_t, double) {});
  EXPECT_TRUE(budget.Take(1, kMost).ok());
  EXPECT_TRUE(budget.Take(2, 10).ok());
  EXPECT_FALSE(budget.Take(1, 10).ok());
  budget.GiveBack(1, kMost);
  EXPECT_TRUE(budget.Take(1, kMost).ok());
  EXPECT_FALSE(budget.Take(2, kMost).ok());
}

// Why: a status costs a hundred times what its request does, and both had one price.
TEST(AnswerBudgetTest, ChargesACallAndEachByteOfItsAnswer) {
  std::map<uid_t, double> charged;
  AnswerBudget budget([&](uid_t uid, double work) { charged[uid] += work; });
  budget.OnCall(1);
  EXPECT_EQ(charged[1], AnswerBudget::kWorkOfCall);
  (void)budget.Take(1, 10 * static_cast<std::uint64_t>(AnswerBudget::kBytesOfWork));
  EXPECT_EQ(charged[1], AnswerBudget::kWorkOfCall + 10);
  EXPECT_EQ(charged.size(), 1u);
}

}  // namespace
}  // namespace mlxcomm::services
