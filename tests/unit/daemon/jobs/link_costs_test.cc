// The costs of a job's links: coarse enough that two runs on the same cables choose the same plans,
// and bounded whatever a peer reports.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "daemon/jobs/new_group.h"

namespace mlxcomm::jobs::link_costs_test {
namespace {

v1::RailStatus RailOf(const char* interface, std::uint64_t best_round_trip_ns, bool up = true) {
  v1::RailStatus rail;
  rail.set_local_interface(interface);
  rail.set_state(up ? v1::RailState::up : v1::RailState::down);
  rail.set_round_trip_ns(40 * best_round_trip_ns);  // The last one was delayed by a busy machine.
  rail.set_round_trip_ns_min(best_round_trip_ns);
  rail.set_round_trips(8);
  return rail;
}

// A link for each, with one rail.
v1::LinkCosts CostsOf(const std::vector<v1::RailStatus>& rails) {
  v1::NodeStatus node;
  for (const v1::RailStatus& rail : rails) *node.add_links()->add_rails() = rail;
  return MeasureCosts(node);
}

TEST(LinkCostsTest, LatencyIsHalfTheBestRoundTripInStepsOfFour) {
  for (const std::uint64_t round_trip : {40'000u, 66'000u, 120'000u}) {
    EXPECT_EQ(CostsOf({RailOf("en2", round_trip)}).latency_ns(), 65'536u) << round_trip;
  }
  EXPECT_EQ(CostsOf({RailOf("en2", 140'000)}).latency_ns(), 262'144u);
}

TEST(LinkCostsTest, TheSlowestLinkThatIsUpCounts) {
  const v1::LinkCosts costs = CostsOf(
      {RailOf("en2", 40'000), RailOf("en3", 500'000), RailOf("en3", 9'000'000, /*up=*/false)});
  EXPECT_EQ(costs.latency_ns(), 262'144u);
  EXPECT_EQ(costs.links_per_node(), 2u);  // Interfaces, not rails.
}

// Why: a frame takes the rail on which it arrives first; a circuit is not a cable.
TEST(LinkCostsTest, TheQuickestRailOfALinkCounts) {
  v1::NodeStatus node;
  v1::LinkStatus& link = *node.add_links();
  *link.add_rails() = RailOf("en2", 500'000);
  *link.add_rails() = RailOf("en3", 40'000);
  *node.add_links()->add_rails() = RailOf("", 60'000);
  const v1::LinkCosts costs = MeasureCosts(node);
  EXPECT_EQ(costs.latency_ns(), 65'536u);
  EXPECT_EQ(costs.links_per_node(), 2u);
}

// Why: a job that began with its daemons kept plans for a latency of milliseconds, because the
// first heartbeats had waited for busy machines.
TEST(LinkCostsTest, TheFirstFewRoundTripsAreNotBelieved) {
  v1::RailStatus rail = RailOf("en2", 9'000'000);
  rail.set_round_trips(3);
  EXPECT_EQ(CostsOf({rail}).latency_ns(), 0u);
  rail.set_round_trips(4);
  EXPECT_GT(CostsOf({rail}).latency_ns(), 0u);
}

TEST(LinkCostsTest, WhatNobodyMeasuredStaysUnknown) {
  EXPECT_EQ(CostsOf({}).latency_ns(), 0u);
  EXPECT_EQ(CostsOf({RailOf("en2", 0)}).latency_ns(), 0u);
  v1::LinkCosts worst;
  v1::LinkCosts other;
  other.set_latency_ns(65'536);
  TakeWorse(other, worst);
  EXPECT_EQ(worst.latency_ns(), 65'536u);
}

// Why: figures come from other hosts and end up in divisions.
TEST(LinkCostsTest, FiguresOfPeersAreBounded) {
  v1::LinkCosts reported;
  reported.set_latency_ns(~std::uint64_t{0});
  reported.set_bytes_per_second(1);
  reported.set_links_per_node(~std::uint32_t{0});
  const v1::LinkCosts bounded = BoundedCosts(reported);
  EXPECT_EQ(bounded.latency_ns(), std::uint64_t{1} << 30);
  EXPECT_EQ(bounded.bytes_per_second(), 1'000'000u);
  EXPECT_EQ(bounded.links_per_node(), 64u);
}

}  // namespace
}  // namespace mlxcomm::jobs::link_costs_test
