#include "daemon/node/status_calls.h"

#include <gtest/gtest.h>

#include "tests/unit/daemon/node/heard.h"

namespace mlxcomm::node::status_calls_test {
namespace {

using Parts = std::shared_ptr<const StatusParts>;

// A status waits for the other nodes' parts, but never for a long time, and simultaneous callers
// share one.
class StatusCallsTest : public testing::Test {
 protected:
  void Ask(Heard<Parts>& heard, std::uint64_t now_ns = kNow, StatusCaller caller = {"ann"}) {
    calls.Ask(caller, std::make_unique<KeptAnswer<Parts>>(heard), now_ns);
    if (now_ns >= calls.NextDeadline()) calls.OnTime(now_ns);
  }
  v1::StatusAnswer AnswerTo(std::size_t sent) const {
    v1::StatusAnswer answer;
    answer.set_query(wire.sent.at(sent).second.status_query().query());
    answer.mutable_node()->set_clients(7);
    return answer;
  }
  bool Write(OwnPart& part) {
    viewers = part.viewers;
    if (++slices % slices_of_a_part != 0) return false;
    part.reply.set_node("here");
    part.reply.add_nodes()->set_clients(3);
    part.reply.add_jobs()->set_state("forming");
    part.reply.add_jobs()->set_state("running");
    part.others = others;
    return true;
  }

  static constexpr std::uint64_t kNow = 1'000'000'000;
  std::vector<NodeId> others;
  int slices = 0;
  int slices_of_a_part = 1;
  StatusViewers viewers;
  Wire wire;
  Heard<Parts> heard;
  StatusCalls calls{std::ref(wire), [this](OwnPart& part) { return Write(part); }};
};

TEST_F(StatusCallsTest, AnswersAtOnceWhereThereIsNobodyElse) {
  Ask(heard);
  ASSERT_TRUE(heard.reply);
  EXPECT_EQ((*heard.reply)->own.node(), "here");
  EXPECT_EQ(calls.NextDeadline(), StatusCalls::kNever);
}

// Why: for thousands of calls a second, a part was written and each node was asked.
TEST_F(StatusCallsTest, WritesOnePartForAllThatAskWithinARound) {
  others = {IdOf(1)};
  Ask(heard);
  std::vector<Heard<Parts>> later(5);
  for (Heard<Parts>& one : later) Ask(one, kNow + 1);
  calls.OnQuery(IdOf(2), {}, kNow + 2);
  EXPECT_EQ(slices, 1);
  EXPECT_EQ(calls.NextDeadline(), kNow + StatusCalls::kRoundNs);
  calls.OnTime(kNow + StatusCalls::kRoundNs);
  EXPECT_EQ(slices, 2);
  ASSERT_EQ(wire.sent.size(), 3u);  // Two queries, and the answer.
  EXPECT_EQ(wire.sent[1].first, IdOf(2));
  calls.OnAnswer(IdOf(1), AnswerTo(2));
  for (const Heard<Parts>& one : later) EXPECT_EQ(one.reply, later[0].reply);
  EXPECT_FALSE(heard.reply) << "its round is another one";
}

TEST_F(StatusCallsTest, AnswersAnotherNodeWithoutTheJobsThatForm) {
  v1::StatusQuery query;
  query.set_query(9);
  calls.OnQuery(IdOf(2), query, kNow);
  calls.OnTime(kNow);
  ASSERT_EQ(wire.sent.size(), 1u);
  const v1::StatusAnswer& answer = wire.sent[0].second.status_answer();
  EXPECT_EQ(answer.query(), 9u);
  EXPECT_EQ(answer.node().clients(), 3u);
  ASSERT_EQ(answer.jobs_size(), 1);
  EXPECT_EQ(answer.jobs(0).state(), "running");
}

TEST_F(StatusCallsTest, TakesNoMoreThanItKeepsOfANode) {
  for (std::size_t i = 0; i < 2 * StatusCalls::kQueriesMax; ++i) calls.OnQuery(IdOf(2), {}, kNow);
  calls.OnQuery(IdOf(3), {}, kNow);
  calls.OnTime(kNow);
  EXPECT_EQ(wire.sent.size(), StatusCalls::kQueriesMax + 1);
}

TEST_F(StatusCallsTest, WritesASliceATurn) {
  slices_of_a_part = 3;
  Ask(heard);
  for (int turn = 0; turn < 2; ++turn) {
    EXPECT_FALSE(heard.reply);
    EXPECT_LE(calls.NextDeadline(), kNow);
    calls.OnTime(kNow);
  }
  EXPECT_TRUE(heard.reply);
}

// Why: jobs that a user may not see were written anyway, and removed at the end.
TEST_F(StatusCallsTest, DescribesTheJobsThatItsCallersMaySee) {
  others = {IdOf(1)};
  Ask(heard);
  EXPECT_FALSE(viewers.all);
  EXPECT_EQ(viewers.users, std::set<std::string>{"ann"});
  const auto& users = wire.sent.at(0).second.status_query().users();
  EXPECT_EQ(std::vector<std::string>(users.begin(), users.end()), std::vector<std::string>{"ann"});
  Heard<Parts> ben, root;
  calls.Ask({"ben"}, std::make_unique<KeptAnswer<Parts>>(ben), kNow);
  calls.Ask({"", true}, std::make_unique<KeptAnswer<Parts>>(root), kNow);
  calls.OnTime(kNow + StatusCalls::kRoundNs);
  EXPECT_TRUE(viewers.all);
  EXPECT_TRUE(wire.sent.at(1).second.status_query().users().empty());
  v1::StatusQuery query;
  query.add_users("cat");
  calls.OnQuery(IdOf(2), query, kNow);
  calls.OnTime(kNow + 2 * StatusCalls::kRoundNs);
  EXPECT_FALSE(viewers.all);
  EXPECT_TRUE(viewers.users.contains("cat"));
  calls.Clear();  // Their answers refer to objects that end here.
}

TEST_F(StatusCallsTest, TakesOneAnswerOfEachNodeThatItAskedInTheOrderOfArrival) {
  others = {IdOf(1), IdOf(2), IdOf(4)};
  Ask(heard);
  calls.OnAnswer(IdOf(2), AnswerTo(1));
  calls.OnAnswer(IdOf(2), AnswerTo(1));
  calls.OnAnswer(IdOf(3), AnswerTo(0));
  v1::StatusAnswer unknown;
  unknown.set_query(99);
  calls.OnAnswer(IdOf(4), unknown);
  calls.OnAnswer(IdOf(1), AnswerTo(0));
  EXPECT_FALSE(heard.reply);
  calls.OnNodeLost(IdOf(4));
  ASSERT_TRUE(heard.reply);
  ASSERT_EQ((*heard.reply)->answers.size(), 2u);
  EXPECT_EQ((*heard.reply)->answers[0].first, IdOf(2));
  EXPECT_EQ((*heard.reply)->answers[1].second.node().clients(), 7u);
}

TEST_F(StatusCallsTest, GoesOnWithoutWhoDoesNotAnswerInTime) {
  others = {IdOf(1), IdOf(2)};
  Ask(heard);
  calls.OnAnswer(IdOf(1), AnswerTo(0));
  EXPECT_EQ(calls.NextDeadline(), kNow + StatusCalls::kWaitNs);
  calls.OnTime(kNow + StatusCalls::kWaitNs - 1);
  EXPECT_FALSE(heard.reply);
  calls.OnTime(kNow + StatusCalls::kWaitNs);
  ASSERT_TRUE(heard.reply);
  EXPECT_EQ((*heard.reply)->answers.size(), 1u);
  calls.OnAnswer(IdOf(2), AnswerTo(1));  // It arrives too late, and is dropped.
}

// Why: root's own status was refused while other users asked endlessly.
TEST_F(StatusCallsTest, RefusesMoreThanItKeepsOfAUserAndInAllButRoot) {
  others = {IdOf(1)};
  std::vector<Heard<Parts>> asked(StatusCalls::kCallsMax);
  for (std::size_t i = 0; i < asked.size(); ++i)
    Ask(asked[i], kNow, {std::to_string(i / StatusCalls::kCallsPerUser)});
  Heard<Parts> one_more, another, root;
  Ask(one_more, kNow, {"0"});
  Ask(another, kNow, {"another"});
  for (const Heard<Parts>& refused : {one_more, another}) {
    ASSERT_TRUE(refused.failure);
    EXPECT_EQ(refused.failure->code, FailureCode::kResourceExhausted);
  }
  Ask(root, kNow, {"root", true});
  EXPECT_FALSE(root.failure);
  calls.Clear();
  EXPECT_TRUE(asked.front().dropped);
  EXPECT_TRUE(root.dropped);
}

}  // namespace
}  // namespace mlxcomm::node::status_calls_test
