#include "client/ctl/web/feed.h"

#include <gtest/gtest.h>

namespace mlxcomm::ctl::feed_test {
namespace {

TEST(FeedTest, NamesItsData) {
  EXPECT_EQ(ServerSentEvent("status", "{}"), "event: status\ndata: {}\n\n");
}

// Why: a text with an empty line in it would end the message, and what follows would be another one.
TEST(FeedTest, KeepsEveryLineInTheMessage) {
  EXPECT_EQ(ServerSentEvent("a", "1\n\nevent: b\r2"),
            "event: a\ndata: 1\ndata: \ndata: event: b\ndata: 2\n\n");
}

}  // namespace
}  // namespace mlxcomm::ctl::feed_test
