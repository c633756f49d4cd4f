// The folders have the shape of a machine's /sys and /etc; names and ids are made up.
#include "client/ctl/doctor/linux_files.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/unit/temporary_folder.h"

namespace mlxcomm::ctl::linux_files_test {
namespace {

namespace fs = std::filesystem;

class LinuxFilesTest : public FolderTest {
 protected:
  void Write(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(folder_ + path).parent_path());
    FolderTest::Write(path, text + "\n");
  }
  void Interface(const std::string& name, const std::string& flags, const std::string& carrier) {
    const std::string path = "/sys/class/net/" + name;
    Write(path + "/flags", flags);
    Write(path + "/mtu", "1500");
    if (!carrier.empty()) Write(path + "/carrier", carrier);
  }
};

TEST_F(LinuxFilesTest, ReadsInterfacesBridgesAndThunderbolt) {
  Interface("lo", "0x9", "1");
  Interface("thunderbolt0", "0x1003", "1");
  Write("/sys/class/net/thunderbolt0/device/uevent", "DRIVER=thunderbolt-net\nTBSVC_KEY=network");
  Interface("eth0", "0x1002", "");
  Interface("wlan0", "0x1003", "1");
  Interface("br0", "0x1003", "1");
  fs::create_directories(folder_ + "/sys/class/net/br0/bridge");
  fs::create_symlink("../br0", folder_ + "/sys/class/net/thunderbolt0/master");
  Write("/sys/class/net/bonding_masters", "");
  Write("/proc/net/if_inet6",
        "fe8000000000000000fc00fffe000001 04 40 20 80     eth0\n"
        "fd000000000000000000000000000002 04 40 00 82    wlan0");
  const auto found = ReadLinuxInterfaces(folder_);
  ASSERT_EQ(found.size(), 5u);  // br0, eth0, lo, thunderbolt0, wlan0
  EXPECT_FALSE(found[1].up);
  EXPECT_TRUE(found[1].has_link_local);
  EXPECT_TRUE(found[2].loopback);
  EXPECT_EQ(found[3].bridge, "br0");
  EXPECT_TRUE(found[3].thunderbolt && found[3].running);
  EXPECT_FALSE(found[4].has_link_local);
}

TEST_F(LinuxFilesTest, ReadsThunderboltPeersWithTheirRate) {
  const std::string devices = "/sys/bus/thunderbolt/devices/";
  Write(devices + "domain0/security", "user");
  Write(devices + "0-0/generation", "4");
  Write(devices + "0-0/device_name", "this machine");
  Write(devices + "0-1/device_name", "studio-2");
  Write(devices + "0-1/vendor_name", "Apple Inc.");
  Write(devices + "0-1/unique_id", "bbbb-2");
  Write(devices + "0-1/rx_speed", "20.0 Gb/s");
  Write(devices + "0-1/rx_lanes", "2");
  Write(devices + "0-1.0/key", "network");
  Write(devices + "0-1/0-1.0/net/thunderbolt0/mtu", "65522");
  Write(devices + "0-0:1.1/device", "0x1");
  const auto ports = ReadLinuxThunderbolt(folder_);
  ASSERT_EQ(ports.size(), 1u);
  EXPECT_EQ(ports[0].peer, "studio-2");
  EXPECT_EQ(ports[0].peer_domain, "bbbb-2");
  EXPECT_EQ(ports[0].gigabits_per_second, 40);
  EXPECT_EQ(ports[0].generation, "Thunderbolt 4 controller");
  EXPECT_EQ(ports[0].interface, "thunderbolt0");
}

TEST_F(LinuxFilesTest, ReadsSleepAndFirewall) {
  EXPECT_FALSE(ReadLinuxSleep(folder_).has_value());
  EXPECT_FALSE(ReadLinuxFirewall(folder_).has_value());
  Write("/etc/systemd/logind.conf", "[Login]\n#IdleAction=suspend");
  EXPECT_EQ(ReadLinuxSleep(folder_), false);
  Write("/etc/systemd/logind.conf.d/idle.conf", "[Login]\nIdleAction=suspend");
  EXPECT_EQ(ReadLinuxSleep(folder_), true);
  // Why: doctor --fix does the same.
  std::filesystem::create_directories(folder_ + "/etc/systemd/system");
  std::filesystem::create_symlink("/dev/null", folder_ + "/etc/systemd/system/sleep.target");
  EXPECT_EQ(ReadLinuxSleep(folder_), false);
  Write("/etc/ufw/ufw.conf", "ENABLED=no");
  EXPECT_EQ(ReadLinuxFirewall(folder_), false);
  Write("/etc/ufw/ufw.conf", "# x\nENABLED=yes");
  EXPECT_EQ(ReadLinuxFirewall(folder_), true);
}

TEST_F(LinuxFilesTest, FindsNothingInAnEmptyFolder) {
  EXPECT_TRUE(ReadLinuxInterfaces(folder_).empty());
  EXPECT_TRUE(ReadLinuxThunderbolt(folder_).empty());
}

}  // namespace
}  // namespace mlxcomm::ctl::linux_files_test
