// Which interfaces are used, and what is said of the others.
#include "daemon/cluster/interface_choice.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mlxcomm::cluster::interface_choice_test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

platform::NetworkInterface Fine(const std::string& name) {
  platform::NetworkInterface made;
  made.name = name;
  made.running = made.multicast = true;
  made.addresses = {"10.0.0.1", "fe80::1%" + name};
  return made;
}

TEST(InterfaceChoiceTest, MatchesPatterns) {
  EXPECT_TRUE(MatchesPattern("en0", "en0"));
  EXPECT_TRUE(MatchesPattern("en0", "en*"));
  EXPECT_TRUE(MatchesPattern("en", "en*"));
  EXPECT_TRUE(MatchesPattern("en10", "en??"));
  EXPECT_TRUE(MatchesPattern("bridge100", "*ge*0"));
  EXPECT_TRUE(MatchesPattern("", "*"));
  EXPECT_FALSE(MatchesPattern("en10", "en?"));
  EXPECT_FALSE(MatchesPattern("eth0", "en*"));
  EXPECT_FALSE(MatchesPattern("en0", ""));
  EXPECT_FALSE(MatchesPattern("en", "en?"));
  // Ends soon, whatever is in it.
  EXPECT_FALSE(MatchesPattern(std::string(15, 'a'), "*a*a*a*a*a*a*a*a*a*a*a*a*a*b"));
}

TEST(InterfaceChoiceTest, UsesWhatACableMayBeIn) {
  for (const char* const name : {"en0", "eth0", "enp3s0f1", "bridge0", "bond0", "thunderbolt0"}) {
    EXPECT_THAT(WhyNotUsed(Fine(name), {}), IsEmpty()) << name;
  }
}

TEST(InterfaceChoiceTest, LeavesOutTunnelsAndContainersUnlessTheyAreNamed) {
  for (const char* const name : {"utun3", "awdl0", "llw0", "docker0", "br-1234", "vethab", "wg0"}) {
    EXPECT_THAT(WhyNotUsed(Fine(name), {}), HasSubstr("discovery { interfaces }")) << name;
    EXPECT_THAT(WhyNotUsed(Fine(name), {name}), IsEmpty()) << name;
  }
  platform::NetworkInterface tunnel = Fine("ppp0");
  tunnel.point_to_point = true;
  EXPECT_THAT(WhyNotUsed(tunnel, {}), HasSubstr("tunnel"));
  EXPECT_THAT(WhyNotUsed(tunnel, {"ppp*"}), IsEmpty());
  EXPECT_THAT(WhyNotUsed(Fine("en0"), {"en1", "eth*"}), HasSubstr("not among"));
}

TEST(InterfaceChoiceTest, SaysWhatAnInterfaceLacks) {
  const auto why = [](auto spoil) {
    platform::NetworkInterface spoilt = Fine("en0");
    spoil(spoilt);
    return WhyNotUsed(spoilt, {"*"});
  };
  EXPECT_THAT(why([](auto& i) { i.loopback = true; }), HasSubstr("loopback"));
  EXPECT_THAT(why([](auto& i) { i.running = false; }), HasSubstr("down"));
  EXPECT_THAT(why([](auto& i) { i.multicast = false; }), HasSubstr("multicast"));
  EXPECT_THAT(why([](auto& i) { i.bridge_member = true; }), HasSubstr("bridge"));
  EXPECT_THAT(why([](auto& i) { i.addresses = {"10.0.0.1", "2001:db8::1"}; }),
              HasSubstr("link-local"));
}

}  // namespace
}  // namespace mlxcomm::cluster::interface_choice_test
