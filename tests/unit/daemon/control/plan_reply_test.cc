// The answer of a Plan call: its limits, its figures, its proof.
#include "daemon/control/plan_reply.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace mlxcomm::control::plan_reply_test {
namespace {

v1::PlanRequest Request(const std::string& operation, std::uint64_t bytes, std::uint32_t nodes,
                        std::uint32_t ranks_per_node) {
  v1::PlanRequest request;
  request.set_operation(operation);
  request.set_bytes(bytes);
  request.set_nodes(nodes);
  request.set_ranks_per_node(ranks_per_node);
  return request;
}

v1::PlanReply Answer(const v1::PlanRequest& request, const v1::LinkCosts& measured = {}) {
  v1::PlanReply reply;
  const absl::Status status = WritePlanReply(request, measured, reply);
  EXPECT_TRUE(status.ok()) << status;
  return reply;
}

std::string RefusalOf(const v1::PlanRequest& request) {
  v1::PlanReply reply;
  const absl::Status status = WritePlanReply(request, {}, reply);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

TEST(PlanReplyTest, ChoosesTheCheapestAndProvesIt) {
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
  EXPECT_TRUE(reply.verified()) << reply.verdict();
  EXPECT_EQ(reply.verified_bytes(), reply.bytes());
  EXPECT_EQ(reply.node_plans_size(), 0);
}

// Why: the figures are what a person compares with the cables. How: a ring of N nodes
// carries n (N-1)/N each way round on each of its 2N directed links.
TEST(PlanReplyTest, TellsWhatEachLinkCarries) {
  const v1::PlanReply reply = Answer(Request("all_reduce", 64 << 20, 8, 1));
  ASSERT_EQ(reply.links_size(), 16);
  for (const v1::PlanLink& link : reply.links()) {
    EXPECT_EQ(link.bytes(), (64u << 20) / 8 * 7);
    EXPECT_EQ(link.optimal_bytes(), link.bytes());
    EXPECT_EQ(link.messages(), 14u * 16);  // Turns, for each slice of 4 MiB.
    const std::uint32_t distance = (link.to() + 8 - link.from()) % 8;
    EXPECT_TRUE(distance == 1 || distance == 7);
  }
  const double seconds = static_cast<double>(reply.predicted_ns()) / 1e9;
  EXPECT_NEAR(static_cast<double>(reply.bus_bytes_per_second()), (64 << 20) * 2 * 7.0 / 8 / seconds,
              1e6);
}

// Why: whatever is asked, the plans that jobs get must be proved, or the tool is no help.
// How: each kind by each plan that it offers, also where nodes are no power of two.
TEST(PlanReplyTest, ProvesEveryKindByEveryPlanThatItOffers) {
  const std::vector<std::string> kinds = {
      "all_reduce", "all_gather", "reduce_scatter", "broadcast",    "reduce",
      "all_to_all", "gather",     "scatter",        "all_gather_v", "all_to_all_v"};
  for (const std::string& kind : kinds) {
    for (const std::uint32_t nodes : {2u, 3u, 8u}) {
      v1::PlanRequest request = Request(kind, 3'000'000, nodes, 2);
      const v1::PlanReply chosen = Answer(request);
      ASSERT_GT(chosen.estimates_size(), 0) << kind;
      EXPECT_EQ(chosen.estimates(0).plan(), chosen.plan()) << kind << " on " << nodes;
      for (const v1::PlanEstimate& estimate : chosen.estimates()) {
        request.set_plan(estimate.plan());
        const v1::PlanReply forced = Answer(request);
        EXPECT_EQ(forced.plan(), estimate.plan());
        EXPECT_TRUE(forced.forced());
        EXPECT_EQ(forced.predicted_ns(), estimate.predicted_ns());
        EXPECT_TRUE(forced.verified()) << kind << " by " << estimate.plan() << " on " << nodes
                                       << " nodes: " << forced.verdict();
      }
    }
  }
}

TEST(PlanReplyTest, ABarrierIsPlannedAsAnAllReduceOfNothing) {
  const v1::PlanReply reply = Answer(Request("barrier", 0, 4, 2));
  EXPECT_EQ(reply.operation(), "barrier");
  EXPECT_GT(reply.predicted_ns(), 0u);
  EXPECT_EQ(reply.bus_bytes_per_second(), 0u);
  EXPECT_TRUE(reply.verified()) << reply.verdict();
  EXPECT_GT(reply.messages(), 0u);
}

TEST(PlanReplyTest, OneNodeUsesNoLinkAndPredictsNothing) {
  const v1::PlanReply reply = Answer(Request("all_reduce", 4096, 1, 4));
  EXPECT_EQ(reply.plan(), "");
  EXPECT_EQ(reply.predicted_ns(), 0u);
  EXPECT_EQ(reply.estimates_size(), 0);
  EXPECT_EQ(reply.links_size(), 0);
  EXPECT_GT(reply.steps(), 0u);
  EXPECT_TRUE(reply.verified()) << reply.verdict();
}

TEST(PlanReplyTest, FiguresAreGivenElseMeasuredElseTheDefault) {
  v1::PlanRequest request = Request("all_reduce", 4096, 4, 1);
  request.mutable_costs()->set_latency_ns(5'000);
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

TEST(PlanReplyTest, SlowerLinksCostMore) {
  v1::PlanRequest request = Request("all_to_all", 1 << 20, 4, 2);
  request.mutable_costs()->set_bytes_per_second(4'000'000'000);
  const std::uint64_t fast = Answer(request).predicted_ns();
  request.mutable_costs()->set_bytes_per_second(1'000'000'000);
  const std::uint64_t slow = Answer(request).predicted_ns();
  // Each node has 2 x 2 blocks of a MiB for each of three others, and fills two links; in
  // the ring one of the three is two cables away.
  EXPECT_NEAR(static_cast<double>(slow - fast), 4 * 1048576 * 4 / 2 * 0.75, 10'000);
}

TEST(PlanReplyTest, StepsAreListedWithTheirPlaces) {
  v1::PlanRequest request = Request("broadcast", 1 << 20, 2, 2);
  request.set_root(3);
  request.set_with_steps(true);
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

TEST(PlanReplyTest, ListsNoMoreStepsThanAReplyMayHold) {
  v1::PlanRequest request = Request("all_reduce", 1 << 20, 32, 4);
  request.set_plan("ring");
  request.set_with_steps(true);
  const v1::PlanReply reply = Answer(request);
  std::uint64_t listed = 0;
  for (const v1::PlanNode& node : reply.node_plans()) {
    listed += static_cast<std::uint64_t>(node.steps_size());
  }
  EXPECT_LE(listed, kPlanStepsListedMax);
  EXPECT_GT(listed, 0u);
  EXPECT_EQ(listed + reply.steps_left_out(), reply.steps());
  EXPECT_LT(reply.ByteSizeLong(), std::size_t{2} << 20);  // gRPC's clients take 4 MiB.
}

// Why: a proof costs by the chunk, and a terabyte has millions. How: the proof is for less
// data, said so, and the links' bytes are still those of all of it.
TEST(PlanReplyTest, ProvesManyChunksByFewer) {
  for (const std::uint64_t bytes : {std::uint64_t{1} << 40, (std::uint64_t{1} << 38) + 20}) {
    for (const char* const plan : {"ring", "exchange", "halving_doubling", "tree"}) {
      v1::PlanRequest request = Request("all_reduce", bytes, 6, 3);
      request.set_plan(plan);
      const v1::PlanReply reply = Answer(request);
      EXPECT_TRUE(reply.verified()) << plan << ": " << reply.verdict();
      EXPECT_LT(reply.verified_bytes(), bytes);
      EXPECT_GE(reply.verified_bytes(), std::uint64_t{1} << 26);
      std::uint64_t carried = 0;
      for (const v1::PlanLink& link : reply.links()) carried += link.bytes();
      EXPECT_GE(carried, bytes);
    }
  }
}

// Why: how many slices of a ring are under way, and whether blocks that are not finished have scratch
// memory, follows from the size of its blocks; a proof for less data must not choose anew.
// How: sizes and links at which less data would be done otherwise.
TEST(PlanReplyTest, ProvesLongRingsAsTheyAreDone) {
  struct Case {
    std::uint32_t nodes;
    std::uint64_t gibibytes;
    std::uint64_t latency_ns;  // 0: the default.
    std::uint64_t bytes_per_second;
  };
  for (const Case& a :
       {Case{3, 4, 0, 0}, Case{4, 4, 0, 0}, Case{8, 1, 0, 0}, Case{3, 2, 1'000'000, 1'250'000'000},
        Case{4, 2, 1'000'000, 1'250'000'000}, Case{16, 1, 60'000, 10'000'000'000}}) {
    v1::PlanRequest request = Request("all_reduce", a.gibibytes << 30, a.nodes, 1);
    request.set_plan("ring");
    if (a.latency_ns != 0) {
      request.mutable_costs()->set_latency_ns(a.latency_ns);
      request.mutable_costs()->set_bytes_per_second(a.bytes_per_second);
    }
    const v1::PlanReply reply = Answer(request);
    EXPECT_TRUE(reply.verified()) << a.nodes << " nodes, " << a.gibibytes
                                  << " GiB: " << reply.verdict();
    EXPECT_LT(reply.verified_bytes(), request.bytes());
  }
}

struct Refused {
  std::string name;
  void (*spoil)(v1::PlanRequest& request);
  std::string message;  // A part of it.
};

class RefusedPlanTest : public testing::TestWithParam<Refused> {};

// Why: anybody who may use the daemon may ask for anything; what is beyond the limits must
// cost nothing and say what the limits are.
TEST_P(RefusedPlanTest, NamesTheLimit) {
  v1::PlanRequest request = Request("all_reduce", 4096, 4, 2);
  GetParam().spoil(request);
  const std::string message = RefusalOf(request);
  EXPECT_NE(message.find(GetParam().message), std::string::npos) << message;
}

INSTANTIATE_TEST_SUITE_P(
    All, RefusedPlanTest,
    testing::Values(
        Refused{"NoNodes", [](auto& r) { r.set_nodes(0); }, "nodes must be 1 to 32, not 0"},
        Refused{"ManyNodes", [](auto& r) { r.set_nodes(4'000'000'000); }, "nodes must be 1 to 32"},
        Refused{"ManyRanks", [](auto& r) { r.set_ranks_per_node(65); },
                "ranks_per_node must be 1 to 64, not 65"},
        Refused{"ManyInAll",
                [](auto& r) {
                  r.set_nodes(32);
                  r.set_ranks_per_node(9);
                },
                "nodes x ranks_per_node must be 1 to 256, not 288"},
        Refused{"ManyBytes", [](auto& r) { r.set_bytes(~std::uint64_t{0}); },
                "bytes must be 0 to 1099511627776"},
        Refused{"PartOfAnElement", [](auto& r) { r.set_bytes(4097); },
                "bytes must be a multiple of 4, for float32, not 4097"},
        Refused{"NoOperation", [](auto& r) { r.set_operation(""); },
                "no such operation: \"\"; there are all_reduce, all_gather"},
        Refused{"LongName", [](auto& r) { r.set_operation(std::string(60'000, 'x')); },
                "no such operation: \"" + std::string(40, 'x') + "\"; there are"},
        Refused{"Send", [](auto& r) { r.set_operation("send"); }, "send is one message"},
        Refused{"Type", [](auto& r) { r.set_data_type("float31"); }, "no such data type"},
        Refused{"Operator", [](auto& r) { r.set_reduce_operator("xor"); }, "no such operator"},
        Refused{"NoOperator", [](auto& r) { r.set_reduce_operator("none"); },
                "all_reduce needs an operator"},
        Refused{"OperatorWithoutUse",
                [](auto& r) {
                  r.set_operation("all_gather");
                  r.set_reduce_operator("sum");
                },
                "all_gather does not reduce and takes no operator"},
        Refused{"Meaning",
                [](auto& r) {
                  r.set_data_type("int32");
                  r.set_reduce_operator("mean");
                },
                "mean has no meaning for int32"},
        Refused{"Root",
                [](auto& r) {
                  r.set_operation("gather");
                  r.set_root(8);
                },
                "root must be 0 to 7, not 8"},
        Refused{"RootWithoutUse", [](auto& r) { r.set_root(1); }, "root must be 0 to 0, not 1"},
        Refused{"BarrierOfBytes", [](auto& r) { r.set_operation("barrier"); },
                "barrier moves nothing: bytes must be 0"},
        Refused{"Plan", [](auto& r) { r.set_plan("star"); }, "no such plan"},
        Refused{"PlanNotOffered",
                [](auto& r) {
                  r.set_operation("all_to_all");
                  r.set_plan("ring");
                },
                "all_to_all cannot go by ring on 4 nodes; it can by exchange"},
        Refused{"PlanOnOneNode",
                [](auto& r) {
                  r.set_nodes(1);
                  r.set_plan("ring");
                },
                "on one node there is no plan to choose"},
        Refused{"Latency", [](auto& r) { r.mutable_costs()->set_latency_ns(~0ull); },
                "latency_ns must be 0 to 1000000000"},
        Refused{"Bandwidth", [](auto& r) { r.mutable_costs()->set_bytes_per_second(1); },
                "bytes_per_second must be 1000000 to 1000000000000, not 1"},
        Refused{"Links", [](auto& r) { r.mutable_costs()->set_links_per_node(65); },
                "links_per_node must be 0 to 64, not 65"},
        Refused{"ManySteps",
                [](auto& r) {
                  r.set_operation("all_to_all");
                  r.set_nodes(32);
                  r.set_ranks_per_node(8);
                },
                "takes more than 32768 steps"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace mlxcomm::control::plan_reply_test
