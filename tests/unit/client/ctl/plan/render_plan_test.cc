// A plan as text.
#include "client/ctl/plan/render_plan.h"

#include <string>

#include <gtest/gtest.h>

#include <google/protobuf/text_format.h>

namespace mlxcomm::ctl::render_plan_test {
namespace {

v1::PlanReply PlanOf(const std::string& text) {
  v1::PlanReply plan;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &plan));
  return plan;
}

v1::PlanReply EightNodes() {
  return PlanOf(R"(operation: "all_reduce sum float32[16777216]" bytes: 67108864 nodes: 8
                  ranks_per_node: 2 plan: "ring" predicted_ns: 12300000
                  bus_bytes_per_second: 5600000000
                  estimates { plan: "ring" predicted_ns: 12300000 }
                  estimates { plan: "halving_doubling" predicted_ns: 57900000 }
                  costs { latency_ns: 30000 bytes_per_second: 4000000000 links_per_node: 2 }
                  latency_source: "this node" bytes_per_second_source: "given"
                  links_per_node_source: "default"
                  links { from: 0 to: 1 bytes: 58720256 messages: 14 }
                  links { from: 1 to: 0 bytes: 58720256 messages: 14 }
                  steps: 704 messages: 224 scratch_bytes_max: 4096)");
}

TEST(RenderPlanTest, ReadsLikeASummary) {
  EXPECT_EQ(RenderPlan(EightNodes()),
            "all_reduce sum float32[16777216]: 8 nodes, 2 ranks on each, 64 MiB a rank\n"
            "ranks of a node in shared memory, then ring in both directions between 8 nodes; "
            "predicted 12.3 ms; 5.60 GB/s bus bandwidth\n"
            "a link: 30.0 us (this node), 4.00 GB/s each way (given); 2 at once a node (default)\n"
            "\n"
            "plan              predicted\n"
            "ring                12.3 ms  chosen\n"
            "halving_doubling    57.9 ms\n"
            "\n"
            "links between nodes, each direction by itself\n"
            "  56 MiB in 14 messages, on each of 2: 0>1, 1>0\n"
            "\n"
            "704 steps, 224 messages, at most 4.0 KiB of the daemon's memory a node\n");
}

TEST(RenderPlanTest, DescribesEachPlanAndOneNode) {
  v1::PlanReply plan = EightNodes();
  plan.set_ranks_per_node(1);
  EXPECT_EQ(DescribePlan(plan), "ring in both directions between 8 nodes");
  plan.set_nodes(2);
  EXPECT_EQ(DescribePlan(plan), "ring between 2 nodes");
  plan.set_plan("exchange");
  EXPECT_EQ(DescribePlan(plan), "exchange, each message straight to its receiver, between 2 nodes");
  plan.set_plan("halving_doubling");
  EXPECT_EQ(DescribePlan(plan), "halving and doubling between 2 nodes");
  plan.set_plan("tree");
  EXPECT_EQ(DescribePlan(plan), "binomial tree of 2 nodes");
  plan.set_plan("star");  // Of a newer daemon.
  EXPECT_EQ(DescribePlan(plan), "star between 2 nodes");
  plan.set_nodes(1);
  plan.set_ranks_per_node(2);
  EXPECT_EQ(DescribePlan(plan), "one node: its 2 ranks in shared memory, no link is used");
}

TEST(RenderPlanTest, ListsTheFirstOfManyLinksAlike) {
  v1::PlanReply plan = EightNodes();
  for (std::uint32_t to = 2; to < 12; ++to) {
    v1::PlanLink& link = *plan.add_links();
    link = plan.links(0);
    link.set_to(to);
  }
  EXPECT_NE(RenderPlan(plan).find("on each of 12: 0>1, 1>0, 0>2, 0>3, 0>4, 0>5, 0>6, 0>7, ...\n"),
            std::string::npos)
      << RenderPlan(plan);
}

TEST(RenderPlanTest, TellsEachStepWithItsPlaces) {
  const v1::PlanReply plan = PlanOf(R"(
      operation: "o" nodes: 2 ranks_per_node: 2 steps_left_out: 3
      node_plans { node: 1 ranks: 2 ranks: 3
        steps { kind: "local" bytes: 1024 source { buffer: "input" every_rank: true }
                source_count: 1 destination { buffer: "scratch" offset: 64 } }
        steps { kind: "send" node: 0 bytes: 1024 source { buffer: "scratch" offset: 64 } after: 0 }
        steps { kind: "reduce" node: 0 bytes: 1024 source { buffer: "input" rank: 2 }
                destination { buffer: "output" rank: 2 } after: 0 after: 1 finishes: true }
        steps { kind: "receive" node: 0 bytes: 0 destination { buffer: "output" rank: 3 } }
        steps { kind: "local" bytes: 8 source { buffer: "scratch" } source_count: 3
                source_stride: 64 destination { buffer: "output" every_rank: true } }
        steps { kind: "local" bytes: 8 source { buffer: "output" rank: 2 } source_count: 1
                destination { buffer: "output" rank: 3 } } })");
  const std::string text = RenderPlan(plan);
  const std::string expected =
      "node 1, 2 ranks from rank 2\n"
      "     0  combine 1.0 KiB                     from input of all ranks to scratch +64\n"
      "     1  send 1.0 KiB to node 0              from scratch +64; after 0\n"
      "     2  reduce 1.0 KiB from node 0          with input of rank 2 to output of rank 2; after "
      "0, 1; "
      "final\n"
      "     3  receive 0 B from node 0             to output of rank 3\n"
      "     4  combine 8 B                         from scratch and 2 more, 64 apart to output of "
      "all "
      "ranks\n"
      "     5  copy 8 B                            from output of rank 2 to output of rank 3\n"
      "\n"
      "3 steps of further nodes left out\n";
  EXPECT_NE(text.find(expected), std::string::npos) << text;
}

// Why: names may be made up, and go to a terminal.
TEST(RenderPlanTest, ShowsNoControlCharacter) {
  v1::PlanReply plan = EightNodes();
  for (std::string* const text :
       {plan.mutable_operation(), plan.mutable_plan(), plan.mutable_latency_source(),
        plan.mutable_bytes_per_second_source(), plan.mutable_links_per_node_source(),
        plan.mutable_estimates(0)->mutable_plan()}) {
    *text = "\x1b[2J";
  }
  v1::PlanStep& step = *plan.add_node_plans()->add_steps();
  step.set_kind("\x1b");
  step.mutable_source()->set_buffer("\x1b");
  EXPECT_EQ(RenderPlan(plan).find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace mlxcomm::ctl::render_plan_test
