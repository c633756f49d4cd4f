#include "client/ctl/record/render_record.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "client/ctl/cli/json_text.h"
#include "tests/unit/client/ctl/message_of.h"

namespace mlxcomm::ctl::render_trace_test {
namespace {

struct Slice {
  std::string name;
  double begin = 0;
  double end = 0;
};

// By the thread's name: its slices in the order of the file.
std::map<std::string, std::vector<Slice>> Threads(const v1::Trace& trace) {
  std::map<std::uint32_t, std::string> names;
  std::map<std::string, std::vector<Slice>> threads;
  for (const v1::TraceEvent& event : trace.traceevents()) {
    if (event.ph() == "M") {
      if (event.name() != "thread_name") continue;
      std::string reported = event.args().fields().at("name").string_value();
      while (threads.contains(reported)) reported += "'";
      names[event.tid()] = reported;
      threads[reported];
    } else {
      EXPECT_EQ(event.ph(), "X");
      threads[names.at(event.tid())].push_back(
          {event.name(), event.ts(), event.ts() + event.dur()});
    }
  }
  return threads;
}

// The format's rule: two slices of a thread are disjoint, or one is inside the other.
void ExpectNested(const std::vector<Slice>& slices) {
  constexpr double kRounding = 1e-6;
  for (const Slice& a : slices) {
    for (const Slice& b : slices) {
      const bool apart = a.end <= b.begin + kRounding || b.end <= a.begin + kRounding;
      const bool inside = (a.begin >= b.begin - kRounding && a.end <= b.end + kRounding) ||
                          (b.begin >= a.begin - kRounding && b.end <= a.end + kRounding);
      EXPECT_TRUE(apart || inside) << a.name << " and " << b.name;
    }
  }
}

v1::FlightRecordReply TracedRecord(const std::string& text) {
  return MessageOf<v1::FlightRecordReply>(text);
}

TEST(RenderTraceTest, HasAThreadForEachRankRailDirectionAndWorker) {
  const auto threads = Threads(RenderTrace(TracedRecord(
      R"(node: "a" taken_ns: 9000
         operations { group: 1 group_name: "train" number: 5 operation: "barrier" state: "done"
                      called { rank: 0 at_ns: 1000 } called { rank: 1 at_ns: 1500 }
                      matched_ns: 1500 first_byte_ns: 1600 last_byte_ns: 1800 ended_ns: 2000 }
         tracks { kind: "rail" name: "tcp x - y" open: true
                  spans { what: "sent" begin_ns: 1600 duration_ns: 100 group: 1 number: 5 }
                  spans { what: "received" begin_ns: 1650 duration_ns: 150 group: 1 number: 5 } }
         tracks { kind: "worker" name: "worker 0" open: true
                  spans { what: "worked" begin_ns: 1900 duration_ns: 50 group: 2 number: 8 } })")));
  ASSERT_EQ(threads.size(), 5u);
  const std::vector<Slice>& rank = threads.at("rank 0 of train");
  ASSERT_EQ(rank.size(), 5u);  // The operation, and in it the four phases.
  EXPECT_EQ(rank[0].name, "5 barrier");
  EXPECT_DOUBLE_EQ(rank[0].begin, 0);
  EXPECT_DOUBLE_EQ(rank[0].end, 1);
  EXPECT_EQ(rank[1].name, "waits for ranks here");
  EXPECT_DOUBLE_EQ(rank[1].end, 0.5);
  EXPECT_EQ(threads.at("rank 1 of train").size(), 4u);  // It was the last to call.
  EXPECT_EQ(threads.at("tcp x - y, sent").at(0).name, "train 5");
  EXPECT_EQ(threads.at("tcp x - y, received").size(), 1u);
  EXPECT_EQ(threads.at("worker 0").at(0).name, "2 8");
  for (const auto& [name, slices] : threads) ExpectNested(slices);
}

// Why: a rank may have many operations in flight, and slices of one thread must nest.
TEST(RenderTraceTest, PutsOverlappingOperationsOnSeparateThreads) {
  std::string text = R"(node: "a" taken_ns: 100000)";
  for (int i = 0; i < 12; ++i) {
    text += " operations { group_name: \"g\" number: " + std::to_string(i) +
            " operation: \"barrier\" called { at_ns: " + std::to_string(1000 + i * 100) +
            " } matched_ns: " + std::to_string(1050 + i * 100) +
            " ended_ns: " + std::to_string(1000 + i * 100 + 350) + " }";
  }
  const auto threads = Threads(RenderTrace(TracedRecord(text)));
  EXPECT_EQ(threads.size(), 4u);
  std::size_t slices = 0;
  for (const auto& [name, on_it] : threads) {
    ExpectNested(on_it);
    slices += on_it.size();
  }
  EXPECT_EQ(slices, 12u * 3);
}

// Why: sixteen frames go with one system call, and have one time.
TEST(RenderTraceTest, SharesTheTimeOfFramesThatMovedTogether) {
  std::string text = R"(node: "a" taken_ns: 100000 tracks { kind: "rail" name: "r" open: true)";
  for (int i = 0; i < 40; ++i) {
    const int batch = i / 4;
    text += " spans { what: \"sent\" bytes: " + std::to_string(i * 100) +
            " begin_ns: " + std::to_string(1000 + batch * 50) + " duration_ns: 80 }";
  }
  const auto threads = Threads(RenderTrace(TracedRecord(text + " }")));
  const std::vector<Slice>& sent = threads.at("r, sent");
  ASSERT_EQ(sent.size(), 40u);
  for (std::size_t i = 1; i < sent.size(); ++i) {
    EXPECT_GE(sent[i].begin + 1e-6, sent[i - 1].end);
    EXPECT_GE(sent[i].end, sent[i].begin);
  }
}

TEST(RenderTraceTest, DrawsUnfinishedOperationsUntilTheCall) {
  const auto threads = Threads(RenderTrace(TracedRecord(
      R"(node: "a" taken_ns: 5000
         operations { group: 4 number: 1 operation: "barrier" called { rank: 3 at_ns: 2000 } })")));
  const std::vector<Slice>& rank = threads.at("rank 3 of 4");
  ASSERT_EQ(rank.size(), 2u);
  EXPECT_DOUBLE_EQ(rank[0].end, 3);
  EXPECT_EQ(rank[1].name, "waits for ranks here");
  EXPECT_DOUBLE_EQ(rank[1].end, 3);
}

// Why: a rail has many frames for each operation, so its record begins later.
TEST(RenderTraceTest, MarksTheTimeBeforeARailsRecordBegins) {
  const auto threads = Threads(RenderTrace(TracedRecord(
      R"(node: "a" taken_ns: 9000
         operations { group: 4 number: 1 operation: "barrier" called { rank: 3 at_ns: 2000 } }
         tracks { kind: "rail" name: "r" open: true spans_left_out: 7 since_ns: 5000
                  spans { what: "sent" begin_ns: 5500 duration_ns: 100 group: 4 number: 1 } }
         tracks { kind: "worker" name: "w" open: true } )")));
  ASSERT_EQ(threads.at("r, sent").size(), 2u);
  EXPECT_EQ(threads.at("r, sent")[0].name, "no longer recorded");
  EXPECT_DOUBLE_EQ(threads.at("r, sent")[0].begin, 0);
  EXPECT_DOUBLE_EQ(threads.at("r, sent")[0].end, 3);
  EXPECT_EQ(threads.at("r, received").size(), 1u);
  EXPECT_TRUE(threads.at("w").empty());
  for (const auto& [name, slices] : threads) ExpectNested(slices);
}

// Why: a rank's work on one node is not the end of a transfer.
TEST(RenderTraceTest, DistinguishesWorkOnOneNodeFromTheEndOfATransfer) {
  const auto threads = Threads(RenderTrace(TracedRecord(
      R"(node: "a" taken_ns: 9000
         operations { group: 4 number: 1 operation: "barrier" called { rank: 3 at_ns: 2000 }
                      matched_ns: 2000 ended_ns: 3000 })")));
  EXPECT_EQ(threads.at("rank 3 of 4").at(1).name, "works on this node");
}

TEST(RenderTraceTest, IsJsonOfTheFormatsObjectForm) {
  std::string json;
  ASSERT_TRUE(
      ToJson(RenderTrace(TracedRecord(R"(node: "a" taken_ns: 5000)")), json, JsonLayout::kCompact)
          .ok());
  EXPECT_NE(json.find(R"("displayTimeUnit":"ns")"), std::string::npos);
  EXPECT_NE(json.find(R"("name":"process_name")"), std::string::npos) << json;
  EXPECT_NE(json.find("\"node a (mlxcommd)\""), std::string::npos);
  EXPECT_EQ(json.find('\n'), std::string::npos);
}

}  // namespace
}  // namespace mlxcomm::ctl::render_trace_test
