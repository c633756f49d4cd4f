#include "daemon/record/event_log.h"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace mlxcomm::record::event_log_test {
namespace {

bool SeesAll(const std::string&) { return true; }
bool IsAnn(const std::string& user) { return user == "ann"; }

void Add(EventLog& log, const std::string& text, const std::string& kind = "rail_down",
         std::optional<std::string> user = std::nullopt) {
  LoggedEvent event;
  event.kind = kind;
  event.text = text;
  event.user = std::move(user);
  log.Add(event);
}

std::string Texts(const EventLog::Part& part) {
  std::string all;
  for (const LoggedEvent& event : part.events) all += event.text + " ";
  return all;
}

TEST(EventLogTest, ContinuesAtTheReadersCursorInOrder) {
  EventLog log;
  EventLog::Cursor cursor;
  Add(log, "one", "rail_down");
  Add(log, "two", "node_lost");
  Add(log, "three", "rail_down");
  const EventLog::Part first = log.Read(cursor, 2, SeesAll);
  EXPECT_EQ(Texts(first), "one two ");
  EXPECT_EQ(first.events[0].number, 1u);
  Add(log, "four", "of_a_new_kind");
  EXPECT_EQ(Texts(log.Read(cursor, 9, SeesAll)), "three four ");
  EXPECT_TRUE(log.Read(cursor, 9, SeesAll).events.empty());
}

// Why: a reader may be stopped for hours while a cable flaps; memory must not grow, and the reader
// must learn how many events it missed.
TEST(EventLogTest, DropsTheOldestAndReportsHowManyAReaderLost) {
  EventLog log;
  for (std::size_t i = 0; i < EventLog::kKeptMax + 5; ++i) Add(log, std::to_string(i));
  EventLog::Cursor cursor;
  const EventLog::Part part = log.Read(cursor, EventLog::kKeptMax * 2, SeesAll);
  EXPECT_EQ(part.lost, 5u);
  ASSERT_EQ(part.events.size(), EventLog::kKeptMax);
  EXPECT_EQ(part.events.front().text, "5");
  EXPECT_EQ(part.events.front().number, 6u);
  EXPECT_EQ(log.Read(cursor, 9, SeesAll).lost, 0u);
}

// Why: strangers at the peer port, and a user with a loop of short jobs, can cause any number of
// events. The events that an operator needs in the morning must still be there.
TEST(EventLogTest, AFloodOverwritesOnlyItsOwnRing) {
  EventLog log;
  Add(log, "the cable", "rail_down");
  Add(log, "of ann's", "job_failed", "ann");
  for (std::size_t i = 0; i < 3 * EventLog::kKeptMax; ++i) {
    Add(log, "knock", "stranger_refused");
    Add(log, "short", "job_ended", "bob");
  }
  EventLog::Cursor cursor;
  const EventLog::Part part = log.Read(cursor, 2, SeesAll);
  EXPECT_EQ(Texts(part), "the cable of ann's ");
  EXPECT_EQ(part.lost, 4 * EventLog::kKeptMax);
}

TEST(EventLogTest, HidesOtherUsersEventsAndLosses) {
  EventLog log;
  Add(log, "hers", "job_formed", "ann");
  for (std::size_t i = 0; i < 2 * EventLog::kKeptMax; ++i) Add(log, "his", "job_ended", "bob");
  Add(log, "everybody's", "node_up");
  Add(log, "nobody's any more", "group_failed", "");
  EventLog::Cursor cursor;
  const EventLog::Part part = log.Read(cursor, EventLog::kNewestMax, IsAnn);
  EXPECT_EQ(Texts(part), "hers everybody's ");
  EXPECT_EQ(part.lost, 0u);
}

// Why: "the last two" are the last that the reader may see; a busy user's jobs must not displace
// them.
TEST(EventLogTest, CountsOnlyNewestEventsThatTheReaderMaySee) {
  EventLog log;
  for (const char* text : {"one", "two", "three"}) Add(log, text, "job_formed", "ann");
  for (int i = 0; i < 50; ++i) Add(log, "his", "job_ended", "bob");
  EventLog::Cursor cursor = log.Newest(2, IsAnn);
  EXPECT_EQ(Texts(log.Read(cursor, 9, IsAnn)), "two three ");
  cursor = log.Newest(0, IsAnn);
  Add(log, "four", "job_ended", "ann");
  EXPECT_EQ(Texts(log.Read(cursor, 9, IsAnn)), "four ");
  cursor = log.Newest(~std::size_t{0}, IsAnn);
  EXPECT_EQ(log.Read(cursor, 9, IsAnn).events.size(), 4u);
}

// Why: over years there are many users, and memory must be limited.
TEST(EventLogTest, UsersBeyondTheLimitShareARing) {
  EventLog log;
  for (std::size_t i = 0; i < 2 * EventLog::kUsersMax; ++i) {
    Add(log, "x", "job_ended", "user-" + std::to_string(i));
  }
  Add(log, "hers", "job_ended", "ann");
  for (std::size_t i = 0; i < EventLog::kKeptMax; ++i) Add(log, "y", "job_ended", "last");
  EventLog::Cursor cursor;
  EXPECT_EQ(log.Read(cursor, EventLog::kNewestMax, SeesAll).events.size(),
            EventLog::kUsersMax + EventLog::kKeptMax);
  cursor.clear();
  EXPECT_TRUE(log.Read(cursor, 9, IsAnn).events.empty());
}

// Why: the loop adds while readers on other threads read.
// How: each of two writers adds more than is kept; the events that a reader got and the lost ones
// add up to all.
TEST(EventLogTest, IsReadWhileOtherThreadsWrite) {
  EventLog log;
  constexpr std::size_t kEach = 4 * EventLog::kKeptMax;
  std::atomic<int> writing{2};
  std::vector<std::thread> writers;
  for (const char* const kind : {"rail_down", "rail_up"}) {
    writers.emplace_back([&log, &writing, kind] {
      for (std::size_t i = 0; i < kEach; ++i) Add(log, "x", kind);
      --writing;
    });
  }
  EventLog::Cursor cursor;
  std::size_t had = 0;
  std::uint64_t lost = 0;
  std::uint64_t last = 0;
  for (bool more = true; more;) {
    more = writing > 0;  // Read once more after the last of them.
    for (;;) {
      const EventLog::Part part = log.Read(cursor, 32, SeesAll);
      lost += part.lost;
      had += part.events.size();
      for (const LoggedEvent& event : part.events) {
        EXPECT_GT(event.number, last);
        last = event.number;
      }
      (void)log.Newest(9, SeesAll);
      if (part.events.empty() && part.lost == 0) break;
    }
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(had + lost, 2 * kEach);
}

TEST(EventLogTest, TruncatesALongTextBetweenCharacters) {
  EventLog log;
  Add(log, std::string(EventLog::kTextBytesMax - 1, 'x') + "\u00e9\u00e9");
  EventLog::Cursor cursor;
  EXPECT_EQ(log.Read(cursor, 1, SeesAll).events[0].text,
            std::string(EventLog::kTextBytesMax - 1, 'x'));
}

}  // namespace
}  // namespace mlxcomm::record::event_log_test
