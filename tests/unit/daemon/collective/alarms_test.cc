// Nothing is allocated while payload moves, and alarms arrive during that time, for example for
// operations that have ended.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/unit/daemon/collective/calls.h"
#include "tests/unit/daemon/collective/simulated_cluster.h"
#include "tests/unit/refused_memory.h"

namespace mlxcomm::collective::alarms_test {
namespace {

TEST(AlarmsTest, AnObsoleteAlarmTakesNoMemory) {
  SimulatedCluster cluster(/*nodes=*/2, /*ranks_per_node=*/1, /*seed=*/1);
  std::vector<std::vector<std::int32_t>> data(2, std::vector<std::int32_t>(1000, 1));
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    cluster.Submit(rank, AllReduce(data[rank].data(), data[rank].data(), data[rank].size()));
  }
  cluster.Run();
  for (int node = 0; node < 2; ++node) {
    const std::uint64_t alarm = cluster.core(node).NextDeadline();
    ASSERT_NE(alarm, kNever) << "the operations have set one";
    refuse_after = 0;
    EXPECT_NO_THROW(cluster.core(node).OnTime(alarm));
    refuse_after = -1;
    EXPECT_EQ(cluster.core(node).NextDeadline(), kNever);
  }
}

}  // namespace
}  // namespace mlxcomm::collective::alarms_test
