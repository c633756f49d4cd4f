#include "client/ctl/record/render_record.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/unit/client/ctl/message_of.h"

namespace mlxcomm::ctl::render_record_test {
namespace {

v1::FlightRecordReply RecordOf(const std::string& text) {
  return MessageOf<v1::FlightRecordReply>(text);
}

TEST(RenderRecordTest, IsATableOfPhasesWithTheNewestLast) {
  const v1::FlightRecordReply record = RecordOf(
      R"(node: "a" taken_ns: 1000000000 operations_left_out: 40
         operations { group: 1 group_name: "train" job: "train" number: 57
                      operation: "all_reduce sum float32[5]" bytes: 20 state: "done"
                      called { rank: 0 at_ns: 990000000 } called { rank: 1 at_ns: 990010000 }
                      heard { rank: 2 node: "b" at_ns: 990050000 }
                      matched_ns: 990010000 first_byte_ns: 990050000 last_byte_ns: 990080000
                      ended_ns: 990081200 last: "node b" }
         operations { group: 1 group_name: "train" job: "train" number: 58 operation: "barrier"
                      state: "done" called { rank: 0 at_ns: 995000000 }
                      matched_ns: 995000000 ended_ns: 995002000 last: "rank 0" })");
  EXPECT_EQ(RenderRecord(record),
            "node a: the last 2 operations of 42 recorded; mlxcommctl record --help explains the "
            "columns\n"
            "      ago  group  operation                     bytes  state    total    ranks    "
            "peers     data      end  last\n"
            "  10.0 ms  train  57 all_reduce sum float32[5]   20 B  done   81.2 us  10.0 us  "
            "40.0 us  30.0 us  1.20 us  node b\n"
            "  5.00 ms  train  58 barrier                      0 B  done   2.00 us     0 ns  "
            "      -        -  2.00 us  rank 0\n");
}

v1::RecordedOperation Between(const std::string& moments) {
  return MessageOf<v1::RecordedOperation>(
      "plan: \"exchange\" called { rank: 0 at_ns: 1000 } matched_ns: 1100 " + moments);
}

std::uint64_t Length(const Phase& phase) {
  return phase.begin_ns == 0 ? 0 : phase.end_ns - phase.begin_ns;
}

// Why: small data goes out before any other node has called, and the wait that follows is for the
// other nodes, not the time that data takes.
TEST(RenderRecordTest, CountsTheWaitForOtherNodesEvenAfterOwnDataWasSent) {
  const Phases done = PhasesOf(
      Between("first_byte_ns: 1100 heard { at_ns: 5000 } last_byte_ns: 5200 ended_ns: 5300"), 9000);
  EXPECT_EQ(Length(done.ranks), 100u);
  EXPECT_EQ(Length(done.peers), 3900u);
  EXPECT_EQ(Length(done.data), 200u);
  EXPECT_EQ(Length(done.end), 100u);
  const Phases waits = PhasesOf(Between("first_byte_ns: 1100"), 9000);
  EXPECT_EQ(Length(waits.peers), 7900u);
  EXPECT_EQ(waits.data.begin_ns, 0u);
  // No node answers a root's data, once it is acknowledged.
  const Phases root =
      PhasesOf(Between("first_byte_ns: 1100 last_byte_ns: 1400 ended_ns: 1500"), 9000);
  EXPECT_EQ(Length(root.peers), 0u);
  EXPECT_EQ(Length(root.data), 300u);
}

TEST(RenderRecordTest, CountsTheTimeUntilAFailureForItsPhase) {
  const std::string failed = " failure: \"RANK_LOST\" ended_ns: 8000";
  const Phases waited = PhasesOf(Between("first_byte_ns: 1100 last_byte_ns: 1100" + failed), 9000);
  EXPECT_EQ(Length(waited.peers), 6900u);
  EXPECT_EQ(waited.data.begin_ns, 0u);
  EXPECT_EQ(waited.end.begin_ns, 0u);
  const Phases moved = PhasesOf(
      Between("first_byte_ns: 1100 heard { at_ns: 1200 } last_byte_ns: 2000" + failed), 9000);
  EXPECT_EQ(Length(moved.peers), 100u);
  EXPECT_EQ(Length(moved.data), 6800u);
  EXPECT_EQ(moved.end.begin_ns, 0u);
}

TEST(RenderRecordTest, OnOneNodeTheEndBeginsAfterTheLastCall) {
  v1::RecordedOperation operation = Between("ended_ns: 1500");
  operation.clear_plan();
  const Phases phases = PhasesOf(operation, 9000);
  EXPECT_EQ(phases.peers.begin_ns, 0u);
  EXPECT_EQ(phases.data.begin_ns, 0u);
  EXPECT_EQ(Length(phases.end), 400u);
}

// Why: people look for operations that have not ended, or have failed.
TEST(RenderRecordTest, NamesMissingRanksAndTheLoadOfRails) {
  const v1::FlightRecordReply record = RecordOf(
      R"(node: "a" taken_ns: 4000000000
         operations { group: 9 number: 3 point_to_point: true source_rank: 2 destination_rank: 0
                      tag: 7 operation: "recv int8[4]" bytes: 4 state: "failed"
                      failure: "RANK_LOST" called { rank: 0 at_ns: 1000000000 }
                      matched_ns: 1000000000 first_byte_ns: 1100000000 ended_ns: 3000000000
                      last: "node b" heard { rank: 2 node: "b" at_ns: 1100000000 }
                      rails { rail: "tcp x - y" frames: 2 received_bytes: 3 last_ns: 1500000000 } }
         operations { group: 1 group_name: "train" number: 4 state: "early"
                      heard { rank: 5 at_ns: 3900000000 } })");
  const std::string text = RenderRecord(record);
  EXPECT_NE(text.find("not done\n"
                      "  9 3 recv int8[4] 2>0 tag 7: called here by rank 0; heard from node b; "
                      "tcp x - y carried 0 B out, 3 B in, the last 2.50 s ago\n"
                      "  train 4: no rank of this node has called it; heard from the node of "
                      "rank 5\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("RANK_LOST"), std::string::npos);
}

// Why: a call that the ring has overwritten is not a missing rank.
TEST(RenderRecordTest, DoesNotBlameRanksWhoseCallsAreNoLongerInTheRecord) {
  const std::string text = RenderRecord(RecordOf(
      R"(node: "a" taken_ns: 4000000000
         operations { group: 1 group_name: "train" number: 4 state: "moving"
                      first_byte_ns: 1000000000 })"));
  EXPECT_NE(text.find("called here before the record begins"), std::string::npos) << text;
  EXPECT_EQ(text.find("no rank of this node"), std::string::npos) << text;
}

TEST(RenderRecordTest, ReportsAnEmptyRecord) {
  EXPECT_EQ(RenderRecord(RecordOf(R"(node: "a")")), "node a: no operation is recorded\n");
}

TEST(RenderRecordTest, ShowsNoControlCharacters) {
  const std::string text = RenderRecord(
      RecordOf("node: \"a\\033[2J\" operations { group_name: \"\\007g\" number: 1 "
               "operation: \"x\\033\" called { at_ns: 1 } last: \"\\033\" state: \"called\" "
               "rails { rail: \"\\033\" } heard { node: \"\\033\" } }"));
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.find('\a'), std::string::npos);
}

}  // namespace
}  // namespace mlxcomm::ctl::render_record_test
