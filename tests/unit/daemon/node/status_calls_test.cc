#include "daemon/node/status_calls.h"

#include <gtest/gtest.h>

#include "tests/unit/daemon/node/heard.h"

namespace mlxcomm::node::status_calls_test {
namespace {

using Parts = std::shared_ptr<const StatusParts>;

// A status waits for the other nodes' parts, but never long.
class StatusCallsTest : public testing::Test {
 protected:
  void Ask(Heard<Parts>& heard, const std::vector<NodeId>& nodes) {
    v1::StatusReply own;
    own.set_node("here");
    calls.Begin(own, nodes, kNow, std::make_unique<KeptAnswer<Parts>>(heard));
  }
  v1::StatusAnswer AnswerTo(std::size_t sent) const {
    v1::StatusAnswer answer;
    answer.set_query(wire.sent.at(sent).second.status_query().query());
    answer.mutable_node()->set_clients(7);
    return answer;
  }

  static constexpr std::uint64_t kNow = 1'000'000'000;
  Wire wire;
  StatusCalls calls{wire};
  Heard<Parts> heard;
};

TEST_F(StatusCallsTest, AnswersAtOnceWhereThereIsNobodyElse) {
  Ask(heard, {});
  ASSERT_TRUE(heard.reply);
  EXPECT_EQ((*heard.reply)->own.node(), "here");
  EXPECT_EQ(calls.NextDeadline(), StatusCalls::kNever);
}

TEST_F(StatusCallsTest, HandsOutTheAnswersInTheOrderInWhichTheyCame) {
  Ask(heard, {IdOf(1), IdOf(2)});
  ASSERT_EQ(wire.sent.size(), 2u);
  calls.OnAnswer(IdOf(2), AnswerTo(1));
  EXPECT_FALSE(heard.reply);
  calls.OnAnswer(IdOf(1), AnswerTo(0));
  ASSERT_TRUE(heard.reply);
  ASSERT_EQ((*heard.reply)->answers.size(), 2u);
  EXPECT_EQ((*heard.reply)->answers[0].first, IdOf(2));
  EXPECT_EQ((*heard.reply)->answers[1].second.node().clients(), 7u);
}

TEST_F(StatusCallsTest, TakesAnAnswerOnceAndOnlyOfWhomItAsked) {
  Ask(heard, {IdOf(1), IdOf(2)});
  calls.OnAnswer(IdOf(1), AnswerTo(0));
  calls.OnAnswer(IdOf(1), AnswerTo(0));
  calls.OnAnswer(IdOf(3), AnswerTo(0));
  v1::StatusAnswer unknown;
  unknown.set_query(99);
  calls.OnAnswer(IdOf(2), unknown);
  EXPECT_FALSE(heard.reply);
  calls.OnNodeLost(IdOf(2));
  ASSERT_TRUE(heard.reply);
  EXPECT_EQ((*heard.reply)->answers.size(), 1u);
}

TEST_F(StatusCallsTest, GoesOnWithoutWhoDoesNotAnswerInTime) {
  Ask(heard, {IdOf(1), IdOf(2)});
  calls.OnAnswer(IdOf(1), AnswerTo(0));
  EXPECT_EQ(calls.NextDeadline(), kNow + StatusCalls::kWaitNs);
  calls.OnTime(kNow + StatusCalls::kWaitNs - 1);
  EXPECT_FALSE(heard.reply);
  calls.OnTime(kNow + StatusCalls::kWaitNs);
  ASSERT_TRUE(heard.reply);
  EXPECT_EQ((*heard.reply)->answers.size(), 1u);
  calls.OnAnswer(IdOf(2), AnswerTo(1));  // It is too late, and is dropped.
}

TEST_F(StatusCallsTest, RefusesMoreThanItKeeps) {
  std::vector<Heard<Parts>> asked(StatusCalls::kCallsMax);
  for (Heard<Parts>& one : asked) Ask(one, {IdOf(1)});
  Ask(heard, {IdOf(1)});
  ASSERT_TRUE(heard.failure);
  EXPECT_EQ(heard.failure->code, FailureCode::kResourceExhausted);
  calls.Clear();
  EXPECT_TRUE(asked.front().dropped);
}

}  // namespace
}  // namespace mlxcomm::node::status_calls_test
