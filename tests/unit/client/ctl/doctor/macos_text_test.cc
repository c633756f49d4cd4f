// The texts have the form of the programs' output; names and ids are made up.
#include "client/ctl/doctor/macos_text.h"

#include <gtest/gtest.h>

#include <string>

namespace mlxcomm::ctl::macos_text_test {
namespace {

constexpr char kProfile[] = R"({"SPThunderboltDataType" : [
  { "_items" : [ { "_name" : "Mac Studio", "device_name_key" : "studio-2",
                   "domain_uuid_key" : "BBBB-2", "mode_key" : "thunderbolt_five",
                   "vendor_name_key" : "Apple Inc." } ],
    "_name" : "thunderboltusb4_bus_1", "device_name_key" : "Mac Studio", "domain_uuid_key" : "AAAA-1",
    "receptacle_1_tag" : { "current_speed_key" : "Up to 80 Gb/s", "link_status_key" : "0x2",
                           "receptacle_id_key" : "2", "receptacle_status_key" : "receptacle_connected" },
    "route_string_key" : "0", "switch_uid_key" : "0x05AC", "vendor_name_key" : "Apple Inc." },
  { "_name" : "thunderboltusb4_bus_0", "device_name_key" : "Mac Studio", "domain_uuid_key" : "AAAA-0",
    "receptacle_1_tag" : { "current_speed_key" : "Up to 40 Gb/s", "link_status_key" : "0x7",
                           "receptacle_id_key" : "1",
                           "receptacle_status_key" : "receptacle_no_devices_connected" } },
  { "_items" : [ { "_name" : "Fast Disk", "device_name_key" : "Fast Disk" } ],
    "_name" : "thunderboltusb4_bus_2", "domain_uuid_key" : "AAAA-2",
    "receptacle_1_tag" : { "current_speed_key" : "Up to 20 Gb/s x1", "receptacle_id_key" : "3",
                           "receptacle_status_key" : "receptacle_connected" } } ]})";

TEST(MacosTextTest, FindsThunderboltPortsAndTheirPeers) {
  const auto ports = ParseThunderboltProfile(kProfile);
  ASSERT_TRUE(ports.ok()) << ports.status();
  ASSERT_EQ(ports->size(), 3u);
  const ThunderboltPort& first = (*ports)[0];
  EXPECT_EQ(first.receptacle, "2");
  EXPECT_EQ(first.generation, "Thunderbolt 5");
  EXPECT_EQ(first.gigabits_per_second, 80);
  EXPECT_EQ(first.peer, "studio-2");
  EXPECT_EQ(first.own_domain, "AAAA-1");
  EXPECT_EQ(first.peer_domain, "BBBB-2");
  EXPECT_EQ((*ports)[1].peer_domain, "");
  EXPECT_EQ((*ports)[2].peer, "Fast Disk");  // Connected, but not to a computer.
  EXPECT_EQ((*ports)[2].peer_domain, "");
}

// Why: a computer behind a dock or hub is listed below that, and was not recognized as a computer.
TEST(MacosTextTest, FindsTheComputerBehindADockAndAHub) {
  const auto ports = ParseThunderboltProfile(R"({"SPThunderboltDataType" : [
    { "_name" : "thunderboltusb4_bus_0", "domain_uuid_key" : "AAAA-0",
      "receptacle_1_tag" : { "current_speed_key" : "Up to 40 Gb/s", "receptacle_id_key" : "1",
                             "receptacle_status_key" : "receptacle_connected" },
      "_items" : [ { "_name" : "Dock", "device_name_key" : "TS4", "_items" : [
                     { "_name" : "Hub", "device_name_key" : "Element Hub", "_items" : [
                       { "_name" : "Mac mini", "device_name_key" : "mini-3",
                         "domain_uuid_key" : "CCCC-0" } ] },
                     { "_name" : "Disk", "device_name_key" : "Disk" } ] } ] } ]})");
  ASSERT_TRUE(ports.ok()) << ports.status();
  ASSERT_EQ(ports->size(), 1u);
  EXPECT_EQ((*ports)[0].peer, "mini-3");
  EXPECT_EQ((*ports)[0].peer_domain, "CCCC-0");
  std::string deep = R"({"_name": "d"})";
  for (int i = 0; i < 6; ++i) deep = R"({"_name": "d", "_items": [)" + deep + "]}";
  const auto chain = ParseThunderboltProfile(
      R"({"SPThunderboltDataType": [{"receptacle_1_tag": {}, "_items": [)" + deep + "]}]}");
  ASSERT_TRUE(chain.ok()) << chain.status();
  EXPECT_EQ(chain->at(0).peer, "d");
}

TEST(MacosTextTest, KnowsTheNetworkServiceOfADevice) {
  const auto services = ParseNetworkServices(
      "An asterisk (*) denotes that a network service is disabled.\n(1) Ethernet\n"
      "(Hardware Port: Ethernet, Device: en0)\n\n(*) Thunderbolt Bridge\n"
      "(Hardware Port: Thunderbolt Bridge, Device: bridge0)\n\n(3) Cable (left)\n"
      "(Hardware Port: Thunderbolt 1, Device: en2)\n\n(*) old\n"
      "(Hardware Port: Thunderbolt 1, Device: en2)\n\n(5) VPN\n"
      "(Hardware Port: com.example.vpn, Device: )\n");
  ASSERT_EQ(services.size(), 3u);
  EXPECT_EQ(services.at("en2").name, "Cable (left)");
  EXPECT_TRUE(services.at("en2").enabled);
  EXPECT_EQ(services.at("bridge0").name, "Thunderbolt Bridge");
  EXPECT_FALSE(services.at("bridge0").enabled);
  EXPECT_TRUE(ParseNetworkServices("(Hardware Port: x, Device: en9)\n()\n(1\n").empty());
}

// Why: no text may lead to a wrong fact.
TEST(MacosTextTest, TakesNoFactFromUnexpectedText) {
  for (const char* text : {"", "[]", "{}", "{\"SPThunderboltDataType\": 7}", "{\"SPThunder"}) {
    EXPECT_FALSE(ParseThunderboltProfile(text).ok()) << text;
  }
  EXPECT_TRUE(ParseThunderboltProfile(R"({"SPThunderboltDataType": [7, {"receptacle_1_tag": 3}]})")
                  ->empty());
  EXPECT_TRUE(ParseHardwarePorts("Device: en0\n").empty());
  EXPECT_TRUE(ParseIfconfig("\tstatus: active\n").empty());
  EXPECT_FALSE(ParseSleepSettings("nothing").has_value());
  EXPECT_FALSE(ParseFirewallState("").on.has_value());
}

TEST(MacosTextTest, MapsPortsToDevices) {
  const auto ports = ParseHardwarePorts(
      "\nHardware Port: Ethernet\nDevice: en0\nEthernet Address: 00:00:00:00:00:01\n\n"
      "Hardware Port: Thunderbolt Bridge\nDevice: bridge0\nEthernet Address: 00:00:00:00:00:02\n\n"
      "Hardware Port: Thunderbolt 1\nDevice: en2\nEthernet Address: 00:00:00:00:00:03\n\n"
      "VLAN Configurations\n===================\n");
  EXPECT_EQ(ports.at("en2"), "Thunderbolt 1");
  EXPECT_EQ(ports.at("bridge0"), "Thunderbolt Bridge");
  EXPECT_EQ(ports.size(), 3u);
}

TEST(MacosTextTest, FindsInterfacesAndTheMembersOfABridge) {
  const auto found = ParseIfconfig(
      "lo0: flags=8049<UP,LOOPBACK,RUNNING,MULTICAST> mtu 16384\n"
      "\tinet6 fe80::1%lo0 prefixlen 64 scopeid 0x1\n"
      "en2: flags=8963<UP,BROADCAST,SMART,RUNNING,PROMISC,SIMPLEX,MULTICAST> mtu 1500\n"
      "\tether 36:00:00:00:00:01\n\tmedia: autoselect <full-duplex>\n\tstatus: inactive\n"
      "en3: flags=8822<BROADCAST,SMART,SIMPLEX,MULTICAST> mtu 9000\n"
      "\tinet6 fe80::2%en3 prefixlen 64 secured scopeid 0x9\n"
      "bridge0: flags=8863<UP,BROADCAST,SMART,RUNNING,SIMPLEX,MULTICAST> mtu 1500\n"
      "\tConfiguration:\n\t\tid 0:0:0:0:0:0 priority 0 hellotime 0 fwddelay 0\n"
      "\tmember: en2 flags=3<LEARNING,DISCOVER>\n\t        ifmaxaddr 0 port 8 priority 0 path cost "
      "0\n"
      "\tstatus: inactive\n");
  ASSERT_EQ(found.size(), 4u);
  EXPECT_TRUE(found[0].loopback && found[0].has_link_local);
  EXPECT_EQ(found[0].mtu, 16384u);
  EXPECT_EQ(found[1].bridge, "bridge0");
  EXPECT_TRUE(found[1].up);
  EXPECT_FALSE(found[1].running || found[1].has_link_local);  // RUNNING, but no cable.
  EXPECT_FALSE(found[2].up);
  EXPECT_TRUE(found[2].has_link_local);
  EXPECT_EQ(found[2].bridge, "");
}

TEST(MacosTextTest, ReadsSleepOnMainsPower) {
  EXPECT_EQ(ParseSleepSettings("Battery Power:\n sleep                1\n displaysleep 2\n"
                               "AC Power:\n networkoversleep     0\n sleep                0\n"),
            false);
  EXPECT_EQ(ParseSleepSettings("AC Power:\n Sleep On Power Button 1\n"
                               " sleep                1 (sleep prevented by powerd)\n"),
            true);
}

TEST(MacosTextTest, ReadsTheFirewallsState) {
  const FirewallState on = ParseFirewallState(
      "Firewall is enabled. (State = 1)\nFirewall has block all state set to disabled.\n");
  EXPECT_EQ(on.on, true);
  EXPECT_EQ(on.blocks_all, false);
  EXPECT_EQ(ParseFirewallState("Firewall is disabled. (State = 0)\nBlock all DISABLED!").on, false);
  // Why: neither line says enabled or disabled, in the one state that blocks all connections.
  const FirewallState closed = ParseFirewallState(
      "Firewall is blocking all non-essential incoming connections. (State = 2)\n");
  EXPECT_EQ(closed.on, true);
  EXPECT_EQ(closed.blocks_all, true);
}

TEST(MacosTextTest, ReadsNetworkTimeForAdministratorsOnly) {
  EXPECT_EQ(ParseNetworkTime("Network Time: On\n"), true);
  EXPECT_EQ(ParseNetworkTime("Network Time: Off\n"), false);
  EXPECT_EQ(ParseNetworkTime("You need administrator access to run this tool... exiting!\n"),
            std::nullopt);
  EXPECT_EQ(ParseNetworkTime(""), std::nullopt);
}

}  // namespace
}  // namespace mlxcomm::ctl::macos_text_test
