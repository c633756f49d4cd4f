#include "client/ctl/render_ping.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace mlxcomm::ctl {
namespace {

v1::PingReply Reply(std::uint64_t round_trip_ns) {
  v1::PingReply reply;
  reply.set_node("b");
  reply.set_round_trip_ns(round_trip_ns);
  if (round_trip_ns == 0) reply.set_why_not("has not answered in time");
  v1::RailStatus& rail = *reply.mutable_link()->add_rails();
  rail.set_transport("tcp");
  rail.set_local_interface("en2");
  rail.set_remote_interface("en3");
  rail.set_state("up");
  rail.set_round_trip_ns(50'000);
  rail.set_round_trip_ns_min(40'000);
  return reply;
}

TEST(RenderPingTest, SumsUpWhatCameBackAndWhatWasLost) {
  const std::vector<v1::PingReply> replies = {Reply(100'000), Reply(0), Reply(300'000)};
  EXPECT_EQ(RenderPing(2, replies[1]), "b  2  lost: it has not answered in time\n");
  EXPECT_EQ(RenderPings(replies),
            "b: 2 of 3 came back, 33% lost; round trip 100 us at best, 200 us on average, 300 us at "
            "worst\n"
            "  tcp en2 - en3  up  last heartbeat 50.0 us, shortest 40.0 us\n");
  const std::string json = PingsAsJson(replies);
  EXPECT_THAT(json, testing::HasSubstr("\"round_trip_ns_mean\": 200000"));
  EXPECT_THAT(json, testing::HasSubstr("null"));
}

TEST(RenderPingTest, SaysNothingOfRoundTripsWhereNoneCameBack) {
  const std::vector<v1::PingReply> replies = {Reply(0)};
  EXPECT_THAT(RenderPings(replies), testing::StartsWith("b: 0 of 1 came back, 100% lost\n"));
  EXPECT_EQ(RenderPings({}), "");
}

}  // namespace
}  // namespace mlxcomm::ctl
