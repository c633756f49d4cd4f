#include <gtest/gtest.h>

#include "tests/unit/daemon/transport/rdma/simulated_rails.h"
#include "tests/unit/seeds.h"

namespace mlxcomm::fabric::rdma::rail_simulation_test {
namespace {

// Why: faults between set-up, credit and loss depend on the order of many small events, and a real
// queue pair shows few of the orders. A failing seed can be repeated.
TEST(RailSimulationTest, HoldsUnderEverySeed) {
  const std::uint32_t seeds = Seeds(75);
  std::uint64_t rails = 0;
  std::uint64_t lost = 0;
  for (std::uint32_t seed = 1; seed <= seeds; ++seed) {
    SimulatedRails world(seed, Planted::kNothing);
    ASSERT_EQ(world.Run(), "") << "seed " << seed;
    rails += static_cast<std::uint64_t>(world.rails());
    lost += static_cast<std::uint64_t>(world.lost());
  }
  EXPECT_GT(rails, seeds * 2u * 2u) << "they come back";
  EXPECT_GT(lost, seeds * 20u);
}

// Why: a test that finds nothing must be able to find something.
TEST(RailSimulationTest, FindsWhatIsPlanted) {
  for (const Planted planted :
       {Planted::kOverstatesCredit, Planted::kHidesLoss, Planted::kSendsTooEarly,
        Planted::kKeepsDropped, Planted::kForgetsSilence}) {
    int found = 0;
    for (std::uint32_t seed = 1; seed <= 40; ++seed) {
      found += SimulatedRails(seed, planted).Run().empty() ? 0 : 1;
    }
    EXPECT_GT(found, 0) << static_cast<int>(planted);
  }
}

}  // namespace
}  // namespace mlxcomm::fabric::rdma::rail_simulation_test
