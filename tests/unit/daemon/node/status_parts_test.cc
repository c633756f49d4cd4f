#include "daemon/node/status_parts.h"

#include <gtest/gtest.h>

#include "tests/unit/daemon/node/heard.h"

namespace mlxcomm::node::status_parts_test {
namespace {

// What two nodes report about one job; each knows only its own ranks.
class MergeStatusTest : public testing::Test {
 protected:
  MergeStatusTest() {
    parts.own.set_node("a");
    AddNode("a", IdOf(1)).set_answered(true);
    AddNode("c", IdOf(3));
    AddNode("b", IdOf(2));
    AddRank(JobIn(parts.own, {"", "train"}), 1, "a");
  }
  v1::NodeStatus& AddNode(const std::string& name, const NodeId& id) {
    v1::NodeStatus& node = *parts.own.add_nodes();
    node.set_name(name);
    node.set_id(id.ToString());
    node.set_version("1");
    node.set_state("up");
    return node;
  }
  static void AddRank(v1::JobStatus& job, std::uint32_t rank, const std::string& node) {
    job.set_state("running");
    job.set_size(2);
    v1::RankStatus& reported = *job.add_ranks();
    reported.set_rank(rank);
    reported.set_node(node);
  }
  v1::StatusAnswer& AnswerOf(std::uint8_t number) {
    v1::StatusAnswer& answer = parts.answers.emplace_back(IdOf(number), v1::StatusAnswer()).second;
    answer.mutable_node()->set_answered(true);
    return answer;
  }

  StatusParts parts;
};

TEST_F(MergeStatusTest, ListsTheOwnNodeFirstThenTheOthersByName) {
  const v1::StatusReply reply = MergeStatus(parts);
  ASSERT_EQ(reply.nodes_size(), 3);
  EXPECT_EQ(reply.nodes(0).name(), "a");
  EXPECT_EQ(reply.nodes(1).name(), "b");
  EXPECT_FALSE(reply.nodes(1).answered());
  EXPECT_EQ(reply.nodes(1).state(), "up");
}

// Why: both were "(this node)", and `launch --nodes all` ran every rank here.
TEST_F(MergeStatusTest, TellsNodesOfOneNameApartByTheirIds) {
  parts.own.mutable_nodes(2)->set_name("a");
  v1::LinkStatus& link = *parts.own.mutable_nodes(0)->add_links();
  link.set_peer("a");
  link.set_peer_id(IdOf(2).ToString());
  v1::StatusAnswer& answer = AnswerOf(2);
  answer.mutable_node()->set_name("a");
  v1::JobStatus& reported = *answer.add_jobs();
  reported.set_name("train");
  AddRank(reported, 0, "a");
  v1::JobStatus& forms = JobIn(parts.own, {"", "wait"}, /*forms=*/true);
  AddRank(forms, 1, "a");
  forms.mutable_ranks(0)->set_node_id(IdOf(2).ToString());
  const v1::StatusReply reply = MergeStatus(parts);
  const auto shown = [](std::uint8_t number) {
    return "a~" + IdOf(number).ToString().substr(0, 4);
  };
  EXPECT_EQ(reply.node(), shown(1));
  EXPECT_EQ(reply.nodes(0).name(), shown(1));
  EXPECT_EQ(reply.nodes(1).name(), shown(2));
  EXPECT_EQ(reply.nodes(2).name(), "c");
  EXPECT_EQ(reply.nodes(0).links(0).peer(), shown(2));
  EXPECT_EQ(reply.jobs(0).ranks(0).node(), shown(2));
  EXPECT_EQ(reply.jobs(0).ranks(1).node(), shown(1));
  EXPECT_EQ(reply.jobs(1).ranks(0).node(), shown(2));
}

TEST_F(MergeStatusTest, BelievesNoNodeWhoItIs) {
  v1::NodeStatus& reported = *AnswerOf(2).mutable_node();
  reported.set_name("a");
  reported.set_id(IdOf(1).ToString());
  reported.set_clients(4);
  const v1::StatusReply reply = MergeStatus(parts);
  EXPECT_EQ(reply.nodes(1).name(), "b");
  EXPECT_EQ(reply.nodes(1).id(), IdOf(2).ToString());
  EXPECT_EQ(reply.nodes(1).clients(), 4u);
}

TEST_F(MergeStatusTest, PutsTheRanksOfAllNodesIntoOneJobInOrder) {
  AddRank(*AnswerOf(2).add_jobs(), 0, "b");
  parts.answers[0].second.mutable_jobs(0)->set_name("train");
  const v1::StatusReply reply = MergeStatus(parts);
  ASSERT_EQ(reply.jobs_size(), 1);
  ASSERT_EQ(reply.jobs(0).ranks_size(), 2);
  EXPECT_EQ(reply.jobs(0).ranks(0).node(), "b");
  EXPECT_EQ(reply.jobs(0).ranks(1).node(), "a");
}

TEST_F(MergeStatusTest, TellsOfAFailureThatOnlyOneNodeKnows) {
  v1::JobStatus& job = *AnswerOf(2).add_jobs();
  AddRank(job, 0, "b");
  job.set_name("train");
  job.set_state("failed");
  job.set_detail("rank 1 is lost");
  const v1::StatusReply reply = MergeStatus(parts);
  EXPECT_EQ(reply.jobs(0).state(), "failed");
  EXPECT_EQ(reply.jobs(0).detail(), "rank 1 is lost");
}

// Why: for a moment one node has the job that has shrunk, and another the one that failed.
TEST_F(MergeStatusTest, TakesTheJobThatHasShrunkMost) {
  v1::JobStatus& job = *AnswerOf(2).add_jobs();
  AddRank(job, 0, "b");
  job.set_name("train");
  job.set_size(1);
  job.set_shrinks(1);
  const v1::StatusReply reply = MergeStatus(parts);
  EXPECT_EQ(reply.jobs(0).shrinks(), 1u);
  ASSERT_EQ(reply.jobs(0).ranks_size(), 1);
  EXPECT_EQ(reply.jobs(0).ranks(0).node(), "b");
}

TEST_F(MergeStatusTest, KeepsWhoWaitsForANewJobApartFromTheOldOne) {
  JobIn(parts.own, {"", "train"}, /*forms=*/true);
  const v1::StatusReply reply = MergeStatus(parts);
  ASSERT_EQ(reply.jobs_size(), 2);
  EXPECT_EQ(reply.jobs(0).state(), "forming");
  EXPECT_EQ(reply.jobs(1).state(), "running");
}

// Each node reports the end of a job when its own ranks have left.
TEST_F(MergeStatusTest, ListsAJobThatHasEndedOnceWithItsFailureAndItsLastEnd) {
  const auto add = [](auto& to, const char* code, std::uint64_t ms_ago) {
    v1::EndedJob& ended = *to.add_ended_jobs();
    ended.set_name("digits");
    ended.set_group(7);
    ended.set_code(code);
    ended.set_ended_ms_ago(ms_ago);
  };
  add(parts.own, "", 5000);
  add(AnswerOf(2), "RANK_LOST", 4000);
  add(AnswerOf(3), "RANK_LOST", 6000);
  const v1::StatusReply reply = MergeStatus(parts);
  ASSERT_EQ(reply.ended_jobs_size(), 1);
  EXPECT_EQ(reply.ended_jobs(0).code(), "RANK_LOST");
  EXPECT_EQ(reply.ended_jobs(0).ended_ms_ago(), 4000u);
}

TEST_F(MergeStatusTest, LeavesOutTheEndOfAJobThatRunsButNotOfOneThatForms) {
  parts.own.add_ended_jobs()->set_name("train");
  parts.own.add_ended_jobs()->set_name("next");
  JobIn(parts.own, {"", "next"}, /*forms=*/true);
  const v1::StatusReply reply = MergeStatus(parts);
  ASSERT_EQ(reply.ended_jobs_size(), 1);
  EXPECT_EQ(reply.ended_jobs(0).name(), "next");
}

}  // namespace
}  // namespace mlxcomm::node::status_parts_test
