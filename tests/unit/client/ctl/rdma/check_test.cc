// Findings about RDMA, from the daemon's reports and the system's facts.
// tests/operations/test_rdma_shown.py shows that daemons report this.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "client/ctl/doctor/check.h"
#include "tests/unit/client/ctl/message_of.h"

namespace mlxcomm::ctl::rdma::check_test {
namespace {

// A node whose daemon reports this about RDMA, and about the rail beside its connection to b.
Facts Reported(const std::string& rdma, const std::string& rail = "") {
  Facts facts;
  facts.own_version = "1";
  facts.cluster.daemon_answers = true;
  facts.system.daemon_program = "mlxcommd";
  Add(R"(node: "a" cluster: "c"
         nodes { name: "a" version: "1" answered: true state: "up"
                 links { peer: "b" state: up
                         rails { transport: tcp state: up local_interface: "en2" remote_interface: "en3" }
                 )" +
          rail + "} " + rdma + "}",
      facts.cluster.status);
  Add(R"(node: "a" nodes { name: "a" answered: true listening: "0.0.0.0:1" system: "Darwin 25.2.0 arm64" })",
      facts.cluster.checkups);
  facts.system.kind = SystemKind::kMacos;
  return facts;
}

std::string RailThatIsDown(const std::string& reason, const std::string& detail,
                           bool peers = false) {
  return R"(rails { transport: rdma state: down local_interface: "en2" remote_interface: "en3")"
         " detail: \"" +
         detail + "\" reason: " + reason + (peers ? " peers_reason: true }" : " }");
}

constexpr char kOneDevice[] =
    R"(transports { transport: rdma devices { name: "rdma_en2" active: true state: "active" } })";

// The codes of faults.
std::vector<std::string> Codes(const Facts& facts) {
  std::vector<std::string> codes;
  for (const Finding& finding : Check(facts).Sorted()) {
    if (KindOf(finding.code)->severity != Severity::kOk) codes.push_back(finding.code);
  }
  return codes;
}

using List = std::vector<std::string>;

std::string SummaryOf(const Facts& facts) {
  for (const Finding& finding : Check(facts).Sorted()) {
    if (finding.code == "MC321") return finding.found;
  }
  return {};
}

// Why: most users of Ethernet, or of Macs without Thunderbolt 5, have not asked for RDMA and do not
// want to hear about it.
TEST(CheckRdmaTest, FindsNothingIfRdmaIsOffOrHealthy) {
  Facts off = Reported("");
  EXPECT_EQ(Codes(off), List());
  off.system.devices_enabled = false;
  EXPECT_EQ(Codes(off), List());
  EXPECT_EQ(SummaryOf(off), "off (rdma { enabled: true } in the configuration)");
  const Facts well = Reported(
      R"(transports { transport: rdma devices { name: "rdma_en2" active: true state: "active"
                          uses { name: "queue pair" used: 1 most: 10 }
                          uses { name: "memory region" used: 2 most: 100 } }
                devices { name: "rdma_en4" state: "port 1 is down" } })",
      R"(rails { transport: rdma state: up service: "UC" })");
  EXPECT_EQ(Codes(well), List()) << "a port without a cable needs no device";
  EXPECT_EQ(SummaryOf(well),
            "2 devices; rdma_en2 active, 1 of 10 queue pairs, 2 of 100 memory regions; "
            "rdma_en4 port 1 is down");
  EXPECT_EQ(Codes(Reported(R"(transports { transport: rdma reason: looking })")), List())
      << "no neighbour yet";
}

TEST(CheckRdmaTest, ReportsWhatAMacLacks) {
  EXPECT_EQ(Codes(Reported(R"(transports { transport: rdma reason: no_library detail: "x" })")),
            List{"MC310"});
  Facts none = Reported(R"(transports { transport: rdma })");
  EXPECT_EQ(Codes(none), List{"MC311"});
  none.system.devices_enabled = false;
  EXPECT_EQ(Codes(none), List{"MC307"}) << "which explains it";
  none.system.devices_enabled = true;
  ThunderboltPort port;
  port.speed = "Up to 40 Gb/s";
  port.gigabits_per_second = 40;
  none.system.ports = {port};
  EXPECT_EQ(Codes(none), List{"MC312"});
  none.system.devices_enabled = false;
  EXPECT_EQ(Codes(none), List{"MC312"}) << "enabling it would not help";
  none.system.devices_enabled = true;
  none.system.ports[0].gigabits_per_second = 80;
  EXPECT_EQ(Codes(none), List{"MC311"});
}

// Why: if a driver fails, the cable and the daemon are not to blame.
TEST(CheckRdmaTest, ReportsDriversThatDoNotAnswer) {
  for (const std::string reason : {"driver_silent", "driver_failed"}) {
    const std::string node =
        "transports { transport: rdma reason: " + reason + " detail: \"the RDMA driver ...\" }";
    EXPECT_EQ(Codes(Reported(node)), List{"MC314"});
    EXPECT_EQ(Codes(Reported(node, RailThatIsDown(reason, "the RDMA driver ..."))), List{"MC314"})
        << "once for all its cables";
  }
  EXPECT_EQ(
      Codes(Reported(
          R"(transports { transport: rdma devices { name: "rdma_en2" active: true busy_ms: 9000 } })")),
      List{"MC314"});
  EXPECT_EQ(Codes(Reported(kOneDevice, RailThatIsDown("driver_silent", "x"))), List{"MC314"});
}

struct RailCase {
  const char* reason;
  bool peers;
  const char* code;
  const char* interface;  // The one that the remedy names; empty: none.
};

// Only the reason counts; the detail may be any text.
TEST(CheckRdmaTest, ReportsWhyARailIsNotUp) {
  const RailCase cases[] = {{"port_down", false, "MC306", "en2"},
                            {"port_down", true, "MC306", "en3"},
                            {"no_gid", false, "MC313", "en2"},
                            {"gid_without_ipv4", false, "MC313", "en2"},
                            {"peer_gid_without_ipv4", false, "MC313", "en3"},
                            {"gid_without_ipv4", true, "MC313", "en3"},
                            {"peer_gid_without_ipv4", true, "MC313", "en2"},
                            {"encrypted", false, "MC320", "en2"},
                            {"transport_off", true, "MC317", ""},
                            {"no_device", true, "MC317", ""},
                            {"no_library", true, "MC317", ""},
                            {"not_made", true, "MC318", ""},
                            {"device_exhausted", true, "MC315", ""},
                            {"device_exhausted", false, "MC315", ""},
                            {"device_memory", false, "MC319", ""},
                            {"driver_silent", true, "MC314", ""},
                            {"not_made", false, "MC318", ""}};
  const std::string detail = "RDMA is off there, queue pairs already, a GID without IPv4";
  for (const RailCase& one : cases) {
    const Facts facts = Reported(kOneDevice, RailThatIsDown(one.reason, detail, one.peers));
    EXPECT_EQ(Codes(facts), List{one.code}) << one.reason;
    for (const Finding& finding : Check(facts).Sorted()) {
      if (finding.code != one.code) continue;
      EXPECT_EQ(finding.object, "RDMA from a en2 to b en3");
      EXPECT_EQ(finding.found, detail);
      EXPECT_FALSE(finding.expected.empty());
      EXPECT_NE(finding.remedy.find(one.interface), std::string::npos) << finding.remedy;
      EXPECT_FALSE(finding.remedy.empty());
    }
  }
  for (const char* const passes : {"being_made", "looking", "no_offer"}) {
    EXPECT_EQ(Codes(Reported(kOneDevice, RailThatIsDown(passes, detail))), List()) << passes;
  }
}

TEST(CheckRdmaTest, ReportsDevicesThatLinuxHidesFromTheDaemon) {
  Facts facts = Reported(R"(transports { transport: rdma })");
  facts.system.kind = SystemKind::kLinux;
  facts.cluster.checkups.mutable_nodes(0)->set_system("Linux 6.1.0 x86_64");
  EXPECT_EQ(Codes(facts), List{"MC311"});
  facts.system.devices = {"rxe0"};
  EXPECT_EQ(Codes(facts), List{"MC316"});
  *facts.cluster.status.mutable_nodes(0)->mutable_transports(0)->add_devices() = [] {
    v1::TransportDevice device;
    Add(R"(name: "rxe0" state: "cannot be opened: Permission denied"
           reason: device_not_opened)",
        device);
    return device;
  }();
  EXPECT_EQ(Codes(facts), List{"MC316"});
}

// One of the two sides begins; the other one does not learn that no offer will be made.
TEST(CheckRdmaTest, ReportsThatRdmaIsOffIfNoOfferComes) {
  Facts facts = Reported(kOneDevice, RailThatIsDown("no_offer", "none yet"));
  EXPECT_EQ(Codes(facts), List()) << "it may come";
  v1::NodeStatus& b = *facts.cluster.status.add_nodes();
  Add(R"(name: "b" version: "1" answered: true)", b);
  EXPECT_EQ(Codes(facts), List{"MC317"});
  Add("transports { transport: rdma reason: looking }", b);
  EXPECT_EQ(Codes(facts), List());
}

// Why: on Linux the device is found by its GIDs, and unless these are shown, the reason is
// invisible.
TEST(CheckRdmaTest, ListsDevicesIfNoneMatchesTheInterface) {
  Facts facts = Reported(
      R"(transports { transport: rdma devices { name: "rxe0" active: true state: "active"
                                                      gids: "10.0.9.1" } })",
      RailThatIsDown("no_device", "there is no RDMA device for en2"));
  EXPECT_EQ(Codes(facts), List())
      << "a Mac's device names show that en2 is not a Thunderbolt interface";
  facts.system.kind = SystemKind::kLinux;
  facts.cluster.checkups.mutable_nodes(0)->set_system("Linux 6.1.0 x86_64");
  EXPECT_EQ(Codes(facts), List{"MC313"});
  v1::TransportDevice& device =
      *facts.cluster.status.mutable_nodes(0)->mutable_transports(0)->mutable_devices(0);
  device.set_active(false);
  EXPECT_EQ(Codes(facts), List{"MC306"});
  v1::RailStatus& up = *facts.cluster.status.mutable_nodes(0)->mutable_links(0)->add_rails();
  up.set_transport(v1::Transport::rdma);
  up.set_state(v1::RailState::up);
  EXPECT_EQ(Codes(facts), List()) << "RDMA is used where it was meant to be";
}

TEST(CheckRdmaTest, ReportsALowLimitOfLockedMemory) {
  Facts facts = Reported(kOneDevice);
  facts.cluster.checkups.mutable_nodes(0)->set_locked_bytes_max(8 << 20);
  EXPECT_EQ(Codes(facts), List{"MC319"});
  facts.cluster.checkups.mutable_nodes(0)->set_locked_bytes_max(1 << 30);
  EXPECT_EQ(Codes(facts), List());
}

// Why: without a daemon the system's own tools still know something.
TEST(CheckRdmaTest, UsesTheSystemsReportIfNoDaemonAnswers) {
  Facts facts;
  facts.system.kind = SystemKind::kMacos;
  facts.system.devices_enabled = false;
  EXPECT_EQ(Codes(facts), (List{"MC101", "MC307"}));
}

}  // namespace
}  // namespace mlxcomm::ctl::rdma::check_test
