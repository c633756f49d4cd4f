#include "client/ctl/web/feed.h"

#include <gtest/gtest.h>

namespace mlxcomm::ctl::feed_test {
namespace {

TEST(FeedTest, FormatsNameAndData) {
  EXPECT_EQ(ServerSentEvent("status", "{}"), "event: status\ndata: {}\n\n");
}

// Why: an empty line in a text would end the event.
TEST(FeedTest, KeepsEveryLineInTheEvent) {
  EXPECT_EQ(ServerSentEvent("a", "1\n\nevent: b\r2"),
            "event: a\ndata: 1\ndata: \ndata: event: b\ndata: 2\n\n");
}

}  // namespace
}  // namespace mlxcomm::ctl::feed_test
