#include "client/ctl/ping/render_ping.h"

#include <gmock/gmock.h>

#include <vector>

#include "tests/unit/client/ctl/message_of.h"

namespace mlxcomm::ctl::render_ping_test {
namespace {

v1::PingReply Reply(std::uint64_t round_trip_ns) {
  v1::PingReply reply;
  reply.set_node("b");
  reply.set_round_trip_ns(round_trip_ns);
  if (round_trip_ns == 0) reply.set_why_not("has not answered in time");
  v1::RailStatus& rail = *reply.mutable_link()->add_rails();
  Add(R"(transport: tcp local_interface: "en2" remote_interface: "en3" state: up
         round_trip_ns: 50000 round_trip_ns_min: 40000)",
      rail);
  return reply;
}

TEST(RenderPingTest, SummarisesRepliesAndLosses) {
  const std::vector<v1::PingReply> replies = {Reply(100'000), Reply(0), Reply(300'000)};
  EXPECT_EQ(RenderPing(2, replies[1]), "b  2  lost: it has not answered in time\n");
  EXPECT_EQ(RenderPings(replies),
            "b: 2 of 3 came back, 33% lost; round trip min/avg/max 100 us / 200 us / 300 us\n"
            "  tcp en2 - en3  up  round trip 50.0 us, shortest ever 40.0 us\n");
  const std::string json = PingsAsJson(replies);
  EXPECT_THAT(json, testing::HasSubstr("\"round_trip_ns_mean\": 200000"));
  EXPECT_THAT(json, testing::HasSubstr("null"));
}

// Why: a message takes one of the rails, and people want to know which one is bad.
TEST(RenderPingTest, ShowsTheRoundTripOfEachRail) {
  v1::PingReply reply = Reply(1'000);
  v1::RailStatus slow = reply.link().rails(0);
  slow.set_local_interface("en5");
  slow.set_round_trip_ns(500'000);
  *reply.mutable_link()->add_rails() = slow;
  const std::vector<v1::PingReply> replies = {reply};
  EXPECT_THAT(RenderPings(replies), testing::HasSubstr("tcp en5 - en3  up  round trip 500 us, sh"));
  EXPECT_THAT(PingsAsJson(replies), testing::HasSubstr("\"round_trip_ns\": 500000"));
}

TEST(RenderPingTest, ShowsNoRoundTripsIfNoReplyCame) {
  const std::vector<v1::PingReply> replies = {Reply(0)};
  EXPECT_THAT(RenderPings(replies), testing::StartsWith("b: 0 of 1 came back, 100% lost\n"));
  EXPECT_EQ(RenderPings({}), "");
}

}  // namespace
}  // namespace mlxcomm::ctl::render_ping_test
