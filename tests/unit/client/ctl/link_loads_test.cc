// What links carried, from two looks at the status.
#include "client/ctl/link_loads.h"

#include <string>

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

namespace mlxcomm::ctl {
namespace {

v1::StatusReply Status(const std::string& rails) {
  v1::StatusReply status;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"(nodes { name: "a" links { peer: "b" )" + rails + "} }", &status));
  return status;
}
std::string Rail(const std::string& port, int sent, const std::string& transport = "tcp") {
  return "rails { transport: \"" + transport + "\" state: \"up\" local_address: \"" + port +
         "\" sent_bytes: " + std::to_string(sent) + " delivery_bytes_per_second_best: 1e6 }";
}

TEST(LinkLoadsTest, AddsUpTheRailsOfALink) {
  const auto loads = LoadsBetween(Status(Rail("1", 500) + Rail("2", 0)),
                                  Status(Rail("1", 2500) + Rail("2", 1000)), 10, 200'000);
  ASSERT_EQ(loads.size(), 1u);
  EXPECT_EQ(loads[0].from + " " + loads[0].to, "a b");
  EXPECT_DOUBLE_EQ(loads[0].bytes, 300);
  EXPECT_DOUBLE_EQ(loads[0].bytes_per_second, 1.5e6);
  EXPECT_DOUBLE_EQ(loads[0].fraction(), 0.75);
}

// Why: a connection that came up since counts from 0, and half a link is no link.
TEST(LinkLoadsTest, LeavesOutALinkWhoseRailBeganAnew) {
  EXPECT_TRUE(LoadsBetween(Status(Rail("1", 500)), Status(Rail("2", 900)), 1, 1).empty());
  EXPECT_TRUE(LoadsBetween(Status(Rail("1", 500)), Status(Rail("1", 400)), 1, 1).empty());
}

TEST(LinkLoadsTest, CountsWhatIsForwardedOnTheCablesAlone) {
  const auto loads = LoadsBetween(Status(Rail("1", 0) + Rail("2", 0, "route")),
                                  Status(Rail("1", 10) + Rail("2", 10, "route")), 1, 1);
  ASSERT_EQ(loads.size(), 1u);
  EXPECT_DOUBLE_EQ(loads[0].bytes, 10);
}

TEST(LinkLoadsTest, SaysNothingOfATimeThatIsNone) {
  EXPECT_TRUE(LoadsBetween(Status(Rail("1", 0)), Status(Rail("1", 9)), 0, 1).empty());
  EXPECT_TRUE(LoadsBetween(Status(Rail("1", 0)), Status(Rail("1", 9)), 1, 0).empty());
}

}  // namespace
}  // namespace mlxcomm::ctl
