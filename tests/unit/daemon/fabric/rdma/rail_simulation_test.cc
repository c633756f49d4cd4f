#include <gtest/gtest.h>

#include "tests/unit/daemon/fabric/rdma/simulated_rails.h"
#include "tests/unit/seeds.h"

namespace mlxcomm::fabric::rdma {
namespace {

// Why: what goes wrong between set-up, credit and loss depends on the order of many small events,
// and a real queue pair shows few of the orders. A seed that fails does so again.
TEST(RailSimulationTest, HoldsUnderEverySeed) {
  int rails = 0;
  int lost = 0;
  for (std::uint32_t seed = 1; seed <= Seeds(300); ++seed) {
    SimulatedRails world(seed, Planted::kNothing);
    ASSERT_EQ(world.Run(), "") << "seed " << seed;
    rails += world.rails();
    lost += world.lost();
  }
  EXPECT_GT(rails, 300 * 2 * 2) << "they come back";
  EXPECT_GT(lost, 300 * 20);
}

// Why: a test that finds nothing has to be one that could.
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
}  // namespace mlxcomm::fabric::rdma
