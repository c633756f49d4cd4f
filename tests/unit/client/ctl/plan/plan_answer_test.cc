// The answers of `plan`: its limits, its figures.
#include "client/ctl/plan/plan_answer.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace mlxcomm::ctl::plan_answer_test {
namespace {

PlanOptions Request(const std::string& operation, std::uint64_t bytes, std::uint32_t nodes,
                    std::uint32_t ranks_per_node) {
  PlanOptions request;
  request.operation = operation;
  request.bytes = bytes;
  request.nodes = nodes;
  request.ranks_per_node = ranks_per_node;
  return request;
}

v1::PlanReply Answer(const PlanOptions& request, const v1::LinkCosts& measured = {}) {
  v1::PlanReply reply;
  const absl::Status status = AnswerPlan(request, measured, reply);
  EXPECT_TRUE(status.ok()) << status;
  return reply;
}

std::string RefusalOf(const PlanOptions& request) {
  v1::PlanReply reply;
  const absl::Status status = AnswerPlan(request, {}, reply);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

TEST(PlanAnswerTest, ChoosesTheCheapest) {
  const v1::PlanReply reply = Answer(Request("all_reduce", 64 << 20, 8, 2));
  EXPECT_EQ(reply.operation(), "all_reduce sum float32[16777216]");
  EXPECT_EQ(reply.plan(), "ring");
  EXPECT_FALSE(reply.forced());
  ASSERT_EQ(reply.estimates_size(), 4);
  EXPECT_EQ(reply.estimates(0).plan(), "ring");
  EXPECT_EQ(reply.estimates(0).predicted_ns(), reply.predicted_ns());
  for (int i = 1; i < reply.estimates_size(); ++i) {
    EXPECT_LE(reply.estimates(i - 1).predicted_ns(), reply.estimates(i).predicted_ns());
  }
  EXPECT_EQ(reply.node_plans_size(), 0);
}

// Why: people compare the figures with the cables. How: a ring of N nodes carries n (N-1)/N in each
// direction on each of its 2N directed links.
TEST(PlanAnswerTest, TellsWhatEachLinkCarries) {
  const v1::PlanReply reply = Answer(Request("all_reduce", 64 << 20, 8, 1));
  ASSERT_EQ(reply.links_size(), 16);
  for (const v1::PlanLink& link : reply.links()) {
    EXPECT_EQ(link.bytes(), (64u << 20) / 8 * 7);
    EXPECT_EQ(link.messages(), 14u * 16);  // Turns, for each slice of 4 MiB.
    const std::uint32_t distance = (link.to() + 8 - link.from()) % 8;
    EXPECT_TRUE(distance == 1 || distance == 7);
  }
  const double seconds = static_cast<double>(reply.predicted_ns()) / 1e9;
  EXPECT_NEAR(static_cast<double>(reply.bus_bytes_per_second()), (64 << 20) * 2 * 7.0 / 8 / seconds,
              1e6);
}

// How: also where nodes are no power of two.
TEST(PlanAnswerTest, TakesEveryPlanThatIsOffered) {
  const std::vector<std::string> kinds = {
      "all_reduce", "all_gather", "reduce_scatter", "broadcast",    "reduce",
      "all_to_all", "gather",     "scatter",        "all_gather_v", "all_to_all_v"};
  for (const std::string& kind : kinds) {
    for (const std::uint32_t nodes : {2u, 3u, 8u}) {
      PlanOptions request = Request(kind, 3'000'000, nodes, 2);
      const v1::PlanReply chosen = Answer(request);
      ASSERT_GT(chosen.estimates_size(), 0) << kind;
      EXPECT_EQ(chosen.estimates(0).plan(), chosen.plan()) << kind << " on " << nodes;
      for (const v1::PlanEstimate& estimate : chosen.estimates()) {
        request.plan = estimate.plan();
        const v1::PlanReply forced = Answer(request);
        EXPECT_EQ(forced.plan(), estimate.plan());
        EXPECT_TRUE(forced.forced());
        EXPECT_EQ(forced.predicted_ns(), estimate.predicted_ns());
      }
    }
  }
}

TEST(PlanAnswerTest, ABarrierIsPlannedAsAnAllReduceOfNothing) {
  const v1::PlanReply reply = Answer(Request("barrier", 0, 4, 2));
  EXPECT_EQ(reply.operation(), "barrier");
  EXPECT_GT(reply.predicted_ns(), 0u);
  EXPECT_EQ(reply.bus_bytes_per_second(), 0u);
  EXPECT_GT(reply.messages(), 0u);
}

TEST(PlanAnswerTest, OneNodeUsesNoLinkAndPredictsNothing) {
  const v1::PlanReply reply = Answer(Request("all_reduce", 4096, 1, 4));
  EXPECT_EQ(reply.plan(), "");
  EXPECT_EQ(reply.predicted_ns(), 0u);
  EXPECT_EQ(reply.estimates_size(), 0);
  EXPECT_EQ(reply.links_size(), 0);
  EXPECT_GT(reply.steps(), 0u);
}

TEST(PlanAnswerTest, FiguresAreGivenElseMeasuredElseTheDefault) {
  PlanOptions request = Request("all_reduce", 4096, 4, 1);
  request.latency_ns = 5'000;
  v1::LinkCosts measured;
  measured.set_latency_ns(1'000'000);
  measured.set_links_per_node(1);
  const v1::PlanReply reply = Answer(request, measured);
  EXPECT_EQ(reply.costs().latency_ns(), 5'000u);
  EXPECT_EQ(reply.latency_source(), "given");
  EXPECT_EQ(reply.costs().links_per_node(), 1u);
  EXPECT_EQ(reply.links_per_node_source(), "this node");
  EXPECT_EQ(reply.costs().bytes_per_second(), collective::LinkCosts().bytes_per_second);
  EXPECT_EQ(reply.bytes_per_second_source(), "default");
}

TEST(PlanAnswerTest, SlowerLinksCostMore) {
  PlanOptions request = Request("all_to_all", 1 << 20, 4, 2);
  request.bytes_per_second = 4'000'000'000;
  const std::uint64_t fast = Answer(request).predicted_ns();
  request.bytes_per_second = 1'000'000'000;
  const std::uint64_t slow = Answer(request).predicted_ns();
  // Each node has 2 x 2 blocks of a MiB for each of three others, and fills two links; in
  // the ring one of the three is two cables away.
  EXPECT_NEAR(static_cast<double>(slow - fast), 4 * 1048576 * 2 * 0.75, 10'000);
}

TEST(PlanAnswerTest, StepsAreListedWithTheirPlaces) {
  PlanOptions request = Request("broadcast", 1 << 20, 2, 2);
  request.root = 3;
  request.steps = true;
  const v1::PlanReply reply = Answer(request);
  ASSERT_EQ(reply.node_plans_size(), 2);
  EXPECT_EQ(reply.steps_left_out(), 0u);
  std::uint64_t listed = 0;
  bool sends = false;
  for (const v1::PlanNode& node : reply.node_plans()) {
    EXPECT_EQ(node.ranks_size(), 2);
    listed += static_cast<std::uint64_t>(node.steps_size());
    for (const v1::PlanStep& step : node.steps()) {
      if (step.kind() != "send") continue;
      sends = true;
      EXPECT_EQ(node.node(), 1u);  // Where the root is.
      EXPECT_EQ(step.node(), 0u);
      EXPECT_EQ(step.bytes(), 1u << 20);
      EXPECT_EQ(step.source().rank(), 3u);
      EXPECT_FALSE(step.has_destination());
    }
  }
  EXPECT_TRUE(sends);
  EXPECT_EQ(listed, reply.steps());
}

TEST(PlanAnswerTest, ListsNoMoreStepsThanAReplyMayHold) {
  PlanOptions request = Request("all_reduce", 1 << 20, 32, 4);
  request.plan = "ring";
  request.steps = true;
  const v1::PlanReply reply = Answer(request);
  std::uint64_t listed = 0;
  for (const v1::PlanNode& node : reply.node_plans()) {
    listed += static_cast<std::uint64_t>(node.steps_size());
  }
  EXPECT_LE(listed, kPlanStepsListedMax);
  EXPECT_GT(listed, 0u);
  EXPECT_EQ(listed + reply.steps_left_out(), reply.steps());
}

struct Refused {
  std::string name;
  void (*spoil)(PlanOptions& request);
  std::string message;  // A part of it.
};

class RefusedPlanTest : public testing::TestWithParam<Refused> {};

// Why: what is beyond the limits would take all of a machine's memory.
TEST_P(RefusedPlanTest, NamesTheLimit) {
  PlanOptions request = Request("all_reduce", 4096, 4, 2);
  GetParam().spoil(request);
  const std::string message = RefusalOf(request);
  EXPECT_NE(message.find(GetParam().message), std::string::npos) << message;
}

INSTANTIATE_TEST_SUITE_P(
    All, RefusedPlanTest,
    testing::Values(
        Refused{"NoNodes", [](auto& r) { r.nodes = 0; }, "--nodes must be 1 to 32, not 0"},
        Refused{"ManyNodes", [](auto& r) { r.nodes = 4'000'000'000; }, "nodes must be 1 to 32"},
        Refused{"ManyRanks", [](auto& r) { r.ranks_per_node = 65; },
                "--ranks-per-node must be 1 to 64, not 65"},
        Refused{"ManyInAll",
                [](auto& r) {
                  r.nodes = 32;
                  r.ranks_per_node = 9;
                },
                "--nodes x --ranks-per-node must be 1 to 256, not 288"},
        Refused{"ManyBytes", [](auto& r) { r.bytes = ~std::uint64_t{0}; },
                "bytes must be 0 to 1099511627776"},
        Refused{"PartOfAnElement", [](auto& r) { r.bytes = 4097; },
                "bytes must be a multiple of 4, for float32, not 4097"},
        Refused{"NoOperation", [](auto& r) { r.operation = ""; },
                "no such operation: \"\": expected one of all_reduce, all_gather"},
        Refused{"LongName", [](auto& r) { r.operation = std::string(60'000, 'x'); },
                "no such operation: \"" + std::string(40, 'x') + "\": expected one of"},
        Refused{"Send", [](auto& r) { r.operation = "send"; }, "send is one message"},
        Refused{"Type", [](auto& r) { r.data_type = "float31"; }, "no such data type"},
        Refused{"Operator", [](auto& r) { r.reduce_operator = "xor"; }, "no such operator"},
        Refused{"NoOperator", [](auto& r) { r.reduce_operator = "none"; },
                "all_reduce needs an operator"},
        Refused{"OperatorWithoutUse",
                [](auto& r) {
                  r.operation = "all_gather";
                  r.reduce_operator = "sum";
                },
                "all_gather does not reduce and takes no operator"},
        Refused{"Meaning",
                [](auto& r) {
                  r.data_type = "int32";
                  r.reduce_operator = "mean";
                },
                "mean has no meaning for int32"},
        Refused{"Root",
                [](auto& r) {
                  r.operation = "gather";
                  r.root = 8;
                },
                "root must be 0 to 7, not 8"},
        Refused{"RootWithoutUse", [](auto& r) { r.root = 1; }, "root must be 0 to 0, not 1"},
        Refused{"BarrierOfBytes", [](auto& r) { r.operation = "barrier"; },
                "barrier moves nothing: --bytes must be 0"},
        Refused{"Plan", [](auto& r) { r.plan = "star"; }, "no such plan"},
        Refused{"PlanNotOffered",
                [](auto& r) {
                  r.operation = "all_to_all";
                  r.plan = "ring";
                },
                "all_to_all cannot go by ring on 4 nodes; it can by exchange"},
        Refused{"PlanOnOneNode",
                [](auto& r) {
                  r.nodes = 1;
                  r.plan = "ring";
                },
                "on one node there is no plan to choose"},
        Refused{"Latency", [](auto& r) { r.latency_ns = ~0ull; },
                "--latency, in nanoseconds, must be 0 to 1000000000"},
        Refused{"Bandwidth", [](auto& r) { r.bytes_per_second = 1; },
                "--bandwidth, in bytes a second, must be 1000000 to 1000000000000, not 1"},
        Refused{"Links", [](auto& r) { r.links_per_node = 65; }, "--links must be 0 to 64, not 65"},
        Refused{"ManySteps",
                [](auto& r) {
                  r.operation = "all_to_all";
                  r.nodes = 32;
                  r.ranks_per_node = 8;
                },
                "takes more than 32768 steps"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace mlxcomm::ctl::plan_answer_test
