#include "daemon/jobs/job_history.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "tests/unit/daemon/node/heard.h"

namespace mlxcomm::jobs::job_history_test {
namespace {

using node::IdOf;

constexpr std::uint64_t kSecond = 1'000'000'000;

class JobHistoryTest : public testing::Test {
 protected:
  google::protobuf::RepeatedPtrField<v1::EndedJob> At(std::uint64_t now_ns) const {
    google::protobuf::RepeatedPtrField<v1::EndedJob> ended;
    history.Write(now_ns, ended);
    return ended;
  }
  void RunToItsEnd(std::uint64_t group, const JobId& id, std::uint64_t ended_ns) {
    history.OnFormed(group, id, 2);
    ASSERT_NE(history.OnRemoved(group, ended_ns), nullptr);
  }
  static collective::GroupLayout TwoRanks() {
    return {{{IdOf(1), "mac-a", 3}, {IdOf(2), "mac-b", 7}}, IdOf(1)};
  }

  JobHistory history;
};

TEST_F(JobHistoryTest, NamesTheRankThatTheFailureNames) {
  history.OnFormed(5, {"ann", "digits"}, 2);
  const collective::GroupLayout layout = TwoRanks();
  history.OnFailed(5, {FailureCode::kRankLost, 1, "rank 1 is lost"}, &layout);
  EXPECT_TRUE(At(kSecond).empty()) << "its ranks are still there";
  ASSERT_NE(history.OnRemoved(5, kSecond), nullptr);
  EXPECT_EQ(history.OnRemoved(5, kSecond), nullptr);
  const auto ended = At(13 * kSecond);
  ASSERT_EQ(ended.size(), 1);
  EXPECT_EQ(ended[0].name(), "digits");
  EXPECT_EQ(ended[0].user(), "ann");
  EXPECT_EQ(ended[0].size(), 2u);
  EXPECT_EQ(ended[0].ended_ms_ago(), 12000u);
  EXPECT_EQ(ended[0].code(), "RANK_LOST");
  EXPECT_EQ(ended[0].detail(), "rank 1 is lost");
  EXPECT_EQ(ended[0].rank(), 1u);
  EXPECT_EQ(ended[0].node(), "mac-b");
  EXPECT_EQ(ended[0].pid(), 7u);
}

TEST_F(JobHistoryTest, NamesNoRankWhereTheFailureNamesNoneOrOneThatIsNotThere) {
  const collective::GroupLayout layout = TwoRanks();
  for (const std::int32_t rank : {kNoRank, 2, std::numeric_limits<std::int32_t>::min()}) {
    history.OnFormed(5, {"", "digits"}, 2);
    history.OnFailed(5, {FailureCode::kMismatch, rank, "sum (check 00a1b2) and (check x)"},
                     &layout);
    history.OnRemoved(5, kSecond);
    EXPECT_FALSE(At(kSecond)[0].has_rank()) << rank;
    EXPECT_EQ(At(kSecond)[0].code(), "MISMATCH");
    EXPECT_EQ(At(kSecond)[0].detail(), "sum and (check x)");
  }
}

// A job that shrank and then succeeded has not failed.
TEST_F(JobHistoryTest, FollowsAJobThatShrinks) {
  history.OnFormed(5, {"", "digits"}, 3);
  const collective::GroupLayout layout = TwoRanks();
  history.OnFailed(5, {FailureCode::kRankLost, 1, "rank 1 is lost"}, &layout);
  history.OnShrunk(5, 9, 2);
  EXPECT_EQ(history.OnRemoved(5, kSecond), nullptr);
  ASSERT_NE(history.OnRemoved(9, 2 * kSecond), nullptr);
  const auto ended = At(2 * kSecond);
  ASSERT_EQ(ended.size(), 1);
  EXPECT_EQ(ended[0].code(), "");
  EXPECT_EQ(ended[0].size(), 2u);
  EXPECT_EQ(ended[0].group(), 9u);
  EXPECT_EQ(ended[0].first_lost_pid(), layout.member(1).pid);
}

TEST_F(JobHistoryTest, KeepsTenMinutesTheNewestFirst) {
  RunToItsEnd(1, {"", "first"}, kSecond);
  RunToItsEnd(2, {"ann", "second"}, 2 * kSecond);
  ASSERT_EQ(At(3 * kSecond).size(), 2);
  EXPECT_EQ(At(3 * kSecond)[0].name(), "second");
  EXPECT_EQ(At(JobHistory::kKeptNs + kSecond).size(), 1);
  EXPECT_TRUE(At(JobHistory::kKeptNs + 2 * kSecond).empty());
}

TEST_F(JobHistoryTest, AUserPushesOutOnlyItsOwnJobsAndAFloodOfUsersTheOldest) {
  RunToItsEnd(1, {"ann", "precious"}, kSecond);
  for (std::uint64_t i = 0; i < 3 * JobHistory::kPerUserMax; ++i) {
    RunToItsEnd(2 + i, {"bob", "many"}, 2 * kSecond);
  }
  EXPECT_EQ(At(2 * kSecond).size(), 1 + static_cast<int>(JobHistory::kPerUserMax));
  for (std::uint64_t i = 0; i < JobHistory::kEndedMax; ++i) {
    RunToItsEnd(1000 + i, {"user" + std::to_string(i), "one"}, 3 * kSecond);
  }
  EXPECT_EQ(At(3 * kSecond).size(), static_cast<int>(JobHistory::kEndedMax));
}

}  // namespace
}  // namespace mlxcomm::jobs::job_history_test
