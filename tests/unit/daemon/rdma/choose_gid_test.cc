// Which GID a queue pair uses on Macs and on other systems.
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

TEST(ChooseGidTest, PrefersIpv4OnADeviceNamedAfterItsInterface) {
  const std::vector<Gid> gids = {LinkLocal(1), LinkLocal(2), Ipv4(3), Ipv4(4)};
  EXPECT_EQ(ChooseGid(gids, LinkLocal(2), false), 2u);
  EXPECT_EQ(ChooseGid(gids, Ipv4(4), false), 3u) << "it is the link's";
  EXPECT_EQ(ChooseGid(gids, Ipv4(9), false), 2u);
}

TEST(ChooseGidTest, PrefersTheLinksGidThenAnyWithoutIpv4) {
  const std::vector<Gid> gids = {LinkLocal(1), LinkLocal(2)};
  EXPECT_EQ(ChooseGid(gids, LinkLocal(2), false), 1u);
  EXPECT_EQ(ChooseGid(gids, LinkLocal(9), false), 0u) << "the link's address is not among the GIDs";
  EXPECT_EQ(ChooseGid({}, LinkLocal(1), false), std::nullopt);
}

// Why: there the address shows which cable it is.
TEST(ChooseGidTest, RequiresTheLinksGidOnOtherDevices) {
  const std::vector<Gid> gids = {Ipv4(1), LinkLocal(2)};
  EXPECT_EQ(ChooseGid(gids, LinkLocal(2), true), 1u);
  EXPECT_EQ(ChooseGid(gids, LinkLocal(3), true), std::nullopt);
  EXPECT_TRUE(IsNamedAfterInterface("rdma_en5"));
  EXPECT_FALSE(IsNamedAfterInterface("mlx5_0"));
}

}  // namespace
}  // namespace mlxcomm::rdma::choose_gid_test
