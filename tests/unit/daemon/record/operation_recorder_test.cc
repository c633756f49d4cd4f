// The core's operations in the recorder, and the log line of a failed group.
#include "daemon/record/operation_recorder.h"

#include <gmock/gmock.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "daemon/collective/collectives.h"
#include "daemon/record/operation_life.h"

namespace mlxcomm::operation_recorder_test {
namespace {

using testing::HasSubstr;

class NoScratch final : public collective::ScratchMemory {
 public:
  std::byte* Take(std::uint64_t) override { return nullptr; }
  void Return(std::byte*) override {}
  std::uint64_t used_bytes() const override { return 0; }
  std::uint64_t limit_bytes() const override { return 0; }
};

// One node with two ranks; the test plays another node with one.
class OperationRecorderTest : public testing::Test {
 protected:
  OperationRecorderTest() {
    spdlog::set_default_logger(std::make_shared<spdlog::logger>(
        "test", std::make_shared<spdlog::sinks::ostream_sink_st>(log_)));
  }
  ~OperationRecorderTest() override { spdlog::set_default_logger(before_); }

  void AddGroup(std::uint64_t group, bool with_other_node = false) {
    std::vector<collective::Member> members = {{self_, "a", 10}, {self_, "a", 11}};
    if (with_other_node) members.push_back({other_, "b", 12});
    ASSERT_TRUE(core_.AddGroup(group, "train", std::move(members)));
    recorder_.NameGroup(*core_.Find(group), {"ann", "train"});
  }
  void Call(std::uint64_t group, std::uint32_t rank, OperationKind kind) {
    collective::Call call;
    call.group = group;
    call.rank = rank;
    call.session = rank + 1;
    call.signature.kind = kind;
    if (kind == OperationKind::kAllReduce) {
      call.signature.op = ReduceOperator::kSum;
      call.signature.count = 2;
    }
    call.input = reinterpret_cast<const std::byte*>(memory_);
    call.output = reinterpret_cast<std::byte*>(memory_);
    call.input_bytes_available = call.output_bytes_available = sizeof memory_;
    call.timeout_ns = 1'000'000'000'000;
    core_.Submit(call, now_ns_);
    CarryOut();
  }
  // Like the loop, but without combining or sending.
  void CarryOut() {
    while (!core_.actions().empty()) {
      collective::ActionQueue actions;
      actions.swap(core_.actions());
      for (const collective::Action& action : actions) {
        if (action.kind == collective::Action::Kind::kLocalWork) {
          core_.OnLocalWorkDone(action.cookie, now_ns_);
        }
      }
    }
  }
  std::vector<record::OperationLife> Lives() {
    const auto loops = flight_recorder_.Copy(record::TrackKind::kLoop, 100'000);
    return record::LivesOf(loops.at(0).events);
  }

  NodeId self_{};
  NodeId other_ = [] {
    NodeId id{};
    reinterpret_cast<std::uint8_t*>(&id)[0] = 9;
    return id;
  }();
  std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
  std::ostringstream log_;
  float memory_[64] = {};
  std::uint64_t now_ns_ = 1'000;
  NoScratch scratch_;
  record::FlightRecorder flight_recorder_{"a"};
  record::OperationCounts counts_;
  OperationRecorder recorder_{flight_recorder_, counts_, now_ns_, [this] {
                                return now_ns_ + 1;
                              }};  // It has gone on since the turn began.
  collective::Collectives core_{self_, scratch_, {}, &recorder_};
};

TEST_F(OperationRecorderTest, RecordsEachStage) {
  AddGroup(7);
  Call(7, 1, OperationKind::kAllReduce);
  now_ns_ = 2'000;
  Call(7, 0, OperationKind::kAllReduce);
  const auto lives = Lives();
  ASSERT_EQ(lives.size(), 1u);
  EXPECT_EQ(lives[0].name.group, 7u);
  EXPECT_EQ(lives[0].bytes, 8u);
  ASSERT_EQ(lives[0].submitted.size(), 2u);
  EXPECT_EQ(lives[0].submitted[0].rank, 1u);
  EXPECT_EQ(lives[0].submitted[0].time_ns, 1'000u);
  EXPECT_EQ(lives[0].matched_ns, 2'000u);
  EXPECT_EQ(lives[0].first_byte_ns, 0u);  // Nothing left the node.
  EXPECT_GT(lives[0].ended_ns, 2'000u);   // By the clock, not by the turn's time.
  EXPECT_FALSE(lives[0].failed);
  EXPECT_EQ(lives[0].last().rank, 0u);
}

TEST_F(OperationRecorderTest, DistinguishesOperationsWithTheSameId) {
  AddGroup(7);
  for (int i = 0; i < 3; ++i) {
    for (const std::uint32_t rank : {0u, 1u}) Call(7, rank, OperationKind::kBarrier);
  }
  const auto lives = Lives();
  ASSERT_EQ(lives.size(), 3u);
  for (std::uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(lives[i].name.number, i);
    EXPECT_EQ(lives[i].submitted.size(), 2u);
    EXPECT_NE(lives[i].ended_ns, 0u);
  }
}

TEST_F(OperationRecorderTest, RecordsANodesFirstFrameOnly) {
  AddGroup(7, /*with_other_node=*/true);
  wire::FrameHeader frame;
  frame.group = 7;
  frame.digest = 5;
  for (std::uint16_t step = 0; step < 3; ++step) {
    frame.step = step;
    EXPECT_TRUE(core_.OnGrant(other_, frame, now_ns_));
  }
  const auto lives = Lives();
  ASSERT_EQ(lives.size(), 1u);
  ASSERT_EQ(lives[0].heard.size(), 1u);
  EXPECT_EQ(lives[0].heard[0].rank, 2u);
}

TEST_F(OperationRecorderTest, ForgetsOtherNodesCallsOnceTheGroupHasFailed) {
  AddGroup(7, /*with_other_node=*/true);
  wire::FrameHeader frame;
  frame.group = 7;
  frame.digest = 5;
  EXPECT_TRUE(core_.OnGrant(other_, frame, now_ns_));
  EXPECT_EQ(Lives().size(), 1u);
  core_.Find(7)->OnLocalRankGone(1, "it was killed", now_ns_);
  EXPECT_TRUE(Lives().empty());
}

// Why: the recorder has overwritten a failure of last night, but the log still has it.
TEST_F(OperationRecorderTest, LogsAFailedGroupsLastOperations) {
  AddGroup(7);
  for (int i = 0; i < 5; ++i) {
    for (const std::uint32_t rank : {0u, 1u}) Call(7, rank, OperationKind::kAllReduce);
  }
  Call(7, 0, OperationKind::kBarrier);
  core_.Find(7)->OnLocalRankGone(1, "it was killed", now_ns_);
  const std::string line = log_.str();
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  EXPECT_THAT(line, HasSubstr("group train (id 7) failed: RANK_LOST"));
  EXPECT_THAT(line, HasSubstr("operation 5, barrier, began"));
  EXPECT_THAT(line, HasSubstr("called by rank 0 +0.0 us, RANK_LOST +"));
  EXPECT_THAT(line, HasSubstr("operation 3, all_reduce sum float32[2]"));
  EXPECT_THAT(line, testing::Not(HasSubstr("operation 2,")));
  EXPECT_LT(line.size(), 4000u);
  EXPECT_TRUE(Lives().back().failed);
}

// Why: a lost cable that ends a thousand groups must not delay other groups, or fill the disk.
TEST_F(OperationRecorderTest, LogsAFewGroupsASecond) {
  for (std::uint64_t group = 1; group <= 100; ++group) {
    AddGroup(group);
    Call(group, 0, OperationKind::kBarrier);
    core_.Find(group)->OnLocalRankGone(1, "it was killed", now_ns_);
  }
  const std::string lines = log_.str();
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 32 + 1);
  EXPECT_THAT(lines, HasSubstr("too many failed groups to log"));
  std::size_t dumps = 0;
  for (std::size_t at = 0; (at = lines.find("called by rank 0", at)) != std::string::npos; ++at) {
    ++dumps;
  }
  EXPECT_EQ(dumps, 8u);
  now_ns_ += 1'000'000'000;
  AddGroup(500);
  Call(500, 0, OperationKind::kBarrier);
  core_.Find(500)->OnLocalRankGone(1, "it was killed", now_ns_);
  EXPECT_THAT(log_.str().substr(lines.size()), HasSubstr("called by rank 0"));
}

}  // namespace
}  // namespace mlxcomm::operation_recorder_test
