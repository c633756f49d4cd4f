// Lives of operations, assembled from events.
#include "daemon/record/operation_life.h"

#include <gtest/gtest.h>

#include <vector>

namespace mlxcomm::record::operation_life_test {
namespace {

Event Of(std::uint64_t number, EventKind kind, std::uint64_t time_ns,
         std::uint32_t party = kNobody) {
  Event event;
  event.kind = kind;
  event.group = 1;
  event.number = number;
  event.time_ns = time_ns;
  event.party = party;
  event.bytes = 8;
  return event;
}

TEST(OperationLifeTest, HasAllItsStagesInOrder) {
  const std::vector<Event> events = {
      Of(3, EventKind::kSubmitted, 100, 0), Of(3, EventKind::kSubmitted, 110, 1),
      Of(3, EventKind::kMatched, 110),      Of(3, EventKind::kHeard, 150, 2),
      Of(3, EventKind::kFirstByte, 150),    Of(3, EventKind::kLastByte, 190),
      Of(3, EventKind::kDone, 200)};
  const auto lives = LivesOf(events);
  ASSERT_EQ(lives.size(), 1u);
  const OperationLife& life = lives[0];
  EXPECT_EQ(life.name.number, 3u);
  EXPECT_EQ(life.submitted.size(), 2u);
  EXPECT_EQ(life.began_ns(), 100u);
  EXPECT_EQ(life.matched_ns, 110u);
  EXPECT_EQ(life.first_byte_ns, 150u);
  EXPECT_EQ(life.last_byte_ns, 190u);
  EXPECT_EQ(life.received_bytes, 8u);
  EXPECT_EQ(life.ended_ns, 200u);
  EXPECT_FALSE(life.failed);
  EXPECT_TRUE(life.last().elsewhere);
  EXPECT_EQ(life.last().rank, 2u);
}

// Why: a missing rank is not in the record, and the last of the other ranks is not to blame; small
// data is sent before other nodes have called.
TEST(OperationLifeTest, NamesTheLastRankOnlyOnceItIsDone) {
  std::vector<Event> events = {Of(1, EventKind::kHeard, 50, 2),
                               Of(1, EventKind::kSubmitted, 60, 0)};
  EXPECT_EQ(LivesOf(events)[0].last().rank, kNobody);  // Rank 1 of this node is awaited.
  events.push_back(Of(1, EventKind::kSubmitted, 90, 1));
  events.push_back(Of(1, EventKind::kMatched, 90));
  EXPECT_EQ(LivesOf(events)[0].last().rank, kNobody);  // Another node may be awaited.
  events.push_back(Of(1, EventKind::kFirstByte, 90));
  EXPECT_EQ(LivesOf(events)[0].last().rank, kNobody);  // Still.
  events.push_back(Of(1, EventKind::kFailed, 100));
  EXPECT_EQ(LivesOf(events)[0].last().rank, kNobody);
  events.back().kind = EventKind::kDone;
  const auto lives = LivesOf(events);
  EXPECT_FALSE(lives[0].last().elsewhere);
  EXPECT_EQ(lives[0].last().rank, 1u);
  EXPECT_EQ(lives[0].began_ns(), 50u);
}

TEST(OperationLifeTest, LeavesOutAnEndedOperationWithoutItsBeginning) {
  Event failed = Of(2, EventKind::kFailed, 60);
  failed.code = 4;
  const std::vector<Event> events = {
      Of(1, EventKind::kLastByte, 10), Of(1, EventKind::kDone, 11),  // Only its end.
      Of(2, EventKind::kSubmitted, 20, 0), Of(7, EventKind::kHeard, 30, 1), failed};
  const auto lives = LivesOf(events);
  ASSERT_EQ(lives.size(), 2u);
  EXPECT_TRUE(lives[0].failed);
  EXPECT_EQ(lives[0].code, 4u);
  EXPECT_EQ(lives[1].name.number, 7u);  // No rank here has called it so far.
}

TEST(OperationLifeTest, DistinguishesMessagesWithTheSameNumber) {
  Event there = Of(0, EventKind::kSubmitted, 1, 0);
  there.source_rank = 0;
  there.destination_rank = 1;
  Event back = there;
  back.source_rank = 1;
  back.destination_rank = 0;
  Event tagged = there;
  tagged.tag = 4;
  const std::vector<Event> events = {there, back, tagged, Of(0, EventKind::kSubmitted, 2, 0)};
  EXPECT_EQ(LivesOf(events).size(), 4u);
}

TEST(OperationLifeTest, AddsUpTheBytesOfEachRail) {
  std::vector<OperationLife> lives =
      LivesOf(std::vector<Event>{Of(5, EventKind::kSubmitted, 1, 0)});
  std::vector<TrackCopy> rails(2);
  rails[0].events = {Of(5, EventKind::kSent, 10), Of(4, EventKind::kSent, 11),
                     Of(5, EventKind::kReceived, 12)};
  rails[1].events = {Of(5, EventKind::kSent, 20)};
  rails[1].events[0].duration_ns = 5;
  AddCarriers(rails, lives);
  ASSERT_EQ(lives[0].carriers.size(), 2u);
  EXPECT_EQ(lives[0].carriers[0].frames, 2u);
  EXPECT_EQ(lives[0].carriers[0].sent_bytes, 8u);
  EXPECT_EQ(lives[0].carriers[0].received_bytes, 8u);
  EXPECT_EQ(lives[0].carriers[1].track, 1u);
  EXPECT_EQ(lives[0].carriers[1].last_ns, 25u);
  EXPECT_FALSE(lives[0].carriers[0].at_least);
}

// Why: a rail's ring is small compared with a large operation; if half of its bytes were reported
// as all of them, the rail would look unused.
TEST(OperationLifeTest, ReportsThatARailMayHaveCarriedMore) {
  std::vector<OperationLife> lives = LivesOf(
      std::vector<Event>{Of(5, EventKind::kSubmitted, 10, 0), Of(6, EventKind::kSubmitted, 40, 0)});
  std::vector<TrackCopy> rails(1);
  rails[0].written = 100;
  rails[0].events = {Of(5, EventKind::kSent, 30), Of(6, EventKind::kSent, 50)};
  EXPECT_EQ(rails[0].since_ns(), 30u);
  AddCarriers(rails, lives);
  EXPECT_TRUE(lives[0].carriers.at(0).at_least);
  EXPECT_FALSE(lives[1].carriers.at(0).at_least);
}

}  // namespace
}  // namespace mlxcomm::record::operation_life_test
