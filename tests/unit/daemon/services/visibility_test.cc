// Which users see which jobs in a status.
#include "daemon/services/visibility.h"

#include <gtest/gtest.h>

namespace mlxcomm::services::visibility_test {
namespace {

v1::StatusReply TwoUsers() {
  v1::StatusReply reply;
  for (const char* const user : {"ann", "bob"}) {
    v1::JobStatus& job = *reply.add_jobs();
    job.set_user(user);
    job.set_name("train");
    reply.add_ended_jobs()->set_user(user);
  }
  // Two nodes: the rule holds for other nodes' parts, too.
  for (int i = 0; i < 2; ++i) {
    v1::NodeStatus& node = *reply.add_nodes();
    node.set_clients(2);
    node.add_links()->set_peer("other");
    node.add_users()->set_user("ann");
    node.add_users()->set_user("bob");
  }
  return reply;
}

TEST(VisibilityTest, AUserSeesItsOwnJobsAndTheNumberOfTheOthers) {
  v1::StatusReply reply = TwoUsers();
  HideOthers({"bob", false}, reply);
  ASSERT_EQ(reply.jobs_size(), 1);
  EXPECT_EQ(reply.jobs(0).user(), "bob");
  EXPECT_EQ(reply.jobs_of_others(), 1u);
  ASSERT_EQ(reply.ended_jobs_size(), 1);
  EXPECT_EQ(reply.ended_jobs(0).user(), "bob");
  for (const v1::NodeStatus& node : reply.nodes()) {
    ASSERT_EQ(node.users_size(), 1);
    EXPECT_EQ(node.users(0).user(), "bob");
  }
  EXPECT_EQ(reply.DebugString().find("ann"), std::string::npos);
}

TEST(VisibilityTest, EverybodySeesAllNodesAndLinks) {
  v1::StatusReply reply = TwoUsers();
  HideOthers({"carl", false}, reply);
  EXPECT_EQ(reply.jobs_size(), 0);
  EXPECT_EQ(reply.jobs_of_others(), 2u);
  ASSERT_EQ(reply.nodes_size(), 2);
  EXPECT_EQ(reply.nodes(1).clients(), 2u);
  EXPECT_EQ(reply.nodes(1).links_size(), 1);
}

TEST(VisibilityTest, RootAndOperatorsSeeAll) {
  v1::StatusReply reply = TwoUsers();
  HideOthers({"carl", true}, reply);
  EXPECT_EQ(reply.SerializeAsString(), TwoUsers().SerializeAsString());
}

TEST(VisibilityTest, UsersWhoShareSeeEachOthers) {
  v1::StatusReply reply = TwoUsers();
  HideOthers({"", false}, reply);
  EXPECT_EQ(reply.jobs_size(), 2);
}

}  // namespace
}  // namespace mlxcomm::services::visibility_test
