// Processes join and leave groups in every order, and nothing of them remains.
#include "daemon/jobs/membership.h"

#include <gmock/gmock.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/daemon/collective/numbered_node.h"

namespace mlxcomm::jobs::membership_test {
namespace {

using collective::Call;
using collective::Group;
using collective::NumberedNode;
using collective::Write;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A node with two ranks of a job (sessions 1 and 2, ranks 0 and 1); a third is on another node.
class MembershipTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kWorld = 7;

  MembershipTest() {
    collective::LinkCosts costs;
    costs.latency_ns = 777;
    EXPECT_TRUE(membership.AddWorld(kWorld, {"", "train"},
                                    {{self, "a", 100}, {self, "a", 101}, {remote, "b", 102}},
                                    {1, 2, 0}, costs, 0));
  }

  Failure Split(SessionId session, std::uint64_t group, std::vector<std::uint32_t> ranks,
                std::uint64_t parent = kWorld, const std::string& name = "rows") {
    return membership.Split(session, {group, parent, 1, std::move(ranks), name}, 0);
  }
  void Barrier(std::uint64_t group, std::uint32_t rank, SessionId session) {
    Call call;
    call.session = session;
    call.group = group;
    call.ticket = 1;
    call.rank = rank;
    call.signature.kind = OperationKind::kBarrier;
    call.timeout_ns = 1;
    core.Submit(call, 0);
  }
  void CarryOut() {
    while (!core.actions().empty()) {
      collective::ActionQueue actions;
      actions.swap(core.actions());
      using Kind = collective::Action::Kind;
      for (const collective::Action& action : actions) {
        if (action.kind == Kind::kLocalWork) core.OnLocalWorkDone(action.cookie, 0);
        if (action.kind == Kind::kComplete && action.failure.ok()) ++completed;
      }
    }
  }
  // No operation here is large enough to need any.
  class NoScratch final : public collective::ScratchMemory {
   public:
    std::byte* Take(std::uint64_t) override { return nullptr; }
    void Return(std::byte*) override {}
    std::uint64_t used_bytes() const override { return 0; }
    std::uint64_t limit_bytes() const override { return 0; }
  };

  NodeId self = NumberedNode(1);
  NodeId remote = NumberedNode(2);
  NoScratch scratch;
  collective::Collectives core{self, scratch};
  Membership membership{core};
  std::uint64_t completed = 0;
};

TEST_F(MembershipTest, SplitMakesAGroupThatTheOtherLocalRanksJoin) {
  ASSERT_TRUE(Split(1, 50, {2, 0, 1}).ok());
  EXPECT_EQ(*membership.RankOf(1, 50), 1u);
  EXPECT_EQ(membership.RankOf(2, 50), nullptr);  // It has not asked yet.
  ASSERT_TRUE(Split(2, 50, {2, 0, 1}).ok());
  EXPECT_EQ(*membership.RankOf(2, 50), 2u);
  const Group& group = *core.Find(50);
  EXPECT_EQ(group.name(), "train/rows");
  EXPECT_EQ(group.layout().member(0).pid, 102u);
  EXPECT_EQ(group.costs().latency_ns, 777u);  // Its parent's.
  EXPECT_EQ(Split(2, 50, {2, 0, 1}).code, FailureCode::kAlreadyExists);
}

TEST_F(MembershipTest, SplitsAreSplitAgainAndNamedByTheirPath) {
  ASSERT_TRUE(Split(1, 50, {0, 1}).ok());
  ASSERT_TRUE(Split(2, 50, {0, 1}).ok());
  ASSERT_TRUE(Split(2, 60, {1}, 50, "").ok());
  EXPECT_EQ(core.Find(60)->name(), "train/rows/1");
  EXPECT_EQ(membership.OriginOf(60)->job.name, "train");
}

TEST_F(MembershipTest, RefusesAnInvalidSplitAndChangesNothing) {
  const auto refused = [&](SessionId session, std::vector<std::uint32_t> ranks,
                           const std::string& name, const std::string& text) {
    const Failure failure = Split(session, 50, std::move(ranks), kWorld, name);
    EXPECT_EQ(failure.code, FailureCode::kInvalidArgument);
    EXPECT_THAT(failure.message, HasSubstr(text));
  };
  refused(1, {}, "x", "expected 1 to 3");
  refused(1, {0, 1, 2, 2}, "x", "expected 1 to 3");
  refused(1, {0, 3}, "x", "below 3");
  refused(1, {0, 0}, "x", "rank 0 is named twice");
  refused(1, {1, 2}, "x", "rank 0 of the parent, is not among them");
  refused(1, {0}, std::string(101, 'x'), "up to 100 bytes");
  refused(1, {0}, "a\nb", "control characters");
  refused(1, {0}, "\xff", "UTF-8");
  refused(9, {0}, "x", "not one of this process's groups");
  EXPECT_EQ(membership.group_count(), 1u);
}

TEST_F(MembershipTest, LimitsGroupsOfAProcess) {
  Failure failure;
  std::uint64_t group = 1000;
  while (failure.ok()) failure = Split(1, ++group, {0});
  EXPECT_EQ(failure.code, FailureCode::kResourceExhausted);
  EXPECT_THAT(failure.message, HasSubstr(std::to_string(Membership::kPlacesMax)));
  EXPECT_EQ(membership.group_count(), Membership::kPlacesMax);
  ASSERT_THAT(membership.Release(1, 1001, 0), ElementsAre(1001));
  membership.RemoveLeft();
  EXPECT_TRUE(Split(1, ++group, {0}).ok());
}

// Why: this is queried for every node at every tick, and a user may have thousands of groups. So it
// is counted, and the count must not drift.
TEST_F(MembershipTest, KnowsOnWhichNodesGroupsHaveRanks) {
  EXPECT_TRUE(core.HasRanksOn(self) && core.HasRanksOn(remote));
  EXPECT_FALSE(core.HasRanksOn(NumberedNode(3)));
  EXPECT_FALSE(core.AddGroup(kWorld, "taken", {{self, "a", 1}, {NumberedNode(3), "c", 2}}));
  EXPECT_FALSE(core.HasRanksOn(NumberedNode(3))) << "of a group that was refused";
  ASSERT_TRUE(Split(1, 50, {0, 2}).ok());
  membership.Release(1, kWorld, 0);
  membership.Release(2, kWorld, 0);
  ASSERT_THAT(membership.RemoveLeft(), testing::Contains(kWorld));
  EXPECT_TRUE(core.HasRanksOn(remote)) << "one group is left";
  membership.Release(1, 50, 0);
  ASSERT_THAT(membership.RemoveLeft(), ElementsAre(50));
  EXPECT_FALSE(core.HasRanksOn(remote) || core.HasRanksOn(self));
}

// Why: one user could take all groups of a node by splitting, and other users' jobs would not form.
TEST_F(MembershipTest, OneUsersGroupsLeaveRoomForOthers) {
  collective::Collectives other_core{self, scratch};
  Membership limited(other_core, /*groups_per_user_max=*/2);
  const auto form = [&](std::uint64_t group, const std::string& user, SessionId session) {
    return limited.AddWorld(group, {user, "job"}, {{self, "a", 100}}, {session}, {}, 0);
  };
  ASSERT_TRUE(form(1, "ann", 1));
  ASSERT_TRUE(limited.Split(1, {50, 1, 1, {0}, "rows"}, 0).ok());
  const Failure refused = limited.Split(1, {51, 1, 2, {0}, "columns"}, 0);
  EXPECT_EQ(refused.code, FailureCode::kResourceExhausted);
  EXPECT_THAT(refused.message,
              testing::AllOf(HasSubstr("user ann has 2 groups"), HasSubstr("groups_per_user_max")));
  EXPECT_FALSE(form(2, "ann", 2));
  EXPECT_FALSE(limited.AddShrunk(3, 1, {0}, {1}, 0));
  ASSERT_TRUE(form(4, "bob", 3));
  ASSERT_TRUE(form(5, "", 4));
  ASSERT_TRUE(limited.Split(4, {52, 5, 1, {0}, "rows"}, 0).ok());
  EXPECT_TRUE(limited.Split(4, {53, 5, 2, {0}, "columns"}, 0).ok()) << "users who share";
  ASSERT_THAT(limited.Release(1, 50, 0), ElementsAre(50));
  limited.RemoveLeft();
  EXPECT_EQ(limited.group_count("ann"), 1u);
  EXPECT_TRUE(form(6, "ann", 5));
}

// Why: rank 1's process may end after rank 0 made the group and before its own call.
TEST_F(MembershipTest, AProcessThatEndsBeforeItsOwnSplitFailsTheGroup) {
  ASSERT_TRUE(Split(1, 50, {0, 1}).ok());
  EXPECT_THAT(membership.OnSessionEnded(2, "its process ended", 0), ElementsAre(kWorld, 50));
  ASSERT_TRUE(core.Find(50)->failed());
  EXPECT_EQ(core.Find(50)->failure().code, FailureCode::kRankLost);
  EXPECT_EQ(core.Find(50)->failure().rank, 1);
}

TEST_F(MembershipTest, AProcessThatHadLeftBeforeTheSplitFailsIt) {
  // In an orderly way: the parent continues as long as no rank needs this one.
  membership.Release(2, kWorld, 0);
  ASSERT_TRUE(Split(1, 50, {0, 1}).ok());
  EXPECT_THAT(core.Find(50)->failure().message, HasSubstr("left group train before"));
}

// Why: rank 2 is on another node, whose daemon did not know the group when it died.
TEST_F(MembershipTest, ARankThatIsLostInTheParentIsLostInItsSplits) {
  ASSERT_TRUE(Split(1, 50, {2, 0}).ok());
  ASSERT_TRUE(Split(1, 51, {0, 1}).ok());
  ASSERT_TRUE(Split(1, 60, {1, 0}, 50).ok());
  v1::FailureReport report;
  Write(kWorld, {FailureCode::kRankLost, 2, "rank 2 is lost: its process ended"}, report);
  core.OnReport(remote, report, 0);
  membership.SpreadLoss(kWorld, 0);
  EXPECT_TRUE(core.Find(50)->failed());
  EXPECT_EQ(core.Find(50)->failure().rank, 0);  // Its rank in that group.
  EXPECT_THAT(core.Find(50)->failure().message, HasSubstr("its process ended"));
  EXPECT_TRUE(core.Find(60)->failed());
  EXPECT_EQ(core.Find(60)->failure().rank, 1);
  EXPECT_FALSE(core.Find(51)->failed());
  EXPECT_EQ(Split(1, 70, {0}).code, FailureCode::kRankLost);  // The parent's failure.
}

TEST_F(MembershipTest, ReleaseBeforeTheOthersHaveSplitLeavesThemTheGroup) {
  ASSERT_TRUE(Split(1, 50, {0, 1}).ok());
  EXPECT_THAT(membership.Release(1, 50, 0), ElementsAre(50));
  EXPECT_THAT(membership.RemoveLeft(), IsEmpty());
  ASSERT_TRUE(Split(2, 50, {0, 1}).ok());
  EXPECT_FALSE(core.Find(50)->failed());
  // It can be split off only once.
  EXPECT_EQ(Split(1, 50, {0, 1}).code, FailureCode::kInvalidArgument);
  EXPECT_THAT(membership.Release(2, 50, 0), ElementsAre(50));
  EXPECT_THAT(membership.RemoveLeft(), ElementsAre(50));
  EXPECT_THAT(membership.Release(2, 50, 0), IsEmpty());
}

TEST_F(MembershipTest, PlacesThatWereNeverUsedLeaveWithTheParent) {
  ASSERT_TRUE(Split(1, 50, {0, 1}).ok());
  ASSERT_TRUE(Split(1, 60, {0, 1}, 50).ok());
  EXPECT_THAT(membership.Release(2, kWorld, 0), ElementsAre(kWorld, 50, 60));
  EXPECT_THAT(membership.LeaveAll(1, 0), ElementsAre(kWorld, 50, 60));
  membership.RemoveLeft();
  EXPECT_EQ(membership.group_count(), 0u);
  EXPECT_FALSE(membership.HasPlaces(1));
  EXPECT_FALSE(membership.HasPlaces(2));
}

TEST_F(MembershipTest, TheRemainingRanksOfAGroupKeepTheirOrderAndJob) {
  membership.OnSessionEnded(1, "its process ended", 0);
  ASSERT_TRUE(membership.AddShrunk(80, kWorld, {1, 2}, {2, 0}, 0));
  EXPECT_EQ(core.Find(80)->name(), "train'");
  EXPECT_EQ(*membership.RankOf(2, 80), 0u);
  EXPECT_EQ(membership.OriginOf(80)->shrinks, 1u);
  EXPECT_EQ(membership.OriginOf(80)->size_at_start, 3u);
  EXPECT_TRUE(membership.OriginOf(80)->is_main);
  EXPECT_FALSE(core.Find(80)->failed());
}

// Why: a job may make a group for every batch of a week.
// How: split, one operation, release, by two ranks.
TEST_F(MembershipTest, TenThousandGroupsLeaveNothing) {
  for (std::uint64_t i = 0; i < 10'000; ++i) {
    const std::uint64_t group = 1000 + i;
    ASSERT_TRUE(Split(1, group, {0, 1}).ok());
    ASSERT_TRUE(Split(2, group, {0, 1}).ok());
    Barrier(group, 0, 1);
    Barrier(group, 1, 2);
    CarryOut();
    membership.Release(1, group, 0);
    membership.Release(2, group, 0);
    core.actions().clear();
    ASSERT_THAT(membership.RemoveLeft(), ElementsAre(group));
  }
  EXPECT_EQ(completed, 20'000u);
  EXPECT_EQ(membership.group_count(), 1u);
  EXPECT_EQ(core.Find(5'000), nullptr);
}

}  // namespace
}  // namespace mlxcomm::jobs::membership_test
