// The recorder's contents, as a tool receives them.
#include "daemon/services/record_reply.h"

#include <gtest/gtest.h>

#include "daemon/record/record_text.h"
#include "proto/types/failure.h"
#include "proto/types/operation.h"

namespace mlxcomm::services::record_reply_test {
namespace {

using record::Event;
using record::EventKind;
using record::TrackKind;

constexpr RecordClocks kNow{1'000'000, 1'700'000'000'000'000'000};

class RecordReplyTest : public testing::Test {
 protected:
  RecordReplyTest() : loop_(recorder_.AddTrack(TrackKind::kLoop, "loop")) {
    recorder_.NameGroup({1, "ann", "train", "train", {{0, "a"}, {2, "b"}}});
    recorder_.NameGroup({2, "ann", "train", "train/rows", {}});
    recorder_.NameGroup({3, "bob", "other", "other", {}});
  }
  static Event Of(std::uint64_t group, std::uint64_t number, EventKind kind,
                  std::uint64_t time_ns) {
    Event event;
    event.kind = kind;
    event.group = group;
    event.number = number;
    event.time_ns = time_ns;
    return event;
  }
  void Call(std::uint64_t group, std::uint64_t number, std::uint32_t rank, std::uint64_t time_ns) {
    Event event = Of(group, number, EventKind::kSubmitted, time_ns);
    event.party = rank;
    event.operation = static_cast<std::uint8_t>(OperationKind::kAllReduce);
    event.data_type = static_cast<std::uint8_t>(DataType::kFloat32);
    event.reduce_operator = static_cast<std::uint8_t>(ReduceOperator::kSum);
    event.bytes = 20;
    loop_->Write(event);
  }
  void Happen(std::uint64_t group, std::uint64_t number, EventKind kind, std::uint64_t time_ns,
              std::uint32_t party = record::kNobody) {
    Event event = Of(group, number, kind, time_ns);
    event.party = party;
    loop_->Write(event);
  }
  v1::FlightRecordReply Read(const v1::FlightRecordRequest& request = {},
                             const intake::User& viewer = {"root", true}) {
    v1::FlightRecordReply reply;
    WriteRecordReply(recorder_, request, viewer, kNow, reply);
    return reply;
  }

  record::FlightRecorder recorder_{"a"};
  record::EventRing* const loop_;
};

TEST_F(RecordReplyTest, TellsALifeWithNamesAndTheDate) {
  Call(1, 57, 0, 900'000);
  Call(1, 57, 1, 900'100);
  Happen(1, 57, EventKind::kMatched, 900'100);
  Happen(1, 57, EventKind::kHeard, 950'000, 2);
  Happen(1, 57, EventKind::kFirstByte, 950'000);
  Happen(1, 57, EventKind::kLastByte, 960'000);
  Happen(1, 57, EventKind::kDone, 961'000);
  const v1::FlightRecordReply reply = Read();
  EXPECT_EQ(reply.node(), "a");
  EXPECT_EQ(reply.taken_ns(), kNow.unix_ns);
  ASSERT_EQ(reply.operations_size(), 1);
  const v1::RecordedOperation& reported = reply.operations(0);
  EXPECT_EQ(reported.job(), "train");
  EXPECT_EQ(reported.operation(), "all_reduce sum float32[5]");
  EXPECT_EQ(reported.state(), "done");
  EXPECT_EQ(reported.bytes(), 20u);
  ASSERT_EQ(reported.called_size(), 2);
  EXPECT_EQ(reported.called(0).at_ns(), kNow.unix_ns - 100'000);
  EXPECT_EQ(reported.heard(0).node(), "b");
  EXPECT_EQ(reported.last(), "node b");
  EXPECT_EQ(reported.ended_ns(), kNow.unix_ns - 39'000);
  EXPECT_EQ(reply.tracks_size(), 0);
}

TEST_F(RecordReplyTest, TellsHowFarOneHasComeThatGoesOn) {
  Happen(1, 1, EventKind::kHeard, 10, 2);
  Call(1, 2, 0, 20);
  Call(1, 3, 0, 30);
  Happen(1, 3, EventKind::kMatched, 31);
  Call(1, 4, 0, 40);
  Happen(1, 4, EventKind::kMatched, 40);
  Happen(1, 4, EventKind::kFirstByte, 41);
  Call(1, 5, 0, 50);
  Happen(1, 5, EventKind::kMatched, 50);
  Happen(1, 5, EventKind::kFirstByte, 51);
  Happen(1, 5, EventKind::kHeard, 52, 2);
  const v1::FlightRecordReply reply = Read();
  ASSERT_EQ(reply.operations_size(), 5);
  EXPECT_EQ(reply.operations(0).state(), "early");
  EXPECT_TRUE(reply.operations(0).operation().empty());
  EXPECT_EQ(reply.operations(1).state(), "called");
  EXPECT_EQ(reply.operations(2).state(), "matched");
  EXPECT_EQ(reply.operations(3).state(), "matched");  // Its own small data has been sent.
  EXPECT_EQ(reply.operations(3).ended_ns(), 0u);
  EXPECT_EQ(reply.operations(4).state(), "moving");
}

TEST_F(RecordReplyTest, ChoosesByJobGroupNameAndIdAndTakesTheNewest) {
  for (std::uint64_t i = 0; i < 4; ++i) {
    for (const std::uint64_t group : {1u, 2u, 3u}) Call(group, i, 0, 10 * i + group);
  }
  v1::FlightRecordRequest request;
  request.set_job("train");
  EXPECT_EQ(Read(request).operations_size(), 8);
  request.set_group("train/rows");
  EXPECT_EQ(Read(request).operations_size(), 4);
  request.set_job("");
  request.set_group("3");
  request.set_operations_max(3);
  const v1::FlightRecordReply reply = Read(request);
  ASSERT_EQ(reply.operations_size(), 3);
  EXPECT_EQ(reply.operations_left_out(), 1u);
  EXPECT_EQ(reply.operations(2).number(), 3u);
  EXPECT_EQ(reply.operations(2).group_name(), "other");
  request.set_group("nothing of this name");
  EXPECT_EQ(Read(request).operations_size(), 0);
}

TEST_F(RecordReplyTest, TellsWhatRailsAndWorkersDid) {
  record::EventRing* const rail = recorder_.AddTrack(TrackKind::kRail, "tcp x - y");
  record::EventRing* const worker = recorder_.AddTrack(TrackKind::kWorker, "worker 0");
  Call(1, 5, 0, 10);
  Event sent = Of(1, 5, EventKind::kSent, 20);
  sent.bytes = 20;
  sent.duration_ns = 3;
  rail->Write(sent);
  rail->Write(Of(3, 5, EventKind::kReceived, 30));
  worker->Write(Of(1, 5, EventKind::kWorked, 40));
  recorder_.CloseTrack(rail);
  v1::FlightRecordRequest request;
  request.set_job("train");
  request.set_with_tracks(true);
  const v1::FlightRecordReply reply = Read(request);
  ASSERT_EQ(reply.operations(0).rails_size(), 1);
  EXPECT_EQ(reply.operations(0).rails(0).rail(), "tcp x - y");
  EXPECT_EQ(reply.operations(0).rails(0).sent_bytes(), 20u);
  ASSERT_EQ(reply.tracks_size(), 2);
  EXPECT_EQ(reply.tracks(0).kind(), "rail");
  EXPECT_FALSE(reply.tracks(0).open());
  ASSERT_EQ(reply.tracks(0).spans_size(), 1);  // The other job is not shown.
  EXPECT_EQ(reply.tracks(0).spans(0).what(), "sent");
  EXPECT_EQ(reply.tracks(0).spans(0).duration_ns(), 3u);
  EXPECT_EQ(reply.tracks(1).spans(0).what(), "worked");
}

// Why: only a job's user and the operators may see what it does, including the work of rails and
// workers for it, and even when its number is asked for.
TEST_F(RecordReplyTest, TellsAUserOfItsOwnJobsAndCountsTheOthers) {
  record::EventRing* const rail = recorder_.AddTrack(TrackKind::kRail, "tcp x - y");
  for (const std::uint64_t group : {1u, 2u, 3u}) {
    Call(group, 0, 0, 10 + group);
    rail->Write(Of(group, 0, EventKind::kSent, 20 + group));
  }
  Call(99, 0, 0, 14);  // A group whose name, and so whose user, is no longer known.
  v1::FlightRecordRequest request;
  request.set_with_tracks(true);
  const v1::FlightRecordReply all = Read(request, {"root", true});
  EXPECT_EQ(all.operations_size(), 4);
  EXPECT_EQ(all.operations_of_others(), 0u);
  const v1::FlightRecordReply bobs = Read(request, {"bob", false});
  ASSERT_EQ(bobs.operations_size(), 1);
  EXPECT_EQ(bobs.operations(0).group_name(), "other");
  EXPECT_EQ(bobs.operations_of_others(), 3u);
  ASSERT_EQ(bobs.tracks(0).spans_size(), 1);
  EXPECT_EQ(bobs.tracks(0).spans(0).group(), 3u);
  request.set_group("1");
  EXPECT_EQ(Read(request, {"bob", false}).operations_size(), 0);
  EXPECT_EQ(Read(request, {"ann", false}).operations_size(), 1);
  request.set_group("");
  EXPECT_EQ(Read(request, {"", false}).operations_size(), 4) << "users who share";
}

// Why: gRPC accepts 4 MiB, and a full recorder must still be readable.
TEST_F(RecordReplyTest, StaysSmallWhenEverythingIsFull) {
  for (std::size_t i = 0; i < record::FlightRecorder::kLoopEvents; ++i) {
    Call(1, i, 0, 1000 + i);
  }
  for (std::size_t k = 0; k + 1 < record::FlightRecorder::kTracksMax; ++k) {
    record::EventRing* const rail =
        recorder_.AddTrack(TrackKind::kRail, "tcp [fe80::1%thunderbolt0]:7470 - [fe80::2]:40000");
    for (std::size_t i = 0; i < record::FlightRecorder::kRailEvents; ++i) {
      Event event = Of(1, i, EventKind::kSent, 1000 + i);
      event.bytes = 262144;
      event.source_rank = 4000;
      event.destination_rank = 4001;
      event.tag = 70000;
      rail->Write(event);
    }
  }
  v1::FlightRecordRequest request;
  request.set_with_tracks(true);
  const v1::FlightRecordReply reply = Read(request);
  EXPECT_EQ(static_cast<std::size_t>(reply.operations_size()) + reply.operations_left_out(),
            record::FlightRecorder::kLoopEvents);
  EXPECT_GT(reply.tracks(0).spans_left_out(), 0u);
  EXPECT_EQ(reply.tracks(0).since_ns(), reply.tracks(0).spans(0).begin_ns());
  EXPECT_LT(reply.ByteSizeLong(), std::size_t{4} << 20);
}

// Why: names belong to the jobs and may be long; the newest operations are the ones requested.
TEST_F(RecordReplyTest, LeavesOutTheOldestRatherThanOutgrowAMessage) {
  constexpr std::size_t kEvents = record::FlightRecorder::kLoopEvents;
  recorder_.NameGroup({1, "ann", std::string(100, 'j'), std::string(300, 'g'), {{0, "a"}}});
  for (std::size_t i = 0; i < kEvents; ++i) Call(1, i, 0, 1000 + i);
  const v1::FlightRecordReply reply = Read();
  EXPECT_LE(reply.ByteSizeLong(), kReplyBytesMax);
  ASSERT_GT(reply.operations_size(), 1000);
  EXPECT_EQ(static_cast<std::size_t>(reply.operations_size()) + reply.operations_left_out(),
            kEvents);
  EXPECT_EQ(reply.operations(0).number(), reply.operations_left_out());
  EXPECT_EQ(reply.operations(reply.operations_size() - 1).number(), kEvents - 1);
}

// Why: a call that the ring has overwritten must not be reported as a missing rank.
TEST_F(RecordReplyTest, DoesNotBlameRanksWhoseCallsAreNoLongerInTheRecord) {
  Happen(1, 57, EventKind::kFirstByte, 100'000);
  std::vector<Event> events;
  loop_->Copy(100, 0, events);
  const std::string text = record::DescribeLives(record::LivesOf(events), {}, 1'100'000);
  EXPECT_NE(text.find("called before the record begins"), std::string::npos) << text;
  EXPECT_EQ(text.find("nobody"), std::string::npos) << text;
}

TEST_F(RecordReplyTest, TextTellsTheLastMomentsInOneBoundedLine) {
  Call(1, 57, 0, 100'000);
  Happen(1, 57, EventKind::kMatched, 112'000);
  Event failed = Of(1, 57, EventKind::kFailed, 600'000);
  failed.code = static_cast<std::uint8_t>(FailureCode::kRankLost);
  loop_->Write(failed);
  std::vector<Event> events;
  loop_->Copy(100, 0, events);
  auto lives = record::LivesOf(events);
  EXPECT_EQ(record::DescribeLives(lives, {}, 1'100'000),
            "operation 57, all_reduce sum float32[5], began 1.0 ms ago: called by rank 0 +0.0 us, "
            "matched +12.0 us, RANK_LOST +500.0 us");
  EXPECT_EQ(record::DescribeLives({}, {}, 0), "no operation");
  lives.resize(50, lives[0]);
  EXPECT_LE(record::DescribeLives(lives, {}, 1'100'000).size(), record::kDescribedBytesMax);
}

}  // namespace
}  // namespace mlxcomm::services::record_reply_test
