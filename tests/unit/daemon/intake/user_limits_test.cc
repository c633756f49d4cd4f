// The limits of a user, and the errors beyond them.
#include "daemon/intake/user_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mlxcomm::intake::user_limits_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr uid_t kAnn = 1001;
constexpr uid_t kBob = 1002;

class UserLimitsTest : public testing::Test {
 protected:
  void ExpectRefusal(const Failure& failure, const std::string& figures, const std::string& field) {
    EXPECT_EQ(failure.code, FailureCode::kResourceExhausted);
    EXPECT_THAT(failure.message, AllOf(HasSubstr(figures), HasSubstr("raise clients { " + field)));
    EXPECT_LT(failure.message.size(), 216u) << "a hello's answer has no room for it";
  }
  UserLimits limits{{2, 1000, 3}, {3, 1500, 4}};
};

TEST_F(UserLimitsTest, LimitsOneUsersClients) {
  ASSERT_TRUE(limits.Admit(kAnn, {"ann", true}, 1).ok());
  ASSERT_TRUE(limits.Admit(kAnn, {"ann", true}, 1).ok());
  ExpectRefusal(limits.Admit(kAnn, {"ann", true}, 1), "user ann has 2 clients already",
                "clients_per_user_max");
  ASSERT_TRUE(limits.Admit(kBob, {"bob", true}, 1).ok());
  ExpectRefusal(limits.Admit(kBob, {"bob", true}, 1), "3 clients already", "clients_max");
  limits.Leave(limits.Of(kAnn));
  EXPECT_TRUE(limits.Admit(kBob, {"bob", true}, 1).ok());
}

// Why: an arena's pages exist until no operation uses them, even after the process has exited.
TEST_F(UserLimitsTest, AnArenaCountsUntilItsMemoryIsReleased) {
  ASSERT_TRUE(limits.Admit(kAnn, {"ann", true}, 600).ok());
  ExpectRefusal(limits.Admit(kAnn, {"ann", true}, 500),
                "user ann has 600 bytes of arenas, and 500 more exceed 1000",
                "arena_bytes_per_user_max");
  ASSERT_TRUE(limits.Admit(kBob, {"bob", true}, 900).ok());
  ExpectRefusal(limits.Admit(kBob, {"bob", true}, 100),
                "1500 bytes of arenas, and 100 more exceed 1500", "arena_bytes_all_max");
  limits.Leave(limits.Of(kAnn));
  EXPECT_FALSE(limits.Admit(kBob, {"bob", true}, 100).ok());
  limits.Release(limits.Of(kAnn), 600, 0);
  EXPECT_TRUE(limits.Admit(kBob, {"bob", true}, 100).ok());
  ASSERT_EQ(limits.Users().size(), 1u) << "nothing is left of ann's";
  EXPECT_EQ(limits.Users()[0].used.arena_bytes, 1000u);
}

// Why: four users had taken all places, and root had none.
TEST_F(UserLimitsTest, ReservesPlacesForUsersWhoSeeAll) {
  UserLimits many{{16, 1000, 3}, {16, 1600, 4}};
  for (int i = 0; i < 14; ++i) ASSERT_TRUE(many.Admit(kAnn, {"ann", false}, 1).ok());
  ExpectRefusal(many.Admit(kBob, {"bob", false}, 1), "14 clients already", "clients_max");
  EXPECT_TRUE(many.Admit(kBob, {"root", true}, 1).ok());
  UserLimits memory{{16, 1600, 3}, {16, 1600, 4}};
  ASSERT_TRUE(memory.Admit(kAnn, {"ann", false}, 1400).ok());
  EXPECT_FALSE(memory.Admit(kAnn, {"ann", false}, 1).ok());
  EXPECT_TRUE(memory.Admit(kBob, {"root", true}, 200).ok());
}

TEST_F(UserLimitsTest, AnOperationBeyondTheLimitIsRefusedAndCountsUntilItEnds) {
  ASSERT_TRUE(limits.Admit(kAnn, {"ann", true}, 1).ok());
  ASSERT_TRUE(limits.Admit(kBob, {"", true}, 1).ok());
  UserUse& ann = limits.Of(kAnn);
  UserUse& bob = limits.Of(kBob);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(limits.BeginOperation(ann).ok());
  ExpectRefusal(limits.BeginOperation(ann), "user ann has 3 operations in flight",
                "operations_per_user_max");
  limits.EndOperation(ann);
  ASSERT_TRUE(limits.BeginOperation(bob).ok());
  ExpectRefusal(limits.BeginOperation(bob), "all users have 4 operations in flight",
                "operations_max");
  limits.EndOperation(bob);
  limits.Leave(ann);
  limits.Release(ann, 1, 3);  // Its process ended with three in flight.
  EXPECT_TRUE(limits.BeginOperation(bob).ok());
  EXPECT_EQ(limits.used().operations, 2u);
}

// Why: an entry is erased once it is unused, and not before: a second client of the user may
// connect while the first one's arena is released.
TEST_F(UserLimitsTest, AUserIsForgottenWithItsLastClientAndArena) {
  ASSERT_TRUE(limits.Admit(kAnn, {"ann", true}, 10).ok());
  UserUse& ann = limits.Of(kAnn);
  limits.Leave(ann);
  ASSERT_TRUE(limits.Admit(kAnn, {"ann", true}, 20).ok());
  limits.Release(ann, 10, 0);
  ASSERT_EQ(limits.Users().size(), 1u);
  EXPECT_EQ(limits.Users()[0].used.clients, 1u);
  limits.Leave(ann);
  limits.Release(ann, 20, 0);
  EXPECT_TRUE(limits.Users().empty());
}

TEST_F(UserLimitsTest, ASumThatWouldOverflowIsRefused) {
  UserLimits wide({9, ~std::uint64_t{0}, 9}, {9, ~std::uint64_t{0}, 9});
  ASSERT_TRUE(wide.Admit(kAnn, {"ann", true}, ~std::uint64_t{0} - 5).ok());
  EXPECT_FALSE(wide.Admit(kAnn, {"ann", true}, 6).ok());
  EXPECT_TRUE(wide.Admit(kAnn, {"ann", true}, 5).ok());
}

}  // namespace
}  // namespace mlxcomm::intake::user_limits_test
