#include "client/ctl/launch/failure_summary.h"

#include <gmock/gmock.h>

#include <csignal>
#include <vector>

#include "tests/unit/client/ctl/message_of.h"

namespace mlxcomm::ctl::failure_summary_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const v1::LaunchOutcome kUnknown;

RankFate Ended(unsigned rank, int exit_code, int signal = 0) {
  RankFate fate;
  fate.end.set_rank(rank);
  fate.end.set_exit_code(static_cast<std::uint32_t>(exit_code));
  fate.end.set_signal(static_cast<std::uint32_t>(signal));
  fate.end.set_pid(40 + rank);
  return fate;
}

// Of a job of three ranks.
v1::LaunchOutcome RankLost(int rank) {
  v1::LaunchOutcome outcome;
  Add(R"(is_known: true joined: true code: "RANK_LOST"
         detail: "rank 1 (mac-b, pid 41) is lost")",
      outcome);
  outcome.set_pid(40 + static_cast<std::uint64_t>(rank));
  outcome.set_size(3);
  return outcome;
}

// Why: rank 0 noticed that rank 1 had left, raised and ended, while rank 1's Python was still
// closing down.
TEST(FailureSummaryTest, BlamesTheRankThatTheDaemonSawLeaveFirst) {
  const std::vector<RankFate> fates = {Ended(0, 1), Ended(1, 3), Ended(2, 1)};
  EXPECT_EQ(FirstFailure(fates, RankLost(1)), &fates[1]);
  EXPECT_EQ(FirstFailure(fates, kUnknown), &fates[0]);
}

TEST(FailureSummaryTest, BlamesNoRankThatSucceededOrWasAskedToEnd) {
  std::vector<RankFate> fates = {Ended(1, 0), Ended(0, 1), Ended(2, 0, 15)};
  EXPECT_EQ(FirstFailure(fates, RankLost(1)), &fates[1]) << "rank 1 left early, with exit code 0";
  fates[2].asked = true;
  EXPECT_EQ(FirstFailure(fates, RankLost(2)), &fates[1]);
  fates[1].asked = true;
  EXPECT_EQ(FirstFailure(fates, kUnknown), nullptr);
  EXPECT_THAT(FailureSummary("train", fates, kUnknown), IsEmpty());
}

// In a deadline or a mismatch every rank fails alike; the rank that it names need not be the first.
TEST(FailureSummaryTest, FollowsTheDaemonOnlyIfARankIsLost) {
  const std::vector<RankFate> fates = {Ended(0, 1), Ended(1, 1), Ended(2, 1)};
  v1::LaunchOutcome outcome = RankLost(1);
  outcome.set_code("DEADLINE_EXCEEDED");
  EXPECT_EQ(FirstFailure(fates, outcome), &fates[0]);
}

TEST(FailureSummaryTest, NamesTheRankItsEndAndTheDaemonsReport) {
  std::vector<RankFate> fates = {Ended(0, 1), Ended(1, 0, SIGKILL), Ended(2, 0, SIGSEGV)};
  for (RankFate& fate : fates) fate.host = "mac-b";
  EXPECT_THAT(
      FailureSummary("train", fates, RankLost(1)),
      ElementsAre("job train failed: rank 1 on mac-b (pid 41) was killed by SIGKILL; did the "
                  "machine run out of memory?",
                  "mlxcommd reported RANK_LOST: rank 1 (mac-b, pid 41) is lost",
                  "then failed: rank 0 (exit code 1), rank 2 (SIGSEGV)"));
  EXPECT_THAT(FailureSummary("train", {Ended(4, 3)}, kUnknown),
              ElementsAre("job train failed: rank 4 (pid 44) ended with exit code 3"));
}

// Why: rank 1 of the remaining ranks was lost later, and is not the job's rank 1.
TEST(FailureSummaryTest, DoesNotBlameAFailureOfAShrunkGroup) {
  const std::vector<RankFate> fates = {Ended(2, 3), Ended(1, 5), Ended(0, 0)};
  v1::LaunchOutcome outcome = RankLost(1);
  outcome.set_size(2);
  EXPECT_EQ(FirstFailure(fates, outcome), &fates[0]);
  EXPECT_THAT(FailureSummary("train", fates, outcome),
              ElementsAre("job train failed: rank 2 (pid 42) ended with exit code 3",
                          "then failed: rank 1 (exit code 5)"));
}

// Why: rank 1 ended after rank 2 was lost, but its end was seen first.
TEST(FailureSummaryTest, BlamesTheRankAfterWhoseLossTheJobShrank) {
  const std::vector<RankFate> fates = {Ended(1, 5), Ended(2, 3), Ended(0, 0)};
  v1::LaunchOutcome outcome;
  outcome.set_first_lost_pid(fates[1].end.pid());
  EXPECT_EQ(FirstFailure(fates, outcome), &fates[1]);
}

TEST(FailureSummaryTest, NamesAFewOfManyRanks) {
  std::vector<RankFate> fates;
  for (unsigned rank = 0; rank < 20; ++rank) fates.push_back(Ended(rank, 1));
  EXPECT_THAT(FailureSummary("train", fates, kUnknown).back(),
              testing::EndsWith("rank 8 (exit code 1) and 11 more"));
}

TEST(FailureSummaryTest, ShowsTextsOfOthersWithoutControlCharacters) {
  v1::LaunchOutcome outcome = RankLost(1);
  outcome.set_detail("a\x1b[31mb\nc");
  EXPECT_EQ(FailureSummary("train", {Ended(1, 1), Ended(0, 1), Ended(2, 1)}, outcome).at(1),
            "mlxcommd reported RANK_LOST: a?[31mb?c");
}

TEST(OutcomeOfTest, IgnoresEarlierRunsOfTheSameName) {
  v1::StatusReply status;
  Add(R"(name: "train" code: "MISMATCH" ended_ms_ago: 9000)", *status.add_ended_jobs());
  bool running = false;
  EXPECT_FALSE(OutcomeOf(status, "train", 8000, running).joined());
  Add(R"(name: "train" code: "RANK_LOST" detail: "why" pid: 42 ended_ms_ago: 10)",
      *status.add_ended_jobs());
  const v1::LaunchOutcome outcome = OutcomeOf(status, "train", 8000, running);
  EXPECT_TRUE(outcome.joined());
  EXPECT_EQ(outcome.code(), "RANK_LOST");
  EXPECT_EQ(outcome.detail(), "why");
  EXPECT_EQ(outcome.pid(), 42u);
  EXPECT_FALSE(running);
}

TEST(OutcomeOfTest, AFormingJobHasJoinedButDoesNotRun) {
  v1::StatusReply status;
  v1::JobStatus& job = *status.add_jobs();
  job.set_name("train");
  job.set_state("forming");
  bool running = false;
  EXPECT_TRUE(OutcomeOf(status, "train", 1, running).joined());
  EXPECT_FALSE(running);
  job.set_state("failed");
  EXPECT_TRUE(OutcomeOf(status, "train", 1, running).joined());
  EXPECT_TRUE(running) << "its ranks are still there";
}

TEST(SignalNameTest, NamesCommonSignalsAndNumbersTheOthers) {
  EXPECT_EQ(SignalName(SIGKILL), "SIGKILL");
  EXPECT_EQ(SignalName(SIGTERM), "SIGTERM");
  EXPECT_EQ(SignalName(62), "signal 62");
}

}  // namespace
}  // namespace mlxcomm::ctl::failure_summary_test
