// What the links of a job cost: coarse enough that two runs on the same cables choose the
// same plans, bounded whatever a peer says.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "daemon/cluster/link_costs.h"

namespace mlxcomm::cluster {
namespace {

fabric::LinkSnapshot LinkOf(const char* address, std::uint64_t best_round_trip_ns, bool up = true) {
  fabric::RailSnapshot rail;
  rail.local_address = address;
  rail.up = up;
  rail.round_trip_ns = 40 * best_round_trip_ns;  // The last one met a busy machine.
  rail.round_trip_ns_min = best_round_trip_ns;
  return {"peer", {}, "up", "", {rail}};
}

TEST(LinkCostsTest, LatencyIsHalfTheBestRoundTripInStepsOfFour) {
  for (const std::uint64_t round_trip : {40'000, 66'000, 120'000}) {
    const std::vector<fabric::LinkSnapshot> links = {LinkOf("10.0.0.1:5", round_trip)};
    EXPECT_EQ(MeasureCosts(links).latency_ns(), 65'536u) << round_trip;
  }
  EXPECT_EQ(MeasureCosts(std::vector{LinkOf("10.0.0.1:5", 140'000)}).latency_ns(), 262'144u);
}

TEST(LinkCostsTest, TheSlowestRailThatIsUpCounts) {
  const std::vector<fabric::LinkSnapshot> links = {
      LinkOf("10.0.0.1:5", 40'000), LinkOf("10.0.1.1:6", 500'000),
      LinkOf("10.0.1.1:7", 9'000'000, /*up=*/false)};
  const v1::LinkCosts costs = MeasureCosts(links);
  EXPECT_EQ(costs.latency_ns(), 262'144u);
  EXPECT_EQ(costs.links_per_node(), 2u);  // Addresses, not ports.
}

TEST(LinkCostsTest, WhatNobodyMeasuredStaysUnknown) {
  EXPECT_EQ(MeasureCosts({}).latency_ns(), 0u);
  EXPECT_EQ(MeasureCosts(std::vector{LinkOf("10.0.0.1:5", 0)}).latency_ns(), 0u);
  v1::LinkCosts worst;
  v1::LinkCosts other;
  other.set_latency_ns(65'536);
  TakeWorse(other, worst);
  EXPECT_EQ(worst.latency_ns(), 65'536u);
}

// Why: figures come from other hosts and end up in divisions.
TEST(LinkCostsTest, FiguresOfPeersAreBounded) {
  v1::LinkCosts told;
  told.set_latency_ns(~std::uint64_t{0});
  told.set_bytes_per_second(1);
  told.set_links_per_node(~std::uint32_t{0});
  const v1::LinkCosts bounded = BoundedCosts(told);
  EXPECT_EQ(bounded.latency_ns(), std::uint64_t{1} << 30);
  EXPECT_EQ(bounded.bytes_per_second(), 1'000'000u);
  EXPECT_EQ(bounded.links_per_node(), 64u);
}

}  // namespace
}  // namespace mlxcomm::cluster
