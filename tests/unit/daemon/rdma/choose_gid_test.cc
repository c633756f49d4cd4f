// Which GID a queue pair uses, out of those of Macs' and other systems' ports.
#include "daemon/rdma/choose_gid.h"

#include <gtest/gtest.h>

#include <vector>

namespace mlxcomm::rdma::choose_gid_test {
namespace {

Gid LinkLocal(std::uint8_t last) {
  return {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last};
}
Gid Ipv4(std::uint8_t last) {
  return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 169, 254, 0, last};
}

TEST(ChooseGidTest, TakesIpv4sBeforeTheLinksOnADeviceOfTheInterfacesName) {
  const std::vector<Gid> gids = {LinkLocal(1), LinkLocal(2), Ipv4(3), Ipv4(4)};
  EXPECT_EQ(ChooseGid(gids, LinkLocal(2), false), 2u);
  EXPECT_EQ(ChooseGid(gids, Ipv4(4), false), 3u) << "it is the link's";
  EXPECT_EQ(ChooseGid(gids, Ipv4(9), false), 2u);
}

TEST(ChooseGidTest, TakesTheLinksAndThenAnyWhereThereIsNoIpv4) {
  const std::vector<Gid> gids = {LinkLocal(1), LinkLocal(2)};
  EXPECT_EQ(ChooseGid(gids, LinkLocal(2), false), 1u);
  EXPECT_EQ(ChooseGid(gids, LinkLocal(9), false), 0u) << "its address is another than the GID's";
  EXPECT_EQ(ChooseGid({}, LinkLocal(1), false), std::nullopt);
}

// Why: there the address shows which cable it is.
TEST(ChooseGidTest, TakesTheLinksAloneOnADeviceThatWasFoundByIt) {
  const std::vector<Gid> gids = {Ipv4(1), LinkLocal(2)};
  EXPECT_EQ(ChooseGid(gids, LinkLocal(2), true), 1u);
  EXPECT_EQ(ChooseGid(gids, LinkLocal(3), true), std::nullopt);
  EXPECT_TRUE(IsNamedAfterInterface("rdma_en5"));
  EXPECT_FALSE(IsNamedAfterInterface("mlx5_0"));
}

}  // namespace
}  // namespace mlxcomm::rdma::choose_gid_test
