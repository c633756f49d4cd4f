// What links carried between two readings of the status.
#include "client/ctl/bench/link_loads.h"

#include <string>

#include <gtest/gtest.h>

#include "tests/unit/client/ctl/message_of.h"

namespace mlxcomm::ctl::link_loads_test {
namespace {

v1::StatusReply Status(const std::string& rails) {
  return MessageOf<v1::StatusReply>(R"(nodes { name: "a" links { peer: "b" )" + rails + "} }");
}
std::string Rail(const std::string& port, int sent, const std::string& transport = "tcp") {
  return "rails { transport: " + transport + " state: up local_address: \"" + port +
         "\" sent_bytes: " + std::to_string(sent) + " delivery_bytes_per_second_best: 1e6 }";
}

TEST(LinkLoadsTest, AddsUpTheRailsOfALink) {
  const auto loads = LoadsBetween(Status(Rail("1", 500) + Rail("2", 0)),
                                  Status(Rail("1", 2500) + Rail("2", 1000)), 10, 200'000);
  ASSERT_EQ(loads.size(), 1u);
  EXPECT_EQ(loads[0].from() + " " + loads[0].to(), "a b");
  EXPECT_DOUBLE_EQ(loads[0].bytes_per_operation(), 300);
  EXPECT_DOUBLE_EQ(loads[0].bytes_per_second(), 1.5e6);
  EXPECT_DOUBLE_EQ(loads[0].fraction_of_best(), 0.75);
}

// Why: a connection that came up during the measurement counts from 0, and half a link is not a
// link.
TEST(LinkLoadsTest, LeavesOutALinkWhoseRailBeganAgain) {
  EXPECT_TRUE(LoadsBetween(Status(Rail("1", 500)), Status(Rail("2", 900)), 1, 1).empty());
  EXPECT_TRUE(LoadsBetween(Status(Rail("1", 500)), Status(Rail("1", 400)), 1, 1).empty());
}

TEST(LinkLoadsTest, CountsForwardedBytesOnlyOnCables) {
  const auto loads = LoadsBetween(Status(Rail("1", 0) + Rail("2", 0, "route")),
                                  Status(Rail("1", 10) + Rail("2", 10, "route")), 1, 1);
  ASSERT_EQ(loads.size(), 1u);
  EXPECT_DOUBLE_EQ(loads[0].bytes_per_operation(), 10);
}

std::string RailOn(const std::string& interface, const std::string& transport, int sent,
                   double best) {
  return "rails { transport: " + transport + " state: up local_address: \"" + transport +
         interface + "\" local_interface: \"" + interface +
         "\" remote_interface: \"en1\" sent_bytes: " + std::to_string(sent) +
         " delivery_bytes_per_second_best: " + std::to_string(best) + " }";
}

// Why: a connection and a queue pair share their cable. The sum of their best rates is twice what
// is possible, so a full cable would look half empty.
TEST(LinkLoadsTest, CountsACableOnceWithSeveralRails) {
  const auto loads =
      LoadsBetween(Status(RailOn("en2", "tcp", 0, 3e6) + RailOn("en2", "rdma", 0, 5e6) +
                          RailOn("en3", "tcp", 0, 3e6)),
                   Status(RailOn("en2", "tcp", 100, 3e6) + RailOn("en2", "rdma", 900, 5e6) +
                          RailOn("en3", "tcp", 600, 3e6)),
                   1, 200'000);
  ASSERT_EQ(loads.size(), 1u);
  EXPECT_DOUBLE_EQ(loads[0].bytes_per_operation(), 1600);
  EXPECT_DOUBLE_EQ(loads[0].best_bytes_per_second(), 8e6);
  EXPECT_DOUBLE_EQ(loads[0].fraction_of_best(), 1);
  ASSERT_EQ(loads[0].rails_size(), 2);
  EXPECT_EQ(loads[0].rails(0).transport(), "rdma");
  EXPECT_DOUBLE_EQ(loads[0].rails(0).bytes_per_operation(), 900);
  EXPECT_DOUBLE_EQ(loads[0].rails(0).bytes_per_second(), 4.5e6);
  EXPECT_DOUBLE_EQ(loads[0].rails(1).bytes_per_operation(), 700);
  EXPECT_DOUBLE_EQ(loads[0].rails(1).best_bytes_per_second(), 6e6);
}

// Both together may carry more than either did alone: then that is the best rate of the cable.
TEST(LinkLoadsTest, RaisesTheBestRateOfASharedCableToItsRateNow) {
  const auto loads = LoadsBetween(
      Status(RailOn("en2", "tcp", 0, 3e6) + RailOn("en2", "rdma", 0, 5e6)),
      Status(RailOn("en2", "tcp", 600, 3e6) + RailOn("en2", "rdma", 1000, 5e6)), 1, 200'000);
  EXPECT_DOUBLE_EQ(loads.at(0).best_bytes_per_second(), 8e6);
}

TEST(LinkLoadsTest, ReturnsNoLoadsWithoutATime) {
  EXPECT_TRUE(LoadsBetween(Status(Rail("1", 0)), Status(Rail("1", 9)), 0, 1).empty());
  EXPECT_TRUE(LoadsBetween(Status(Rail("1", 0)), Status(Rail("1", 9)), 1, 0).empty());
}

}  // namespace
}  // namespace mlxcomm::ctl::link_loads_test
