// What an inquest concludes from its reports: which rank it names, and when a deadline was a
// mismatch.
#include "daemon/collective/inquest.h"

#include <gmock/gmock.h>

#include "tests/unit/daemon/collective/numbered_node.h"

namespace mlxcomm::collective::inquest_test {
namespace {

using testing::AnyOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

constexpr std::uint64_t kGroup = 7;

// For a group of three nodes with one rank each, on rank 0's node.
class InquestTest : public testing::Test {
 protected:
  InquestTest()
      : layout({{NumberedNode(1), "a", 1}, {NumberedNode(2), "b", 2}, {NumberedNode(3), "c", 3}},
               NumberedNode(1)) {}

  static OperationKey Operation(std::uint64_t number) { return {kGroup, number}; }
  static RankCalls Called(std::uint32_t rank, const std::string& call,
                          const std::string& own = {}) {
    RankCalls calls;
    v1::RankCall& its = *calls.Add();
    its.set_rank(rank);
    its.set_called(true);
    its.set_call(call);
    its.set_own(own);
    return calls;
  }
  // The rank waits in an earlier operation, or in none.
  static RankCalls NotCalled(std::uint32_t rank, const std::string& earlier_call = {}) {
    RankCalls calls;
    v1::RankCall& its = *calls.Add();
    its.set_rank(rank);
    its.set_earlier_number(1);
    its.set_earlier_call(earlier_call);
    return calls;
  }
  void Open(const std::string& call, const std::string& own = {}) {
    inquest.Open({FailureCode::kDeadlineExceeded, kNoRank, call + " did not end within 1 s"},
                 Operation(2), Called(0, call, own), 0);
  }
  // The call of its node's rank, in the operation that has failed here.
  void Report(std::uint16_t node, const std::string& call, const std::string& own = {}) {
    inquest.OnReport(node, Operation(2), Called(node, call, own));
  }
  const Failure& Close() {
    EXPECT_TRUE(inquest.CloseIfDue(1)) << "all have reported";
    return inquest.verdict();
  }

  const GroupLayout layout;
  Inquest inquest{layout, "test"};
};

TEST_F(InquestTest, ADeadlineNamesTheRankThatHasNotCalled) {
  Open("barrier");
  Report(1, "barrier");
  inquest.OnReport(2, Operation(2), NotCalled(2));
  const Failure& verdict = Close();
  EXPECT_EQ(verdict.code, FailureCode::kDeadlineExceeded);
  EXPECT_EQ(verdict.rank, 2);
  EXPECT_THAT(verdict.message,
              HasSubstr("operation 2 of group test: it still waits for rank 2 (c, pid 3). Check "
                        "rank 2, or set"));
}

// Why: the message named no rank to check.
TEST_F(InquestTest, MissingDataIsThatOfTheRankThatThisNodeAwaits) {
  for (const std::vector<std::uint32_t>& awaited : {std::vector<std::uint32_t>{1}, {}}) {
    SCOPED_TRACE(awaited.size());
    Inquest inquest(layout, "test");
    inquest.Open({FailureCode::kDeadlineExceeded, kNoRank, "barrier did not end within 1 s"},
                 Operation(2), Called(0, "barrier"), 0, awaited);
    inquest.OnReport(1, Operation(2), Called(1, "barrier"));
    inquest.OnReport(2, Operation(2), Called(2, "barrier"));
    ASSERT_TRUE(inquest.CloseIfDue(1));
    EXPECT_EQ(inquest.verdict().rank, awaited.empty() ? kNoRank : 1);
    EXPECT_THAT(inquest.verdict().message,
                HasSubstr(awaited.empty()
                              ? "but the data did not arrive in time. Check their nodes"
                              : "but the data of rank 1 (b, pid 2) did not arrive in time. Check "
                                "rank 1, or"));
  }
}

// Why: each waited for data that the other never sends.
TEST_F(InquestTest, ADeadlineOfDifferentCallsIsAMismatch) {
  Open("barrier");
  Report(1, "all_reduce sum int32[1]");
  Report(2, "barrier");
  const Failure& verdict = Close();
  EXPECT_EQ(verdict.code, FailureCode::kMismatch);
  EXPECT_EQ(verdict.rank, 1);
  EXPECT_THAT(verdict.message,
              HasSubstr("called all_reduce sum int32[1]; ranks 0, 2 called barrier;"));
}

// Why: rank 0 waits in the barrier that follows. Rank 1 waits before it for data from rank 2, which
// calls something else there. The barrier's deadline comes first, and the barrier is not what is
// wrong.
TEST_F(InquestTest, AMismatchInAnEarlierOperationIsFoundFromTheLaterOne) {
  Open("barrier");
  inquest.OnReport(1, Operation(2), NotCalled(1, "reduce sum float64[1]"));
  inquest.OnReport(2, Operation(1), Called(2, "all_reduce sum float64[1]"));
  const Failure& verdict = Close();
  EXPECT_EQ(verdict.code, FailureCode::kMismatch);
  EXPECT_EQ(verdict.rank, 2);
  EXPECT_EQ(inquest.operation(), Operation(1));
  EXPECT_THAT(verdict.message, HasSubstr("rank 2 (c, pid 3) called all_reduce sum float64[1]; "));
  EXPECT_THAT(verdict.message, HasSubstr("rank 1 (b, pid 2) called reduce sum float64[1]"));
}

// Why: being late in the same earlier operation is not a mismatch, and the awaited rank is named.
TEST_F(InquestTest, RanksThatWaitInTheSameEarlierOperationAreLate) {
  Open("barrier");
  inquest.OnReport(1, Operation(2), NotCalled(1, "reduce sum float64[1]"));
  inquest.OnReport(2, Operation(2), NotCalled(2, "reduce sum float64[1]"));
  const Failure& verdict = Close();
  EXPECT_EQ(verdict.code, FailureCode::kDeadlineExceeded);
  EXPECT_EQ(verdict.rank, 1);
}

TEST_F(InquestTest, RankSpecificArgumentsAreNoMismatch) {
  Open("all_to_all_v int8", " sending [1]");
  Report(1, "all_to_all_v int8", " sending [2]");
  Report(2, Inquest::kFinished);
  const Failure& verdict = Close();
  EXPECT_EQ(verdict.code, FailureCode::kDeadlineExceeded);
  EXPECT_THAT(verdict.message, HasSubstr("all ranks have called it, but the data"));
}

// Why: a rank that has finished made the same call as the others, and one in another operation may
// still make it. Rank-specific arguments would make each rank a party of its own, and the culprit
// one of many.
TEST_F(InquestTest, TheCulpritIsAmongRanksWhoseCallsDiffer) {
  const GroupLayout six({{NumberedNode(1), "a", 1},
                         {NumberedNode(2), "b", 2},
                         {NumberedNode(3), "c", 3},
                         {NumberedNode(4), "d", 4},
                         {NumberedNode(5), "e", 5},
                         {NumberedNode(6), "f", 6}},
                        NumberedNode(1));
  Inquest inquest(six, "test");
  inquest.Open({FailureCode::kMismatch, kNoRank, {}}, Operation(2), Called(0, "barrier"), 0);
  for (std::uint16_t node = 1; node <= 3; ++node) {
    const std::string own = " sending [" + std::to_string(node) + "]";
    inquest.OnReport(node, Operation(2), Called(node, "all_to_all_v int8", own));
  }
  inquest.OnReport(4, Operation(2), Called(4, Inquest::kFinished));
  inquest.OnReport(5, Operation(3), Called(5, Inquest::kFinished));
  ASSERT_TRUE(inquest.CloseIfDue(1));
  EXPECT_EQ(inquest.verdict().rank, 0);
  EXPECT_THAT(inquest.verdict().message,
              HasSubstr("rank 0 (a, pid 1) called barrier; ranks 1-3 called all_to_all_v int8; "
                        "rank 4 (e, pid 5) called it earlier, and has finished; "
                        "rank 5 (f, pid 6) has finished operation 3; operation 2 of group test."));
}

// Why: if tables do not match each other, users must see them.
TEST_F(InquestTest, RankSpecificArgumentsAreReportedIfNothingElseDiffers) {
  inquest.Open({FailureCode::kMismatch, kNoRank, {}}, Operation(2),
               Called(0, "all_to_all_v int8", " sending [1]"), 0);
  Report(1, "all_to_all_v int8", " sending [2]");
  Report(2, "all_to_all_v int8", " sending [2]");
  EXPECT_THAT(Close().message,
              HasSubstr("rank 0 (a, pid 1) called all_to_all_v int8 sending [1]; ranks 1, 2 called "
                        "all_to_all_v int8 sending [2]; operation 2"));
}

// Why: if a cable is slow for all, several nodes find their deadlines passed at once, each in its
// current operation. Their calls differ without any fault.
TEST_F(InquestTest, CallsOfAnotherOperationAreReportedWithItAndNotCompared) {
  Open("barrier");
  inquest.OnReport(1, Operation(1), Called(1, "all_reduce sum int32[1]"));
  Report(2, "barrier");
  const Failure& verdict = Close();
  EXPECT_EQ(verdict.code, FailureCode::kDeadlineExceeded);
  EXPECT_EQ(verdict.rank, kNoRank);
  EXPECT_THAT(verdict.message,
              HasSubstr("others were late elsewhere: rank 1 (b, pid 2) called all_reduce sum "
                        "int32[1] in operation 1."));
}

TEST_F(InquestTest, RanksThatHaveNotCalledAreNamedBeforeRanksElsewhere) {
  Open("barrier");
  inquest.OnReport(1, Operation(1), Called(1, "barrier"));
  inquest.OnNodeLost(2);
  const Failure& verdict = Close();
  EXPECT_EQ(verdict.rank, 2);
  EXPECT_THAT(verdict.message,
              HasSubstr("it still waits for rank 2 (c, pid 3) (its daemon does not answer); rank 1 "
                        "(b, pid 2) called barrier in operation 1."));
}

// Why: a node whose ranks have made neither call is the likely culprit, whichever operation its
// report names.
TEST_F(InquestTest, RanksThatHaveNotCalledAnotherOperationAreNamed) {
  Open("barrier");
  inquest.OnReport(1, Operation(3), NotCalled(1));
  Report(2, "barrier");
  const Failure& verdict = Close();
  EXPECT_EQ(verdict.rank, 1);
  EXPECT_THAT(verdict.message,
              HasSubstr("it still waits for rank 1 (b, pid 2) (it had not called operation 3)."));
}

// Why: all ranks that differ were named, but the remedy at the end was cut off.
TEST_F(InquestTest, TheRemedyIsReportedHoweverManyDiffer) {
  std::vector<Member> members;
  for (std::uint8_t i = 0; i < 40; ++i) {
    members.push_back({NumberedNode(i), "a-node-of-a-long-name-" + std::to_string(i), 10000u + i});
  }
  const GroupLayout layout(members, NumberedNode(0));
  for (const auto code : {FailureCode::kMismatch, FailureCode::kDeadlineExceeded}) {
    SCOPED_TRACE(FailureCodeName(code));
    Inquest inquest(layout, std::string(80, 'g'));
    inquest.Open({code, kNoRank, std::string(300, 'c')}, Operation(2), Called(0, "barrier"), 0);
    for (std::uint16_t node = 1; node < 40; ++node) {
      const bool differs = code == FailureCode::kMismatch;
      const bool called = differs || node % 2 == 1;
      const std::string call = "all_reduce sum float32[" + std::to_string(node * 1000) + "]";
      inquest.OnReport(node, Operation(differs || node % 2 == 0 ? 2 : 3),
                       called ? Called(node, call) : NotCalled(node));
    }
    ASSERT_TRUE(inquest.CloseIfDue(1));
    const std::string& message = inquest.verdict().message;
    EXPECT_LE(message.size(), kFailureMessageBytesMax) << message;
    EXPECT_THAT(message, HasSubstr(" more"));
    EXPECT_THAT(message, AnyOf(HasSubstr("the same operations in the same order."),
                               HasSubstr("or set a longer timeout.")));
    EXPECT_THAT(message, EndsWith("MLXCOMM_CHECK=order names it."));
  }
}

TEST(DescribeRanksTest, CountsTheLastOfMany) {
  EXPECT_EQ(DescribeRanks({0, 1, 2, 5}), "0-2, 5");
  EXPECT_EQ(DescribeRanks({0, 2, 4, 6, 8, 10, 12, 14, 16, 18}),
            "0, 2, 4, 6, 8, 10, 12, 14 and 2 more");
}

// Why: a node is only believed about its own ranks.
TEST_F(InquestTest, ANodeReportsItsOwnRanksOnly) {
  Open("barrier");
  inquest.OnReport(1, Operation(2), Called(2, "all_reduce sum int32[1]"));
  EXPECT_FALSE(inquest.CloseIfDue(1)) << "the third has not reported";
  ASSERT_TRUE(inquest.CloseIfDue(Inquest::kReportWaitNs));
  EXPECT_EQ(inquest.verdict().code, FailureCode::kDeadlineExceeded);
  EXPECT_THAT(inquest.verdict().message, Not(HasSubstr("all_reduce")));
}

}  // namespace
}  // namespace mlxcomm::collective::inquest_test
