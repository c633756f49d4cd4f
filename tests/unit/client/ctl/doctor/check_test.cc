// Each finding by the facts that lead to it, beside facts that must not.
#include "client/ctl/doctor/check.h"

#include <gmock/gmock.h>

#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "client/ctl/doctor/render_doctor.h"
#include "client/ctl/status/health.h"
#include "tests/unit/client/ctl/message_of.h"

namespace mlxcomm::ctl::check_test {
namespace {

// Two nodes and a working cable.
Facts Well() {
  Facts facts;
  facts.own_version = "1";
  facts.system.daemon_program = "mlxcommd";
  facts.cluster.daemon_answers = true;
  Add(R"(node: "a" cluster: "c"
         nodes { name: "a" version: "1" answered: true state: "up"
                 links { peer: "b" state: up
                         rails { transport: tcp state: up local_interface: "en2"
                                 remote_interface: "en3" delivery_bytes_per_second_best: 3e9
                                 delivery_busy_bytes: 67108864 } } }
         nodes { name: "b" version: "1" answered: true state: "up"
                 links { peer: "a" state: up
                         rails { transport: tcp state: up local_interface: "en3"
                                 remote_interface: "en2" delivery_bytes_per_second_best: 2.9e9
                                 delivery_busy_bytes: 67108864 } } })",
      facts.cluster.status);
  Add(R"(node: "a" nodes { name: "a" answered: true open_files_max: 4096 listening: "0.0.0.0:1"
                           interfaces { name: "en2" mtu: 1500 } }
         nodes { name: "b" answered: true open_files_max: 4096 interfaces { name: "en3" mtu: 1500 } })",
      facts.cluster.checkups);
  Add(R"(node: "a" shape: "pair" ring: "1" ring: "2"
         nodes { id: "1" name: "a" state: "up" } nodes { id: "2" name: "b" state: "up" }
         cables { from_node: "1" from_interface: "en2" to_node: "2" to_interface: "en3" state: up
                  bytes_per_second_best: 2.9e9 })",
      facts.cluster.topology);
  InterfaceFacts en2;
  en2.name = "en2";
  en2.up = en2.running = en2.thunderbolt = true;
  en2.mtu = 1500;
  facts.system.interfaces = {en2};
  return facts;
}

v1::LinkStatus& OwnLink(Facts& facts) {
  return *facts.cluster.status.mutable_nodes(0)->mutable_links(0);
}

std::vector<Finding> Found(const Facts& facts, const std::string& code) {
  std::vector<Finding> found = Check(facts).Sorted();
  for (const Finding& finding : found) {
    const std::string text = finding.found + finding.expected + finding.remedy;
    EXPECT_FALSE(std::regex_search(text, std::regex("\\{[a-z_]+\\}")))
        << finding.id << ": the check gives no value for a name in " << text;
  }
  std::erase_if(found, [&code](const Finding& finding) { return finding.code != code; });
  return found;
}

TEST(CheckTest, FindsNothingIfAllIsWell) {
  for (const Finding& finding : Check(Well()).Sorted())
    EXPECT_EQ(KindOf(finding.code)->severity, Severity::kOk) << finding.id;
  EXPECT_EQ(Found(Well(), "MC106").size(), 1u);
}

// Why: doctor is needed most before anything runs.
TEST(CheckTest, WorksWithoutADaemon) {
  Facts facts;
  facts.cluster.why_not = "nobody listens";
  EXPECT_EQ(Found(facts, "MC101").at(0).found, "nobody listens");
  EXPECT_TRUE(Found(facts, "MC511").empty());
  facts.system.daemon_program = "mlxcommd";
  EXPECT_TRUE(Found(facts, "MC101").at(0).fix.commands.empty());  // There is no service to start.
  facts.system.service_installed = true;
  EXPECT_EQ(CommandLine(Found(facts, "MC101").at(0).fix), "systemctl start mlxcommd");
  EXPECT_FALSE(Found(facts, "MC101").at(0).fix.safe);
}

TEST(CheckTest, NamesTheCommandThatFixesAKeyFile) {
  Facts facts = Well();
  facts.system.key_file = "/k";
  facts.system.key_trouble = {"others can use it (mode 644)", /*others_can_use_it=*/true};
  const Finding finding = Found(facts, "MC103").at(0);
  EXPECT_EQ(CommandLine(finding.fix), "chmod 600 /k");
  EXPECT_TRUE(finding.fix.safe);
  for (const char* trouble :
       {"there is no such file", "key_file /k: expected 64 hexadecimal digits"}) {
    facts.system.key_trouble = {trouble};  // Its mode is well.
    EXPECT_TRUE(Found(facts, "MC103").at(0).fix.commands.empty()) << trouble;
  }
}

// Why: after a mere ifconfig the next boot puts the port back into the bridge, and without a
// network service macOS gives a port no address, so no neighbour would be found over it.
TEST(CheckTest, FreesAThunderboltInterfaceFromAnActiveBridgeForGood) {
  Facts facts = Well();
  facts.system.kind = SystemKind::kMacos;
  facts.system.interfaces[0].bridge = "bridge0";
  facts.system.interfaces[0].hardware = "Thunderbolt 1";
  InterfaceFacts bridge;
  bridge.name = "bridge0";
  bridge.up = true;
  bridge.service = "Thunderbolt Bridge";
  bridge.service_enabled = true;
  facts.system.interfaces.push_back(bridge);
  const Fix fix = Found(facts, "MC201").at(0).fix;
  EXPECT_TRUE(fix.safe);
  EXPECT_EQ(CommandLine(fix),
            "ifconfig bridge0 deletem en2 && "
            "networksetup -createnetworkservice mlxcomm-en2 'Thunderbolt 1' && "
            "networksetup -setv6automatic mlxcomm-en2 && "
            "networksetup -setnetworkserviceenabled 'Thunderbolt Bridge' off");
  facts.system.interfaces[0].service = "mlxcomm-en2";  // Made before, and switched off.
  facts.system.interfaces[1].service_enabled = false;
  EXPECT_EQ(CommandLine(Found(facts, "MC201").at(0).fix),
            "ifconfig bridge0 deletem en2 && "
            "networksetup -setnetworkserviceenabled mlxcomm-en2 on && "
            "networksetup -setv6automatic mlxcomm-en2");
  facts.system.interfaces[1].up = false;  // It forwards nothing.
  EXPECT_TRUE(Found(facts, "MC201").empty());
}

TEST(CheckTest, GivesAPortWithoutAnAddressANetworkService) {
  Facts facts = Well();
  facts.system.kind = SystemKind::kMacos;
  InterfaceFacts& port = facts.system.interfaces[0];
  port.hardware = "Thunderbolt 1";
  port.has_link_local = false;
  EXPECT_EQ(CommandLine(Found(facts, "MC203").at(0).fix),
            "networksetup -createnetworkservice mlxcomm-en2 'Thunderbolt 1' && "
            "networksetup -setv6automatic mlxcomm-en2");
  EXPECT_TRUE(Found(facts, "MC203").at(0).fix.safe);
  port.service = "Cable to the left";
  port.service_enabled = true;
  EXPECT_EQ(CommandLine(Found(facts, "MC203").at(0).fix),
            "networksetup -setv6automatic 'Cable to the left'");
  port.service = "";
  port.hardware = "";  // It is not known which port it is.
  EXPECT_TRUE(Found(facts, "MC203").at(0).fix.commands.empty());
}

// Why: macOS goes by the program that owns the window, so the advice "allow mlxcommd" cannot be
// followed.
TEST(CheckTest, NamesTheProgramThatMacosMustAllowOnTheLocalNetwork) {
  Facts facts = Well();
  Add(R"(state: connecting peer: "[fe80::2%en2]:7470"
         detail: "cannot connect: No route to host" reason: no_route_to_host)",
      OwnLink(facts));
  const std::string remedy = Found(facts, "MC205").at(0).remedy;
  EXPECT_TRUE(remedy.starts_with("macOS 15 and later")) << remedy;
  for (const char* part : {"tmux", "VS Code", "Local Network", "the service"})
    EXPECT_NE(remedy.find(part), std::string::npos) << part;
  EXPECT_EQ(remedy.find("allow mlxcommd"), std::string::npos);
  OwnLink(facts).set_peer("192.0.2.7:7470");  // A route may really be missing.
  EXPECT_TRUE(Found(facts, "MC205").at(0).remedy.starts_with("check the cable")) << remedy;
}

TEST(CheckTest, ReportsLibrariesOfTheServiceThatAreMissingOrWritable) {
  Facts facts = Well();
  facts.system.libraries_missing = {"/opt/homebrew/opt/grpc/lib/libgrpc++.1.60.dylib"};
  facts.system.libraries_of_users = {"/opt/homebrew/opt/fmt/lib/libfmt.12.dylib"};
  EXPECT_EQ(Found(facts, "MC107").at(0).found,
            "/opt/homebrew/opt/grpc/lib/libgrpc++.1.60.dylib does not exist");
  EXPECT_NE(Found(facts, "MC108").at(0).found.find("libfmt.12"), std::string::npos);
}

TEST(CheckTest, FindsInterfacesThatAreOffAndTheFirewall) {
  Facts facts = Well();
  facts.system.interfaces[0].up = false;
  EXPECT_EQ(Found(facts, "MC202").size(), 1u);
  facts.system.firewall_on = true;
  EXPECT_TRUE(Found(facts, "MC204").empty());  // It does no harm.
  OwnLink(facts).set_state(v1::LinkState::connecting);
  EXPECT_EQ(Found(facts, "MC204").size(), 1u);
}

// Only the daemon's reason counts; the detail may be any text.
TEST(CheckTest, ReportsWhyANeighbourCannotBeReached) {
  using Why = v1::LinkReason;
  const std::pair<Why::Value, const char*> cases[] = {
      {Why::no_route_to_host, "MC205"}, {Why::connection_refused, "MC206"},
      {Why::refused, "MC206"},          {Why::no_answer, "MC207"},
      {Why::unknown_host, "MC208"},     {Why::wrong_key, "MC209"},
      {Why::wrong_cluster, "MC209"},    {Why::not_proved, "MC209"},
      {Why::own_node, "MC302"},         {Why::version_too_far, "MC502"},
      {Why::not_a_daemon, "MC502"},     {Why::interface_down, "MC502"},
      {Why::peer_stopped, "MC502"},     {Why::none, "MC502"}};
  for (const auto& [reason, code] : cases) {
    Facts facts = Well();
    OwnLink(facts).set_state(v1::LinkState::connecting);
    OwnLink(facts).set_reason(reason);
    OwnLink(facts).set_detail("in words that say nothing");
    EXPECT_EQ(Found(facts, code).size(), 1u) << Why::Value_Name(reason);
  }
  Facts facts = Well();
  OwnLink(facts).set_state(v1::LinkState::connecting);
  OwnLink(facts).set_reason(Why::version_too_far);
  EXPECT_EQ(Found(facts, "MC502").at(0).remedy,
            "upgrade the older of the two: a release links with the one before it");
}

// Why: a node called "monkey" got the advice to rotate the cluster's key, and a circuit that had
// timed out was reported as a cable, a firewall, or, through "mlx-cluster-2", as another cluster.
TEST(CheckTest, DoesNotMistakeANodesNameForAReason) {
  for (const char* const name : {"monkey", "mlx-cluster-2", "refuse", "no answer"}) {
    Facts facts = Well();
    OwnLink(facts).set_peer(name);
    OwnLink(facts).set_state(v1::LinkState::grace);
    OwnLink(facts).set_reason(v1::LinkReason::reset);
    OwnLink(facts).set_detail(std::string("rail down: ") + name + " closed the connection");
    EXPECT_EQ(Found(facts, "MC502").size(), 1u) << name;
    OwnLink(facts).set_reason(v1::LinkReason::way_ended);
    OwnLink(facts).set_detail(std::string("rail down: the way through ") + name +
                              " has ended: no answer in time");
    EXPECT_EQ(Found(facts, "MC502").size(), 1u) << name;
    EXPECT_TRUE(Found(facts, "MC502").at(0).remedy.starts_with("the two reached each other"));
    for (const char* const code : {"MC205", "MC206", "MC207", "MC208", "MC209"}) {
      EXPECT_TRUE(Found(facts, code).empty()) << name << " " << code;
    }
  }
}

TEST(CheckTest, FindsCablesThatCarryNothingOrLeadBack) {
  Facts facts = Well();
  ThunderboltPort port;
  port.receptacle = "1";
  port.peer = "b";
  port.own_domain = "A";
  port.peer_domain = "B";
  port.interface = "en5";
  port.gigabits_per_second = 40;
  facts.system.ports = {port};
  EXPECT_EQ(Found(facts, "MC301").size(), 1u);
  facts.system.ports[0].interface = "en2";
  EXPECT_TRUE(Found(facts, "MC301").empty());
  facts.system.ports[0].peer_domain = "A";
  EXPECT_EQ(Found(facts, "MC302").size(), 1u);
  facts.system.ports[0].peer_domain = "B";
  facts.system.ports.push_back(port);
  facts.system.ports[1].gigabits_per_second = 80;
  EXPECT_EQ(Found(facts, "MC304").size(), 1u);
}

v1::DiscoveryInterface& LookOn(Facts& facts, int node, const std::string& name) {
  v1::DiscoveryStatus& discovery = *facts.cluster.status.mutable_nodes(node)->mutable_discovery();
  discovery.set_hellos_sent(9);
  v1::DiscoveryInterface& interface = *discovery.add_interfaces();
  interface.set_name(name);
  interface.set_used(true);
  return interface;
}

TEST(CheckTest, FindsFaultsOfAnInterfaceUsedForDiscovery) {
  using Why = v1::DiscoveryReason;
  const std::pair<Why::Value, const char*> cases[] = {{Why::own_hellos, "MC302"},
                                                      {Why::same_id, "MC213"},
                                                      {Why::not_sent, "MC210"},
                                                      {Why::no_route_to_host, "MC210"}};
  for (const auto& [reason, code] : cases) {
    Facts facts = Well();
    v1::DiscoveryInterface& interface = LookOn(facts, 1, "en3");
    interface.set_detail("in words that say nothing");
    interface.set_reason(reason);
    ASSERT_EQ(Found(facts, code).size(), 1u) << Why::Value_Name(reason);
    EXPECT_EQ(Found(facts, code)[0].object, "node b, interface en3");
    EXPECT_EQ(Found(facts, code)[0].found, "in words that say nothing");
  }
  Facts privacy = Well();
  v1::DiscoveryInterface& kept = LookOn(privacy, 0, "en3");
  kept.set_detail("cannot send on en3: No route to host");
  kept.set_reason(Why::no_route_to_host);
  EXPECT_NE(Found(privacy, "MC210").at(0).remedy.find("Local Network"), std::string::npos);
}

TEST(CheckTest, FindsANeighbourThatIsHeardButNotLinked) {
  Facts facts = Well();
  LookOn(facts, 0, "en2");
  v1::DiscoveredNeighbour& heard =
      *facts.cluster.status.mutable_nodes(0)->mutable_discovery()->add_neighbours();
  Add(R"(id: "d1" name: "d" local_interface: "en2" address: "[fe80::2%en2]:7470"
         state: "heard")",
      heard);
  EXPECT_EQ(Found(facts, "MC309").at(0).object, "node a, interface en2");
  EXPECT_TRUE(Found(facts, "MC211").empty());
  heard.set_state("lost");  // It has gone, so no link is expected.
  EXPECT_TRUE(Found(facts, "MC309").empty());
  heard.set_state("heard");
  OwnLink(facts).set_peer("[fe80::2%en2]:7470");  // It is being dialed, which is reported.
  EXPECT_TRUE(Found(facts, "MC309").empty());
  OwnLink(facts).set_peer_id("d1");
  OwnLink(facts).set_peer("d");
  EXPECT_TRUE(Found(facts, "MC309").empty());
}

TEST(CheckTest, ReportsWhyNoNeighbourIsFound) {
  Facts facts = Well();
  facts.cluster.status.mutable_nodes(0)->clear_links();
  v1::DiscoveryInterface& en2 = LookOn(facts, 0, "en2");
  EXPECT_EQ(Found(facts, "MC214").size(), 1u);
  facts.system.firewall_on = true;
  EXPECT_EQ(Found(facts, "MC204").size(), 1u);
  facts.cluster.status.mutable_nodes(0)->mutable_discovery()->set_foreign(2);
  EXPECT_TRUE(Found(facts, "MC211").empty()) << "they are no longer heard";
  en2.set_foreign_ms_ago(900);
  EXPECT_EQ(Found(facts, "MC211").size(), 1u);
  EXPECT_TRUE(Found(facts, "MC214").empty());
  en2.set_used(false);
  en2.set_detail("down, or nothing is plugged in");
  EXPECT_EQ(Found(facts, "MC212").at(0).found, "en2: down, or nothing is plugged in");
  EXPECT_TRUE(Found(facts, "MC211").empty());
  en2.set_reason(v1::DiscoveryReason::no_link_local);
  EXPECT_EQ(Found(facts, "MC212").at(0).found, "IPv6 is off on en2");
  EXPECT_THAT(HealthOf(facts.cluster.status).text, testing::HasSubstr("IPv6 is off on en2"));
}

// Why: in a line of many nodes, each pair would report one cut cable. A circuit over it ends
// because a node on it reports the cut, or because it gets silent: both are consequences.
TEST(CheckTest, ReportsACutCableOnce) {
  for (const auto reason : {v1::LinkReason::way_lost_link, v1::LinkReason::way_ended}) {
    Facts facts = Well();
    OwnLink(facts).set_state(v1::LinkState::grace);
    OwnLink(facts).set_reason(reason);
    OwnLink(facts).set_detail("rail down: the way through c has ended: no answer in time");
    EXPECT_EQ(Found(facts, "MC502").size(), 1u);  // No other node reports it.
    v1::NodeStatus& c = *facts.cluster.status.add_nodes();
    c.set_name("c");
    c.set_answered(true);
    v1::LinkStatus& cut = *c.add_links();
    Add(R"(peer: "b" state: grace reason: interface_down
           detail: "rail down: interface en7 is down; waiting for it to come back")",
        cut);
    ASSERT_EQ(Found(facts, "MC502").size(), 1u);
    EXPECT_EQ(Found(facts, "MC502")[0].object, "link c to b");
    cut.set_reason(v1::LinkReason::no_answer);
    EXPECT_TRUE(Found(facts, "MC502").empty()) << "whatever the cause is";
    EXPECT_EQ(Found(facts, "MC207").at(0).object, "link c to b");
  }
}

// Why: when both sides report a link, one may know the cause, and the other only that its circuit
// has ended.
TEST(CheckTest, ReportsTheCauseWhicheverSideKnowsIt) {
  Facts facts = Well();
  v1::LinkStatus& theirs = *facts.cluster.status.mutable_nodes(1)->mutable_links(0);
  for (v1::LinkStatus* const link : {&OwnLink(facts), &theirs}) {
    link->set_state(v1::LinkState::grace);
    link->set_reason(v1::LinkReason::way_ended);
  }
  theirs.set_reason(v1::LinkReason::connection_refused);
  EXPECT_EQ(Found(facts, "MC206").size(), 1u);
  EXPECT_TRUE(Found(facts, "MC502").empty());
}

TEST(CheckTest, FindsAChangeOfTheKeyThatIsNotFinished) {
  Facts facts = Well();
  facts.cluster.status.mutable_nodes(0)->add_cluster_keys("22");
  facts.cluster.status.mutable_nodes(1)->add_cluster_keys("22");
  EXPECT_TRUE(Found(facts, "MC512").empty());
  facts.cluster.status.mutable_nodes(1)->set_cluster_keys(0, "11");
  EXPECT_EQ(Found(facts, "MC512").at(0).found, "key 11 on b; key 22 on a");
}

TEST(CheckTest, FindsAPulledCableAndAnMtuThatDiffersOnce) {
  Facts facts = Well();
  facts.cluster.checkups.mutable_nodes(1)->mutable_interfaces(0)->set_mtu(9000);
  ASSERT_EQ(Found(facts, "MC505").size(), 1u);  // Both ends report it.
  EXPECT_EQ(Found(facts, "MC505")[0].found, "MTU 1500 and 9000");
  OwnLink(facts).mutable_rails(0)->set_state(v1::RailState::down);
  EXPECT_EQ(Found(facts, "MC305").size(), 1u);
}

TEST(CheckTest, FindsOneSidedCables) {
  Facts facts = Well();
  OwnLink(facts).mutable_rails(0)->set_delivery_bytes_per_second_best(1e9);
  EXPECT_EQ(Found(facts, "MC507").size(), 1u);
  OwnLink(facts).mutable_rails(0)->set_delivery_bytes_per_second_best(0);
  OwnLink(facts).mutable_rails(0)->clear_delivery_busy_bytes();
  EXPECT_TRUE(Found(facts, "MC507").empty());  // Not measured is not slow.
}

// Why: of a cable that had little to carry one way, the rate there was that of the little.
TEST(CheckTest, FindsASlowDirectionOnlyIfItWasFull) {
  Facts facts = Well();
  v1::RailStatus& rail = *OwnLink(facts).mutable_rails(0);
  rail.set_delivery_bytes_per_second_best(1e9);
  rail.set_delivery_busy_bytes((64 << 20) - 1);
  EXPECT_TRUE(Found(facts, "MC507").empty());
  rail.set_delivery_busy_bytes(64 << 20);
  EXPECT_EQ(Found(facts, "MC507").size(), 1u);
}

// A node's report of its end of a cable.
void AddRail(Facts& facts, const std::string& node, const std::string& peer, double best) {
  v1::NodeStatus* status = nullptr;
  for (v1::NodeStatus& one : *facts.cluster.status.mutable_nodes()) {
    if (one.name() == node) status = &one;
  }
  if (status == nullptr) status = facts.cluster.status.add_nodes();
  status->set_name(node);
  v1::LinkStatus& link = *status->add_links();
  link.set_peer(peer);
  link.set_state(v1::LinkState::up);
  v1::RailStatus& rail = *link.add_rails();
  Add(R"(transport: tcp state: up local_interface: "eth0" remote_interface: "eth0")", rail);
  rail.set_delivery_bytes_per_second_best(best);
  rail.set_delivery_busy_bytes(64 << 20);
}

// Between two of nodes a, b, d and e, by their ids.
void AddCable(Facts& facts, int from, int to, double best) {
  const auto name = [](int id) { return std::string(1, "abde"[id - 1]); };
  v1::TopologyCable& cable = *facts.cluster.topology.add_cables();
  cable.set_from_node(std::to_string(from));
  cable.set_to_node(std::to_string(to));
  Add(R"(from_interface: "eth0" to_interface: "eth0" state: up)", cable);
  cable.set_bytes_per_second_best(best);
  AddRail(facts, name(from), name(to), best);
  AddRail(facts, name(to), name(from), best * 1.1);
}

v1::RailStatus& RailOf(Facts& facts, const std::string& node, const std::string& peer) {
  for (v1::NodeStatus& one : *facts.cluster.status.mutable_nodes()) {
    for (v1::LinkStatus& link : *one.mutable_links()) {
      if (one.name() == node && link.peer() == peer) return *link.mutable_rails(0);
    }
  }
  ADD_FAILURE() << "no link " << node << " to " << peer;
  return *OwnLink(facts).mutable_rails(0);
}

void AddNode(Facts& facts, const char* id, const char* name) {
  facts.cluster.topology.add_ring(id);
  v1::TopologyNode& node = *facts.cluster.topology.add_nodes();
  node.set_id(id);
  node.set_name(name);
  node.set_state("up");
}

// Three nodes in a ring of Thunderbolt cables.
Facts Ring() {
  Facts facts = Well();
  facts.cluster.topology.set_shape("ring");
  facts.cluster.topology.set_ring_closed(true);
  AddNode(facts, "3", "d");
  AddCable(facts, 2, 3, 3e9);
  AddCable(facts, 1, 3, 3e9);
  return facts;
}

// Why: it reported every Ethernet cable beside a Thunderbolt one, and cables across the ring, which
// no ring waits for.
TEST(CheckTest, FindsASlowCableOnlyIfTheRingUsesIt) {
  Facts facts = Ring();
  EXPECT_TRUE(Found(facts, "MC506").empty());
  AddCable(facts, 1, 2, 1.2e8);  // Beside a fast one.
  EXPECT_TRUE(Found(facts, "MC506").empty());
  AddNode(facts, "4", "e");  // Between 3 and 1: so their cable is no longer in the ring.
  AddCable(facts, 3, 4, 3e9);
  AddCable(facts, 1, 4, 3e9);
  RailOf(facts, "a", "d").set_delivery_bytes_per_second_best(1.2e8);
  EXPECT_TRUE(Found(facts, "MC506").empty());
  RailOf(facts, "b", "d").set_delivery_bytes_per_second_best(1.2e8);
  ASSERT_EQ(Found(facts, "MC506").size(), 1u);
  EXPECT_EQ(Found(facts, "MC506")[0].object, "cable b eth0 - eth0 d");
  EXPECT_EQ(Found(facts, "MC506")[0].found, "has carried 120 MB/s at best");
}

// Why: on a healthy cluster a link that had carried a little was called slow beside one that had
// been full.
TEST(CheckTest, FindsASlowCableOnlyIfItWasFull) {
  Facts facts = Ring();
  RailOf(facts, "b", "d").set_delivery_bytes_per_second_best(1.2e8);
  RailOf(facts, "d", "b").set_delivery_bytes_per_second_best(1.1e8);
  EXPECT_EQ(Found(facts, "MC506").size(), 1u);
  RailOf(facts, "d", "b").set_delivery_busy_bytes((64 << 20) - 1);
  EXPECT_EQ(Found(facts, "MC506").size(), 1u) << "one direction is enough";
  EXPECT_EQ(Found(facts, "MC506")[0].found, "has carried 120 MB/s at best");
  RailOf(facts, "b", "d").set_delivery_busy_bytes((64 << 20) - 1);
  EXPECT_TRUE(Found(facts, "MC506").empty());
}

TEST(CheckTest, NamesTheCableOnWhichBytesWereChanged) {
  Facts facts = Well();
  v1::LinkStatus& link = *facts.cluster.status.mutable_nodes(0)->mutable_links(0);
  EXPECT_TRUE(Found(facts, "MC514").empty());
  link.set_changed_frames(2);
  link.set_changed_on("en2 - en3");
  const Finding found = Found(facts, "MC514").at(0);
  EXPECT_TRUE(found.found.starts_with("2 times, last on en2 - en3")) << found.found;
  EXPECT_TRUE(found.remedy.starts_with("replace the cable")) << found.remedy;
  Add(R"(state: grace reason: bytes_changed detail: "rail down")", link);
  EXPECT_EQ(Found(facts, "MC514").size(), 2u) << "also why it is down";
}

// Why: an MTU is to blame, not the daemon of the node that cannot be reached.
TEST(CheckTest, NamesTheMtuIfOnlySmallFramesPass) {
  Facts facts = Well();
  v1::LinkStatus& link = *facts.cluster.status.mutable_nodes(0)->mutable_links(0);
  link.set_large_lost(true);
  EXPECT_NE(Found(facts, "MC515").at(0).remedy.find("MTU"), std::string::npos);
  link.set_large_lost_on("en2 - en3");
  EXPECT_EQ(Found(facts, "MC515").at(0).found,
            "small frames pass, large ones do not, on en2 - en3");
  facts.cluster.status.mutable_nodes(1)->set_answered(false);
  EXPECT_TRUE(Found(facts, "MC501").empty());
  link.set_state(v1::LinkState::lost);
  link.set_reason(v1::LinkReason::large_lost);
  EXPECT_EQ(Found(facts, "MC515").size(), 2u) << "also why it is down";
  EXPECT_TRUE(Found(facts, "MC501").empty());
  link.set_large_lost(false);
  link.set_reason(v1::LinkReason::none);
  EXPECT_EQ(Found(facts, "MC501").size(), 1u);
}

TEST(CheckTest, FindsNodesThatDiffer) {
  Facts facts = Well();
  facts.cluster.status.mutable_nodes(1)->set_version("2");
  EXPECT_EQ(Found(facts, "MC503").at(0).found, "1 on a; 2 on b");
  v1::NodeCheckup& b = *facts.cluster.checkups.mutable_nodes(1);
  b.set_clock_offset_ns(-5'000'000'000);
  EXPECT_EQ(Found(facts, "MC504").at(0).found, "its clock is 5.0 s behind");
  b.set_clock_uncertainty_ns(5'000'000'000);
  EXPECT_TRUE(Found(facts, "MC504").empty());  // It may be the round trip that took so long.
  b.set_open_files_max(256);
  EXPECT_EQ(Found(facts, "MC402").size(), 1u);
  facts.own_version = "2";
  EXPECT_EQ(Found(facts, "MC105").size(), 1u);
  facts.cluster.status.mutable_nodes(1)->set_answered(false);
  EXPECT_EQ(Found(facts, "MC501").size(), 1u);
}

TEST(CheckTest, ReportsWhatADrainingDaemonWaitsFor) {
  Facts facts = Well();
  v1::NodeStatus& b = *facts.cluster.status.mutable_nodes(1);
  b.set_state("draining");
  b.mutable_drain()->set_jobs(2);
  b.mutable_drain()->set_left_ms(2100);
  ASSERT_EQ(Found(facts, "MC516").size(), 1u);
  EXPECT_EQ(Found(facts, "MC516")[0].object, "node b");
  EXPECT_EQ(Found(facts, "MC516")[0].found, "draining, 2 jobs, 3 s left");
}

TEST(CheckTest, SuggestsTheCableThatClosesARing) {
  Facts facts = Well();
  v1::TopologyReply& topology = facts.cluster.topology;
  topology.set_shape("line");
  topology.add_ring("3");
  Add(R"(id: "3" name: "d" state: "up")", *topology.add_nodes());
  EXPECT_EQ(Found(facts, "MC508").at(0).remedy, "a cable between d and a would close it");
  EXPECT_TRUE(Found(facts, "MC303").empty());
  const v1::TopologyCable beside = topology.cables(0);
  *topology.add_cables() = beside;
  EXPECT_EQ(Found(facts, "MC303").at(0).remedy, "move one of them between d and a");
}

TEST(CheckTest, FindsSettingsOfTheSystem) {
  Facts facts = Well();
  facts.system.sleeps = true;
  facts.system.clock_synchronised = false;
  facts.system.unknown = {"pmset did not end within 20 s"};
  for (const char* code : {"MC401", "MC403", "MC404"}) {
    EXPECT_EQ(Found(facts, code).size(), 1u) << code;
  }
  // A single node has no other log to compare.
  facts.cluster.status.mutable_nodes()->DeleteSubrange(1, facts.cluster.status.nodes_size() - 1);
  EXPECT_TRUE(Found(facts, "MC403").empty());
  EXPECT_EQ(Found(facts, "MC410").size(), 1u);
}

// Why: copies cost bandwidth unnoticed, and if MLX reads wrong bytes, sums are wrong.
TEST(CheckTest, ReportsWhereResultsOfThePythonPackageAre) {
  const std::pair<ResultsKind, const char*> cases[] = {{ResultsKind::kShared, "MC409"},
                                                       {ResultsKind::kCopied, "MC405"},
                                                       {ResultsKind::kCopiedAsAsked, "MC406"},
                                                       {ResultsKind::kWrong, "MC407"},
                                                       {ResultsKind::kTestFailed, "MC408"}};
  for (const auto& [results, code] : cases) {
    Facts facts = Well();
    facts.system.python = {"/venv/bin/python3", results, "why"};
    const Finding finding = Found(facts, code).at(0);
    EXPECT_EQ(finding.object, "Python package of /venv/bin/python3");
    const bool well = results == ResultsKind::kShared;
    EXPECT_EQ(finding.found, well ? "results are in the daemon's memory" : "why");
    EXPECT_EQ(finding.remedy.empty(), well);
  }
  Facts metal = Well();
  metal.system.python = {"/p", ResultsKind::kCopied, "why"};
  const std::string remedy = Found(metal, "MC405").at(0).remedy;
  for (const char* part : {"copied once more", "virtual machine", "bugreport"})
    EXPECT_NE(remedy.find(part), std::string::npos) << part;
  metal.system.python.results = ResultsKind::kTestFailed;
  EXPECT_NE(Found(metal, "MC408").at(0).remedy.find("/p -m mlxcomm.check_results"),
            std::string::npos);
}

// Why: the connection beside a queue pair is hardly ever busy, so its rate says nothing about the
// cable; and one that is down is reported, whatever the queue pair's state.
TEST(CheckTest, JudgesACableByTheRailThatCarriesIt) {
  Facts facts = Well();
  const auto add = [&facts](int node, const char* local, const char* remote, double best) {
    v1::RailStatus rail;
    rail.set_transport(v1::Transport::rdma);
    rail.set_state(v1::RailState::up);
    rail.set_local_interface(local);
    rail.set_remote_interface(remote);
    rail.set_delivery_bytes_per_second_best(best);
    rail.set_delivery_busy_bytes(64 << 20);
    v1::LinkStatus& link = *facts.cluster.status.mutable_nodes(node)->mutable_links(0);
    *link.add_rails() = std::move(rail);
    if (node == 0) link.mutable_rails()->SwapElements(0, 1);
  };
  add(0, "en2", "en3", 6e9);
  add(1, "en3", "en2", 5e9);
  auto& theirs = *facts.cluster.status.mutable_nodes(1)->mutable_links(0);
  theirs.mutable_rails(0)->set_delivery_bytes_per_second_best(1e6);
  EXPECT_TRUE(Found(facts, "MC507").empty())
      << "the connection has carried next to nothing one way";
  theirs.mutable_rails(1)->set_delivery_bytes_per_second_best(1e9);
  EXPECT_EQ(Found(facts, "MC507").size(), 1u);
  OwnLink(facts).mutable_rails(1)->set_state(v1::RailState::down);
  EXPECT_EQ(Found(facts, "MC305").size(), 1u);
}

}  // namespace
}  // namespace mlxcomm::ctl::check_test
