// Tracks that come and go, and the names of groups.
#include "daemon/record/flight_recorder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>

namespace mlxcomm::record::flight_recorder_test {
namespace {

Event At(std::uint64_t time_ns) {
  Event event;
  event.kind = EventKind::kSent;
  event.time_ns = time_ns;
  return event;
}

std::string NameOf(int number) { return "rail " + std::to_string(number); }

TEST(FlightRecorderTest, KeepsATrackOfAKindForEachWriter) {
  FlightRecorder recorder("node");
  EventRing* const loop = recorder.AddTrack(TrackKind::kLoop, "loop");
  EventRing* const rail = recorder.AddTrack(TrackKind::kRail, "rail");
  loop->Write(At(1));
  rail->Write(At(2));
  rail->Write(At(3));
  const auto loops = recorder.Copy(TrackKind::kLoop, 10);
  const auto rails = recorder.Copy(TrackKind::kRail, 1);
  ASSERT_EQ(loops.size(), 1u);
  ASSERT_EQ(rails.size(), 1u);
  EXPECT_EQ(loops[0].events.size(), 1u);
  ASSERT_EQ(rails[0].events.size(), 1u);
  EXPECT_EQ(rails[0].events[0].time_ns, 3u);
  EXPECT_EQ(rails[0].written, 2u);
  EXPECT_EQ(rails[0].name, "rail");
  EXPECT_TRUE(rails[0].open);
}

// Why: people want to see what a rail did before it failed.
TEST(FlightRecorderTest, ShowsATrackAfterItsWriterHasEnded) {
  FlightRecorder recorder("node");
  EventRing* const rail = recorder.AddTrack(TrackKind::kRail, "rail");
  rail->Write(At(5));
  recorder.CloseTrack(rail);
  EXPECT_NE(recorder.AddTrack(TrackKind::kRail, "next"), rail);
  const auto rails = recorder.Copy(TrackKind::kRail, 10);
  ASSERT_EQ(rails.size(), 2u);
  EXPECT_FALSE(rails[0].open);
  EXPECT_EQ(rails[0].events.size(), 1u);
}

// Why: a cable that flaps all day must not use memory each time.
TEST(FlightRecorderTest, ReusesTheTrackThatWasClosedFirstWithoutItsOldEvents) {
  FlightRecorder recorder("node");
  for (int i = 0; i < 1000; ++i) {
    EventRing* const rail = recorder.AddTrack(TrackKind::kRail, NameOf(i));
    ASSERT_NE(rail, nullptr);
    rail->Write(At(static_cast<std::uint64_t>(i)));
    recorder.CloseTrack(rail);
  }
  const auto rails = recorder.Copy(TrackKind::kRail, 10);
  ASSERT_EQ(rails.size(), FlightRecorder::kClosedTracksKept);
  for (const TrackCopy& rail : rails) {
    ASSERT_EQ(rail.events.size(), 1u);
    EXPECT_EQ(rail.name, NameOf(static_cast<int>(rail.events[0].time_ns)));
    EXPECT_GE(rail.events[0].time_ns, 1000 - FlightRecorder::kClosedTracksKept);
  }
}

// Why: a cable that flaps, or is refused by the other end, has rails without frames; they must not
// replace the track of a rail that carried data.
TEST(FlightRecorderTest, ReusesEmptyTracksFirst) {
  FlightRecorder recorder("node");
  for (std::size_t i = 0; i < FlightRecorder::kClosedTracksKept; ++i) {
    EventRing* const rail = recorder.AddTrack(TrackKind::kRail, NameOf(static_cast<int>(i)));
    rail->Write(At(i));
    recorder.CloseTrack(rail);
  }
  for (int i = 100; i < 120; ++i) {
    recorder.CloseTrack(recorder.AddTrack(TrackKind::kRail, NameOf(i)));
  }
  const auto rails = recorder.Copy(TrackKind::kRail, 10);
  const auto kept = std::count_if(rails.begin(), rails.end(),
                                  [](const TrackCopy& rail) { return !rail.events.empty(); });
  EXPECT_GE(static_cast<std::size_t>(kept) + 1, FlightRecorder::kClosedTracksKept);
}

TEST(FlightRecorderTest, HasNoTrackBeyondTheLimitUntilOneIsClosed) {
  FlightRecorder recorder("node");
  EventRing* last = nullptr;
  for (std::size_t i = 0; i < FlightRecorder::kTracksMax; ++i) {
    last = recorder.AddTrack(TrackKind::kRail, "rail");
    ASSERT_NE(last, nullptr);
  }
  EXPECT_EQ(recorder.AddTrack(TrackKind::kRail, "one more"), nullptr);
  recorder.CloseTrack(nullptr);  // Without a track there is none to close.
  recorder.CloseTrack(last);
  EXPECT_EQ(recorder.AddTrack(TrackKind::kWorker, "of another size"), nullptr);
  EXPECT_EQ(recorder.AddTrack(TrackKind::kRail, "one more"), last);
}

TEST(FlightRecorderTest, KnowsAGroupByItsLastNameAndItsFirstNodes) {
  FlightRecorder recorder("node");
  recorder.NameGroup({11, "ann", "job", "name", {}});
  GroupName wide{11, "ann", "job", "again", {}};
  wide.nodes.resize(1000);
  recorder.NameGroup(wide);
  const auto names = recorder.GroupNames();
  ASSERT_EQ(names.size(), 1u);
  EXPECT_EQ(names.back().name, "again");
  EXPECT_EQ(names.back().nodes.size(), FlightRecorder::kNodesNamedMax);
}

// Why: a job may make and close a group in each step, and its world group is older than all of
// them.
TEST(FlightRecorderTest, KnowsEveryOpenGroupAndTheLastClosedOnes) {
  FlightRecorder recorder("node");
  const std::uint64_t most = FlightRecorder::kGroupsGoneNamed;
  recorder.NameGroup({1, "ann", "job", "job", {}});
  for (std::uint64_t id = 2; id <= most + 11; ++id) {
    recorder.NameGroup({id, "ann", "job", "job/rows", {}});
    recorder.CloseGroup(id);
    recorder.CloseGroup(id);  // Unknown the second time: no effect.
  }
  const auto names = recorder.GroupNames();
  ASSERT_EQ(names.size(), most + 1);
  EXPECT_EQ(names.front().id, 12u);
  EXPECT_EQ(names[most - 1].id, most + 11);
  EXPECT_EQ(names.back().name, "job");
}

// Why: mlxcommctl may read it at any time, even while rails open and close.
TEST(FlightRecorderTest, IsReadWhileTracksAreWrittenAddedAndClosed) {
  FlightRecorder recorder("node");
  std::atomic<bool> stop{false};
  const auto write = [&] {
    while (!stop.load(std::memory_order_relaxed)) {
      EventRing* const rail = recorder.AddTrack(TrackKind::kRail, "rail");
      for (std::uint64_t i = 0; i < 5000; ++i) rail->Write(At(i));
      recorder.CloseTrack(rail);
      recorder.NameGroup({1, "ann", "job", "name", {}});
    }
  };
  std::thread first(write);
  std::thread second(write);
  for (int i = 0; i < 40; ++i) {
    for (const TrackCopy& rail : recorder.Copy(TrackKind::kRail, 5000)) {
      ASSERT_LE(rail.events.size(), FlightRecorder::kRailEvents);
      for (std::size_t k = 1; k < rail.events.size(); ++k) {
        ASSERT_EQ(rail.events[k].time_ns, rail.events[k - 1].time_ns + 1);
      }
    }
    ASSERT_LE(recorder.GroupNames().size(), 1u);
  }
  stop = true;
  first.join();
  second.join();
}

}  // namespace
}  // namespace mlxcomm::record::flight_recorder_test
