#include "client/ctl/events/render_event.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <string>

namespace mlxcomm::ctl::render_event_test {
namespace {

TEST(RenderEventTest, IsOneLineWhateverItContains) {
  v1::EventsReply event;
  event.set_unix_ns(1'700'000'000'123'000'000);
  event.set_severity("warning");
  event.set_object("link to b\n\x1b[31m");
  event.set_text("rail en2 - en3 is down");
  const std::string line = RenderEvent(event, false);
  EXPECT_THAT(line, testing::HasSubstr(".123  warning  link to b??[31m  rail en2 - en3 is down\n"));
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  EXPECT_THAT(RenderEvent(event, true), testing::HasSubstr("\x1b[33mwarning\x1b[0m"));
}

TEST(RenderEventTest, CountsEventsThatAreNoLongerKept) {
  v1::EventsReply event;
  event.set_lost(7);
  EXPECT_EQ(RenderEvent(event, false), "(7 events are no longer kept)\n");
}

}  // namespace
}  // namespace mlxcomm::ctl::render_event_test
