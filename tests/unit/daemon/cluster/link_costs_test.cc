// The costs of a job's links: coarse enough that two runs on the same cables choose the same plans,
// and bounded whatever a peer reports.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "daemon/cluster/new_group.h"

namespace mlxcomm::cluster::link_costs_test {
namespace {

fabric::LinkSnapshot LinkOf(const char* interface, std::uint64_t best_round_trip_ns,
                            bool up = true) {
  fabric::RailSnapshot rail;
  rail.local_interface = interface;
  rail.up = up;
  rail.round_trip_ns = 40 * best_round_trip_ns;  // The last one met a busy machine.
  rail.round_trip_ns_min = best_round_trip_ns;
  rail.round_trips = 8;
  return {"peer", {}, LinkState::kUp, LinkReason::kNone, "", {rail}};
}

TEST(LinkCostsTest, LatencyIsHalfTheBestRoundTripInStepsOfFour) {
  for (const std::uint64_t round_trip : {40'000u, 66'000u, 120'000u}) {
    const std::vector<fabric::LinkSnapshot> links = {LinkOf("en2", round_trip)};
    EXPECT_EQ(MeasureCosts(links).latency_ns(), 65'536u) << round_trip;
  }
  EXPECT_EQ(MeasureCosts(std::vector{LinkOf("en2", 140'000)}).latency_ns(), 262'144u);
}

TEST(LinkCostsTest, TheSlowestLinkThatIsUpCounts) {
  const std::vector<fabric::LinkSnapshot> links = {LinkOf("en2", 40'000), LinkOf("en3", 500'000),
                                                   LinkOf("en3", 9'000'000, /*up=*/false)};
  const v1::LinkCosts costs = MeasureCosts(links);
  EXPECT_EQ(costs.latency_ns(), 262'144u);
  EXPECT_EQ(costs.links_per_node(), 2u);  // Interfaces, not rails.
}

// Why: a frame takes the rail on which it arrives first; a circuit is no cable.
TEST(LinkCostsTest, TheQuickestRailOfALinkCounts) {
  fabric::LinkSnapshot link = LinkOf("en2", 500'000);
  link.rails.push_back(LinkOf("en3", 40'000).rails[0]);
  fabric::LinkSnapshot route = LinkOf("", 60'000);
  const v1::LinkCosts costs = MeasureCosts(std::vector{link, route});
  EXPECT_EQ(costs.latency_ns(), 65'536u);
  EXPECT_EQ(costs.links_per_node(), 2u);
}

// Why: a job that began with its daemons kept plans for a latency of milliseconds, because the
// first heartbeats had waited for busy machines.
TEST(LinkCostsTest, TheFirstFewRoundTripsAreNotBelieved) {
  fabric::LinkSnapshot link = LinkOf("en2", 9'000'000);
  link.rails[0].round_trips = 3;
  EXPECT_EQ(MeasureCosts(std::vector{link}).latency_ns(), 0u);
  link.rails[0].round_trips = 4;
  EXPECT_GT(MeasureCosts(std::vector{link}).latency_ns(), 0u);
}

TEST(LinkCostsTest, WhatNobodyMeasuredStaysUnknown) {
  EXPECT_EQ(MeasureCosts({}).latency_ns(), 0u);
  EXPECT_EQ(MeasureCosts(std::vector{LinkOf("en2", 0)}).latency_ns(), 0u);
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
}  // namespace mlxcomm::cluster::link_costs_test
