// Which ranks run on which host.
#include "client/ctl/launch/hostfile.h"

#include <gmock/gmock.h>

namespace mlxcomm::ctl::rank_placement_test {
namespace {

using testing::ElementsAre;

std::vector<HostEntry> Entries(std::initializer_list<std::pair<const char*, unsigned>> hosts) {
  std::vector<HostEntry> entries;
  for (const auto& [name, slots] : hosts) {
    entries.emplace_back().name = name;
    entries.back().slots = slots;
  }
  return entries;
}

TEST(RankPlacementTest, NumbersRanksThroughTheList) {
  const auto placed = PlaceRanks(Entries({{"a", 2}, {"b", 1}, {"a", 1}}), 0, "me");
  ASSERT_EQ(placed.size(), 2u);
  EXPECT_EQ(placed[0].host, "a");
  EXPECT_THAT(placed[0].ranks, ElementsAre(0, 1, 3)) << "by one connection";
  EXPECT_THAT(placed[1].ranks, ElementsAre(2));
}

TEST(RankPlacementTest, UsesTheRequestedCount) {
  const auto placed = PlaceRanks(Entries({{"a", 4}, {"b", 1}}), 2, "me");
  EXPECT_THAT(placed[0].ranks, ElementsAre(0, 1));
  EXPECT_THAT(placed[1].ranks, ElementsAre(2, 3));
}

TEST(RankPlacementTest, RecognizesThisMachineByAllItsNames) {
  const auto hosts = Entries({{"localhost", 1}, {"mac-1", 1}, {"mac-1.local", 1}, {"mac-2", 1}});
  const auto placed = PlaceRanks(hosts, 0, "mac-1.local");
  ASSERT_EQ(placed.size(), 2u);
  EXPECT_TRUE(placed[0].local);
  EXPECT_THAT(placed[0].ranks, ElementsAre(0, 1, 2));
  EXPECT_FALSE(placed[1].local);
  EXPECT_FALSE(PlaceRanks(Entries({{"10.0.0.1", 1}}), 0, "10")[0].local);
}

// Why: Open MPI's hostfiles exclude hosts like this.
TEST(RankPlacementTest, AHostWithoutSlotsHasNoRanks) {
  std::vector<HostEntry> hosts(3);
  hosts[0].name = "a";
  hosts[1].name = "b";
  hosts[1].slots = 0;
  hosts[2].name = "c";
  for (const unsigned per_host : {0u, 1u}) {
    const std::vector<PlacedRanks> placed = PlaceRanks(hosts, per_host, "here");
    ASSERT_EQ(placed.size(), 2u);
    EXPECT_EQ(placed[1].host, "c");
    EXPECT_EQ(placed[1].ranks, std::vector<unsigned>{1});
  }
}

}  // namespace
}  // namespace mlxcomm::ctl::rank_placement_test
