// The table of a measurement, and its JSON.
#include "client/ctl/bench/render_bench.h"

#include <string>

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include "tests/unit/client/ctl/message_of.h"

namespace mlxcomm::ctl::render_bench_test {
namespace {

v1::BenchLink Link(const std::string& text) { return MessageOf<v1::BenchLink>(text); }

BenchRun Measured() {
  BenchRun run{.subject = {.ranks = 2},
               .cluster = "c\"1",
               .nodes = 2,
               .places = {"a", "b"},
               .iterations = 20,
               .warm_up = 5};
  run.results.push_back(
      {.count = 2, .operations = 26, .mean_ns = 8420, .fastest_ns = 8400, .slowest_ns = 8440});
  run.results.push_back({.count = 262144,
                         .operations = 26,
                         .mean_ns = 1e6,
                         .fastest_ns = 1e6,
                         .slowest_ns = 1e6,
                         .loads = {Link(R"(from: "a" to: "b\033" bytes_per_operation: 1048576
                                             bytes_per_second: 1.05e9 best_bytes_per_second: 1.25e9
                                             fraction_of_best: 0.84)"),
                                   Link(R"(from: "b" to: "a" bytes_per_operation: 9
                                             bytes_per_second: 9)")}});
  return run;
}

TEST(RenderBenchTest, IsATable) {
  const BenchRun run = Measured();
  EXPECT_EQ(RenderBenchHead(run),
            "all_reduce sum, 2 ranks on a, b, 20 iterations after 5 to warm up\n"
            "        size        count      type       time     algbw     busbw   link  wrong\n"
            "         (B)   (elements)                 (us)    (GB/s)    (GB/s)              \n");
  EXPECT_EQ(RenderBenchRow(run, run.results[0]),
            "           8            2   float32       8.42      0.00      0.00      -      0\n");
  EXPECT_EQ(RenderBenchRow(run, run.results[1]),
            "     1048576       262144   float32       1000      1.05      1.05    84%      0\n");
  EXPECT_EQ(RenderBenchEnd(run),
            "links, at 1.0 MiB\n"
            "  a to b?  1.05 GB/s, 84% of its best (1.25 GB/s)\n"
            "  b to a  9 B/s\n"
            "all values are right\n");
}

// Why: people took 3 GB/s inside one machine for their cable's.
TEST(RenderBenchTest, NamesTheMeasuredNodes) {
  BenchRun run = Measured();
  run.places = {"mac-a"};
  EXPECT_TRUE(RenderBenchHead(run).starts_with("all_reduce sum, 2 ranks on mac-a, 20 iter"));
  EXPECT_NE(RenderBenchEnd(run).find("all ranks on mac-a, so no cable was measured; to measure "
                                     "them: mlxcommctl bench --nodes all\n"),
            std::string::npos);
  run.nodes = 1;
  EXPECT_EQ(RenderBenchEnd(run).find("no cable"), std::string::npos) << "there is none";
  run.places = {"a", "b", "c", "d", "e"};
  EXPECT_TRUE(RenderBenchHead(run).starts_with("all_reduce sum, 2 ranks on 5 nodes, 20 iter"));
  run.places = {};
  EXPECT_TRUE(RenderBenchHead(run).starts_with("all_reduce sum, 2 ranks in a cluster of 1 node"));
  v1::StatusReply status = MessageOf<v1::StatusReply>(
      R"(jobs { name: "bench" size: 3 state: "running" ranks { node: "b" } ranks { rank: 1 node: "a" } }
         jobs { name: "bench" size: 2 state: "forming" ranks { node: "x" } }
         jobs { name: "train" size: 3 state: "running" ranks { rank: 2 node: "y" } })");
  EXPECT_EQ(PlacesOf(status, "bench", 3), std::vector<std::string>{}) << "rank 2 is missing";
  v1::RankStatus& last = *status.mutable_jobs(0)->add_ranks();
  last.set_rank(2);
  last.set_node("b");
  EXPECT_EQ(PlacesOf(status, "bench", 3), (std::vector<std::string>{"b", "a"}));
}

// Why: a user with RDMA wants to know whether it is used, and what TCP carries beside it.
TEST(RenderBenchTest, ShowsTheBytesOfEachKindOfRail) {
  BenchRun run = Measured();
  v1::BenchLink& load = run.results[1].loads[0];
  load.MergeFrom(Link(R"(rails { transport: "rdma" bytes_per_operation: 943718
                                 bytes_per_second: 0.945e9 best_bytes_per_second: 1.2e9 }
                         rails { transport: "tcp" bytes_per_operation: 104858
                                 bytes_per_second: 0.105e9 })"));
  EXPECT_NE(
      RenderBenchEnd(run).find("    over rdma 945 MB/s (90% of the bytes, at best 1.20 GB/s), "
                               "tcp 105 MB/s (10% of the bytes)\n"),
      std::string::npos)
      << RenderBenchEnd(run);
  EXPECT_NE(BenchJson(run).find("\"transport\": \"rdma\""), std::string::npos);
  load.mutable_rails()->DeleteSubrange(0, 1);
  EXPECT_EQ(RenderBenchEnd(run).find("over"), std::string::npos) << "nothing new";
}

TEST(RenderBenchTest, ReportsWrongAndUncheckedValues) {
  BenchRun run = Measured();
  run.results[1].wrong = 3;
  EXPECT_NE(RenderBenchEnd(run).find("WRONG: 3 elements"), std::string::npos);
  run.check = false;
  EXPECT_NE(RenderBenchEnd(run).find("not checked"), std::string::npos);
  EXPECT_NE(RenderBenchRow(run, run.results[0]).find(" -\n"), std::string::npos);
}

TEST(RenderBenchTest, ReportsInPlace) {
  BenchRun run = Measured();
  run.in_place = true;
  EXPECT_NE(RenderBenchHead(run).find("a, b, in place, 20 iterations"), std::string::npos);
  EXPECT_NE(BenchJson(run).find("\"in_place\": true"), std::string::npos);
}

TEST(RenderBenchTest, WritesJson) {
  google::protobuf::Struct read;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(BenchJson(Measured()), &read).ok())
      << BenchJson(Measured());
  const auto& fields = read.fields();
  EXPECT_EQ(fields.at("cluster").string_value(), "c\"1");
  EXPECT_EQ(fields.at("operator").string_value(), "sum");
  const auto& second = fields.at("results").list_value().values(1).struct_value().fields();
  EXPECT_EQ(second.at("bytes").number_value(), 1048576);
  EXPECT_EQ(second.at("time_us").number_value(), 1000);
  const auto& link = second.at("links").list_value().values(0).struct_value().fields();
  EXPECT_EQ(link.at("fraction_of_best").number_value(), 0.84);
}

TEST(RenderBenchTest, ParsesOnlyTheOutputOfARank) {
  BenchResult result;
  EXPECT_TRUE(ParseBenchResult("2 26 8420.1 8400.0 8440.0 0", result));
  EXPECT_EQ(result.operations, 26u);
  EXPECT_DOUBLE_EQ(result.slowest_ns, 8440);
  for (const char* const line : {"", "ready", "2 26 8420", "0 26 1 1 1 0", "2 26 nan 1 1 0"}) {
    EXPECT_FALSE(ParseBenchResult(line, result)) << line;
  }
}

}  // namespace
}  // namespace mlxcomm::ctl::render_bench_test
