// Which interfaces are used, and the reasons for the others.
#include "daemon/discovery/interface_choice.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mlxcomm::discovery::interface_choice_test {
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

TEST(InterfaceChoiceTest, UsesWhatACableMayBeIn) {
  for (const char* const name : {"en0", "eth0", "enp3s0f1", "bridge0", "bond0", "thunderbolt0"}) {
    EXPECT_THAT(WhyNotUsed(Fine(name), {}).text, IsEmpty()) << name;
  }
}

TEST(InterfaceChoiceTest, LeavesOutTunnelsAndContainersUnlessTheyAreNamed) {
  for (const char* const name : {"utun3", "awdl0", "llw0", "docker0", "br-1234", "vethab", "wg0"}) {
    EXPECT_THAT(WhyNotUsed(Fine(name), {}).text, HasSubstr("discovery { interfaces }")) << name;
    EXPECT_THAT(WhyNotUsed(Fine(name), {name}).text, IsEmpty()) << name;
  }
  platform::NetworkInterface tunnel = Fine("ppp0");
  tunnel.point_to_point = true;
  EXPECT_THAT(WhyNotUsed(tunnel, {}).text, HasSubstr("tunnel"));
  EXPECT_THAT(WhyNotUsed(tunnel, {"ppp*"}).text, IsEmpty());
  EXPECT_THAT(WhyNotUsed(Fine("en0"), {"en1", "en?0", "eth*"}).text, HasSubstr("not among"));
  EXPECT_THAT(WhyNotUsed(Fine("en0"), {"en1", "en?"}).text, IsEmpty());
}

TEST(InterfaceChoiceTest, SaysWhatAnInterfaceLacks) {
  const auto why = [](auto spoil) {
    platform::NetworkInterface spoilt = Fine("en0");
    spoil(spoilt);
    return WhyNotUsed(spoilt, {"*"});
  };
  using Reason = v1::DiscoveryReason;
  const auto expect = [](const InterfaceFault& fault, Reason::Value reason, const char* text) {
    EXPECT_EQ(fault.reason, reason) << fault.text;
    EXPECT_THAT(fault.text, HasSubstr(text));
  };
  expect(why([](auto& i) { i.loopback = true; }), Reason::loopback, "loopback");
  expect(why([](auto& i) { i.running = false; }), Reason::interface_down, "down");
  expect(why([](auto& i) { i.multicast = false; }), Reason::no_multicast, "multicast");
  expect(why([](auto& i) { i.bridge_member = true; }), Reason::bridge_member, "bridge");
  expect(why([](auto& i) { i.addresses = {"10.0.0.1", "2001:db8::1"}; }), Reason::no_link_local,
         "link-local");
}

}  // namespace
}  // namespace mlxcomm::discovery::interface_choice_test
