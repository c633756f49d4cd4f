#include "daemon/telemetry/event_log.h"

#include <gtest/gtest.h>

#include <string>

namespace mlxcomm::telemetry {
namespace {

void Add(EventLog& log, const std::string& text) {
  LoggedEvent event;
  event.text = text;
  log.Add(event);
}

TEST(EventLogTest, TellsNothingWhereNothingHasHappened) {
  const EventLog log;
  const EventLog::Part part = log.Read(1, 10);
  EXPECT_TRUE(part.events.empty());
  EXPECT_EQ(part.lost, 0u);
  EXPECT_EQ(part.next, 1u);
}

TEST(EventLogTest, GoesOnWhereTheReaderHasStopped) {
  EventLog log;
  for (const char* text : {"one", "two", "three"}) Add(log, text);
  const EventLog::Part first = log.Read(1, 2);
  ASSERT_EQ(first.events.size(), 2u);
  EXPECT_EQ(first.events[0].number, 1u);
  const EventLog::Part rest = log.Read(first.next, 2);
  ASSERT_EQ(rest.events.size(), 1u);
  EXPECT_EQ(rest.events[0].text, "three");
  EXPECT_EQ(log.Read(rest.next, 2).events.size(), 0u);
}

// Why: a reader may be stopped for hours while a cable flaps; memory must not grow, and it
// must learn that it has not seen everything.
TEST(EventLogTest, DropsTheOldestAndSaysHowManyAReaderHasLost) {
  EventLog log;
  for (std::size_t i = 0; i < EventLog::kKeptMax + 5; ++i) Add(log, std::to_string(i));
  const EventLog::Part part = log.Read(1, EventLog::kKeptMax * 2);
  EXPECT_EQ(part.lost, 5u);
  ASSERT_EQ(part.events.size(), EventLog::kKeptMax);
  EXPECT_EQ(part.events.front().text, "5");
  EXPECT_EQ(part.events.front().number, 6u);
}

TEST(EventLogTest, CutsALongTextBetweenCharacters) {
  EventLog log;
  Add(log, std::string(EventLog::kTextBytesMax - 1, 'x') + "\u00e9\u00e9");
  EXPECT_EQ(log.Read(1, 1).events[0].text, std::string(EventLog::kTextBytesMax - 1, 'x'));
}

}  // namespace
}  // namespace mlxcomm::telemetry
