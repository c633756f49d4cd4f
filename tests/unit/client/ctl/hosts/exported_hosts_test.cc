// MLX's host file for rings, lines, meshes and switches, and for nodes that lie.
#include "client/ctl/hosts/exported_hosts.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace mlxcomm::ctl::exported_hosts_test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Reports of a cluster of nodes n0, n1, ... Ids sort opposite to names, to detect sorting by id.
class FakeFabric {
 public:
  explicit FakeFabric(int count) {
    reported_.status.set_cluster("studio");
    for (int i = 0; i < count; ++i) {
      v1::NodeStatus& node = *reported_.status.add_nodes();
      node.set_name("n" + std::to_string(i));
      node.set_id(Id(i));
      node.set_state("up");
      node.set_answered(true);
      reported_.checkups.add_nodes()->set_name(node.name());
      reported_.topology.add_ring(node.id());
    }
  }

  static std::string Id(int node) { return std::string(30, '0') + std::to_string(99 - node); }

  v1::NodeStatus& node(int i) { return *reported_.status.mutable_nodes(i); }
  Fabric& reported() { return reported_; }

  // Between daemons with configured addresses: "10.A.B.1" at the first, ".2" at the second.
  FakeFabric& Cable(int a, int b, const std::string& network) {
    return Join(a, b, network + ".1:7470", network + ".2:41000");
  }
  // Between daemons that discovered each other.
  FakeFabric& LinkLocal(int a, int b) {
    return Join(a, b, "[fe80::1%" + End(b) + "]:7470", "[fe80::2%" + End(a) + "]:41000");
  }
  static std::string End(int to) { return "en" + std::to_string(5 + to); }

  FakeFabric& Join(int a, int b, const std::string& at_a, const std::string& at_b) {
    AddRail(a, b, at_a, at_b, End(b), End(a));
    AddRail(b, a, at_b, at_a, End(a), End(b));
    return *this;
  }
  v1::RailStatus& AddRail(int from, int to, const std::string& local, const std::string& remote,
                          const std::string& local_interface, const std::string& remote_interface) {
    v1::LinkStatus* link = nullptr;
    for (v1::LinkStatus& one : *node(from).mutable_links()) {
      if (one.peer_id() == Id(to)) link = &one;
    }
    if (link == nullptr) link = node(from).add_links();
    link->set_peer(node(to).name());
    link->set_peer_id(Id(to));
    link->set_state(v1::LinkState::up);
    v1::RailStatus& rail = *link->add_rails();
    rail.set_transport(v1::Transport::tcp);
    rail.set_state(v1::RailState::up);
    rail.set_local_address(local);
    rail.set_remote_address(remote);
    rail.set_local_interface(local_interface);
    rail.set_remote_interface(remote_interface);
    return rail;
  }
  FakeFabric& Address(int i, const std::string& interface, const std::string& address) {
    v1::InterfaceCheckup& reported = *reported_.checkups.mutable_nodes(i)->add_interfaces();
    reported.set_name(interface);
    reported.set_running(true);
    reported.add_addresses(address);
    return *this;
  }
  // Adds an RDMA device at each end of each cable.
  FakeFabric& Rdma() {
    for (v1::NodeStatus& one : *reported_.status.mutable_nodes()) {
      for (const v1::LinkStatus& link : one.links()) {
        for (const v1::RailStatus& rail : link.rails()) {
          v1::RdmaDevice& device = *one.mutable_rdma()->add_devices();
          device.set_name("rdma_" + rail.local_interface());
          device.set_active(true);
        }
      }
    }
    return *this;
  }
  // Puts the cable between the two through a switch.
  FakeFabric& Switch(int a, int b) {
    v1::TopologyCable& cable = *reported_.topology.add_cables();
    cable.set_from_node(Id(a));
    cable.set_from_interface("en0");
    cable.set_to_node(Id(b));
    cable.set_to_interface("en0");
    cable.set_switch_number(1);
    const std::string net = "192.168.7.";
    AddRail(a, b, net + std::to_string(a + 1) + ":7470", net + std::to_string(b + 1) + ":7470",
            "en0", "en0");
    return *this;
  }

 private:
  Fabric reported_;
};

ExportedHosts Exported(FakeFabric& fabric, const ExportWishes& wishes = {}) {
  ExportedHosts exported;
  const Failure failure = ExportHosts(fabric.reported(), wishes, exported);
  EXPECT_TRUE(failure.ok()) << failure.message;
  // `launch --hostfile` and `hosts import` accept every result, with the same meaning.
  Hostfile read;
  const Failure parsed = ParseHostfile("exported", HostfileJson(exported.file), read);
  EXPECT_TRUE(parsed.ok()) << parsed.message;
  EXPECT_EQ(HostfileJson(read), HostfileJson(exported.file));
  return exported;
}

std::string RefusedExport(FakeFabric& fabric, const ExportWishes& wishes = {}) {
  ExportedHosts exported;
  const Failure failure = ExportHosts(fabric.reported(), wishes, exported);
  EXPECT_EQ(failure.code, FailureCode::kInvalidArgument);
  return failure.message;
}

std::vector<std::string> ExportedNames(const ExportedHosts& exported) {
  std::vector<std::string> names;
  for (const HostEntry& host : exported.file.hosts) names.push_back(host.name);
  return names;
}

std::string Notes(const ExportedHosts& exported) {
  std::string all;
  for (const std::string& note : exported.notes) all += note + "\n";
  return all;
}

FakeFabric Ring4() {
  FakeFabric fabric(4);
  fabric.Cable(0, 2, "10.0.1").Cable(2, 1, "10.0.2").Cable(1, 3, "10.0.3").Cable(3, 0, "10.0.4");
  return fabric;
}

// MLX's ring has each rank connect to the addresses of the next one: the next one's ends of the
// cables between the two.
TEST(ExportedHostsTest, RingHasTheEndsOfCablesToTheHostBefore) {
  FakeFabric fabric = Ring4();
  const ExportedHosts exported = Exported(fabric);
  EXPECT_EQ(exported.file.backend, "ring");
  EXPECT_THAT(ExportedNames(exported), ElementsAre("n0", "n2", "n1", "n3"));
  EXPECT_TRUE(exported.neighbours_share_cables);
  EXPECT_THAT(exported.notes, IsEmpty());
  EXPECT_THAT(exported.file.hosts[0].ips, ElementsAre("10.0.4.2"));
  EXPECT_THAT(exported.file.hosts[1].ips, ElementsAre("10.0.1.2"));
  EXPECT_THAT(exported.file.hosts[2].ips, ElementsAre("10.0.2.2"));
  EXPECT_THAT(exported.file.hosts[3].ips, ElementsAre("10.0.3.2"));
  EXPECT_THAT(exported.file.hosts[0].rdma, IsEmpty());
}

TEST(ExportedHostsTest, OrderIsTheDaemonsIfItIsARing) {
  FakeFabric fabric = Ring4();
  fabric.reported().topology.clear_ring();
  for (const int node : {3, 1, 2, 0}) fabric.reported().topology.add_ring(FakeFabric::Id(node));
  EXPECT_THAT(ExportedNames(Exported(fabric)), ElementsAre("n3", "n1", "n2", "n0"));
}

// How: n1 and n3 have no common cable, so only some orders of the four nodes are rings.
TEST(ExportedHostsTest, FindsARingAmongSomeNodesAlthoughTheDaemonsOrderIsNotOne) {
  FakeFabric fabric(5);
  fabric.Cable(0, 1, "10.0.1").Cable(1, 2, "10.0.2").Cable(2, 3, "10.0.3").Cable(3, 4, "10.0.4");
  fabric.Cable(4, 0, "10.0.5").Cable(0, 2, "10.0.6").Cable(0, 3, "10.0.7");
  const ExportedHosts exported = Exported(fabric, {.nodes = {"n1", "n3", "n2", "n0"}});
  EXPECT_TRUE(exported.neighbours_share_cables) << Notes(exported);
  EXPECT_THAT(ExportedNames(exported), ElementsAre("n0", "n1", "n2", "n3"));
  fabric.reported().topology.clear_ring();
  for (const int node : {1, 3, 0, 2, 4}) fabric.reported().topology.add_ring(FakeFabric::Id(node));
  EXPECT_TRUE(Exported(fabric, {.nodes = {"n1", "n3", "n2", "n0"}}).neighbours_share_cables);
}

TEST(ExportedHostsTest, LineReportsNeighboursWithoutACommonCable) {
  FakeFabric fabric(3);
  fabric.Cable(0, 1, "10.0.1").Cable(1, 2, "10.0.2");
  for (int i = 0; i < 3; ++i) fabric.Address(i, "en0", "192.168.7." + std::to_string(i + 1));
  const ExportedHosts exported = Exported(fabric);
  EXPECT_FALSE(exported.neighbours_share_cables);
  EXPECT_THAT(Notes(exported), HasSubstr("without a common cable: n2 to n0;"));
  // n2 connects to n0: not by an end of the cable to n1, which it does not reach.
  EXPECT_THAT(exported.file.hosts[0].ips, ElementsAre("192.168.7.1"));
  EXPECT_THAT(exported.file.hosts[1].ips, ElementsAre("10.0.1.2"));
}

TEST(ExportedHostsTest, EachHostHasAsManyConnectionsAsTheFewestCables) {
  FakeFabric fabric = Ring4();
  fabric.AddRail(0, 2, "10.0.9.1:1", "10.0.9.2:2", "en20", "en21");
  for (const HostEntry& host : Exported(fabric).file.hosts) EXPECT_EQ(host.ips.size(), 1u);
  FakeFabric pair(2);
  pair.Cable(0, 1, "10.0.1").AddRail(0, 1, "10.0.9.1:1", "10.0.9.2:2", "en20", "en21");
  const ExportedHosts both = Exported(pair);
  EXPECT_THAT(both.file.hosts[0].ips, ElementsAre("10.0.9.1", "10.0.1.1"));
  EXPECT_THAT(both.file.hosts[1].ips, ElementsAre("10.0.9.2", "10.0.1.2"));
}

// Why: MLX divides its data evenly, so the slower cable would delay the faster one.
TEST(ExportedHostsTest, SlowCableIsNotUsedBesideAFastOne) {
  FakeFabric pair(2);
  pair.Cable(0, 1, "10.0.1").AddRail(0, 1, "10.0.9.1:1", "10.0.9.2:2", "en0", "en0");
  for (const auto& [interface, other, rate] :
       {std::tuple("en6", "en5", 3e9), std::tuple("en0", "en0", 1e8)}) {
    v1::TopologyCable& cable = *pair.reported().topology.add_cables();
    cable.set_from_node(FakeFabric::Id(0));
    cable.set_from_interface(interface);
    cable.set_to_node(FakeFabric::Id(1));
    cable.set_to_interface(other);
    cable.set_bytes_per_second_best(rate);
  }
  EXPECT_THAT(Exported(pair).file.hosts[0].ips, ElementsAre("10.0.1.1"));
}

TEST(ExportedHostsTest, DiscoveredCableHasItsInterfacesAddresses) {
  FakeFabric pair(2);
  pair.LinkLocal(0, 1);
  pair.Address(0, "en6", "192.168.0.1").Address(1, "en5", "192.168.0.2");
  pair.Address(0, "en0", "192.168.7.1").Address(1, "en0", "192.168.7.2");
  const ExportedHosts exported = Exported(pair);
  EXPECT_THAT(exported.file.hosts[0].ips, ElementsAre("192.168.0.1"));
  EXPECT_THAT(exported.file.hosts[1].ips, ElementsAre("192.168.0.2"));
  EXPECT_THAT(exported.notes, IsEmpty());
}

// On macOS the self-assigned addresses of all interfaces are in one network.
TEST(ExportedHostsTest, WithoutSuchAddressesTheRingUsesTheNetworkAndReportsIt) {
  FakeFabric pair(2);
  pair.LinkLocal(0, 1);
  pair.Address(0, "en6", "169.254.3.1").Address(1, "en5", "169.254.3.2");
  pair.Address(0, "docker0", "172.17.0.1").Address(1, "docker0", "172.17.0.1");
  pair.Address(0, "utun3", "100.64.0.7").Address(1, "utun3", "100.99.1.8");
  pair.Address(0, "en0", "192.168.7.1").Address(1, "en0", "192.168.7.2");
  const ExportedHosts exported = Exported(pair);
  EXPECT_THAT(exported.file.hosts[0].ips, ElementsAre("192.168.7.1"));
  EXPECT_THAT(exported.file.hosts[1].ips, ElementsAre("192.168.7.2"));
  EXPECT_TRUE(exported.neighbours_share_cables);
  EXPECT_THAT(Notes(exported),
              HasSubstr("the cable from n0 to n1 does not have IPv4 addresses at both ends"));
  EXPECT_THAT(Notes(exported), HasSubstr("192.168.7.2 (en0)"));
}

TEST(ExportedHostsTest, ReportsThatNoAddressWasFound) {
  FakeFabric pair(2);
  pair.LinkLocal(0, 1);
  const ExportedHosts exported = Exported(pair);
  EXPECT_THAT(exported.file.hosts[0].ips, IsEmpty());
  EXPECT_THAT(Notes(exported), HasSubstr("found no IPv4 address of n0, n1"));
}

TEST(ExportedHostsTest, OnASwitchEachHostHasItsAddressThere) {
  FakeFabric fabric(3);
  fabric.Switch(0, 1).Switch(1, 2).Switch(0, 2);
  const ExportedHosts exported = Exported(fabric);
  EXPECT_TRUE(exported.neighbours_share_cables);
  EXPECT_THAT(exported.file.hosts[0].ips, ElementsAre("192.168.7.1"));
  EXPECT_THAT(exported.file.hosts[2].ips, ElementsAre("192.168.7.3"));
}

TEST(ExportedHostsTest, CablesArePreferredToASwitch) {
  FakeFabric pair(2);
  pair.Switch(0, 1).Cable(0, 1, "10.0.1");
  EXPECT_THAT(Exported(pair).file.hosts[1].ips, ElementsAre("10.0.1.2"));
}

TEST(ExportedHostsTest, OneNodeIsOneHost) {
  FakeFabric fabric(1);
  fabric.node(0).set_name("localhost");
  const ExportedHosts exported = Exported(fabric);
  EXPECT_THAT(ExportedNames(exported), ElementsAre("localhost"));
  EXPECT_EQ(exported.file.backend, "ring");
}

TEST(ExportedHostsTest, MeshWithRdmaIsForJaccl) {
  FakeFabric mesh(3);
  mesh.LinkLocal(0, 1).LinkLocal(1, 2).LinkLocal(0, 2).Rdma();
  for (int i = 0; i < 3; ++i) mesh.Address(i, "en0", "192.168.7." + std::to_string(i + 1));
  const ExportedHosts exported = Exported(mesh);
  EXPECT_EQ(exported.file.backend, "jaccl");
  EXPECT_THAT(exported.file.hosts[0].rdma,
              ElementsAre(IsEmpty(), ElementsAre("rdma_en6"), ElementsAre("rdma_en7")));
  EXPECT_THAT(exported.file.hosts[2].rdma,
              ElementsAre(ElementsAre("rdma_en5"), ElementsAre("rdma_en6"), IsEmpty()));
  // Where all ranks connect: not the end of a cable, which the third host does not reach.
  EXPECT_THAT(exported.file.hosts[0].ips, ElementsAre("192.168.7.1"));
  EXPECT_THAT(exported.notes, IsEmpty());
}

TEST(ExportedHostsTest, RingWithRdmaIsForJacclsRing) {
  FakeFabric ring = Ring4();
  ring.Rdma();
  const ExportedHosts exported = Exported(ring);
  EXPECT_EQ(exported.file.backend, "jaccl-ring");
  EXPECT_THAT(exported.file.hosts[0].rdma,
              ElementsAre(IsEmpty(), ElementsAre("rdma_en7"), IsEmpty(), ElementsAre("rdma_en8")));
  EXPECT_THAT(Notes(exported), HasSubstr("found no IPv4 address by which all others reach n0"));
  EXPECT_THAT(Notes(exported), HasSubstr("of the first host, to which mlx.launch connects"));
  const ExportedHosts plain = Exported(ring, {.backend = "ring"});
  EXPECT_EQ(plain.file.hosts[0].ips.size(), 1u);
  EXPECT_THAT(plain.file.hosts[0].rdma, IsEmpty());
  EXPECT_THAT(Notes(plain), HasSubstr("RDMA devices are left out"));
  EXPECT_THAT(RefusedExport(ring, {.backend = "jaccl"}),
              HasSubstr("no cable with an RDMA device at both ends from n0 to n1, n2 to n3"));
}

TEST(ExportedHostsTest, OneInactiveDeviceLeavesOutTheMatrix) {
  FakeFabric mesh(3);
  mesh.Cable(0, 1, "10.0.1").Cable(1, 2, "10.0.2").Cable(0, 2, "10.0.3").Rdma();
  mesh.node(2).mutable_rdma()->mutable_devices(0)->set_active(false);
  const ExportedHosts exported = Exported(mesh);
  EXPECT_EQ(exported.file.backend, "ring");
  for (const HostEntry& host : exported.file.hosts) EXPECT_THAT(host.rdma, IsEmpty());
  EXPECT_THAT(Notes(exported), HasSubstr("there are none from n1 to n2"));
}

TEST(ExportedHostsTest, DeviceOfARailIsPreferredToOneByName) {
  FakeFabric pair(2);
  pair.Cable(0, 1, "10.0.1").Rdma();
  v1::RailStatus& rail = pair.AddRail(0, 1, "mlx5_0", "", FakeFabric::End(1), FakeFabric::End(0));
  rail.set_transport(v1::Transport::rdma);
  rail.mutable_rdma()->set_device("mlx5_0");
  v1::RdmaDevice& device = *pair.node(0).mutable_rdma()->add_devices();
  device.set_name("mlx5_0");
  device.set_active(true);
  EXPECT_THAT(Exported(pair).file.hosts[0].rdma, ElementsAre(IsEmpty(), ElementsAre("mlx5_0")));
}

TEST(ExportedHostsTest, SeveralDevicesOnlyIfEachPairHasAsMany) {
  FakeFabric mesh(3);
  mesh.Cable(0, 1, "10.0.1").Cable(1, 2, "10.0.2").Cable(0, 2, "10.0.3");
  mesh.AddRail(0, 1, "10.0.9.1:1", "10.0.9.2:2", "en20", "en21");
  mesh.AddRail(1, 0, "10.0.9.2:2", "10.0.9.1:1", "en21", "en20");
  mesh.Rdma();
  EXPECT_EQ(Exported(mesh).file.hosts[0].rdma[1].size(), 1u);
  EXPECT_EQ(Exported(mesh, {.nodes = {"n0", "n1"}}).file.hosts[0].rdma[1].size(), 2u);
}

TEST(ExportedHostsTest, NodesThatAreNotUpAreLeftOutOrRefused) {
  FakeFabric fabric = Ring4();
  fabric.node(1).set_state("lost");
  const ExportedHosts exported = Exported(fabric);
  EXPECT_THAT(ExportedNames(exported), ElementsAre("n0", "n2", "n3"));
  EXPECT_THAT(Notes(exported), HasSubstr("not up are left out: n1 (lost)"));
  EXPECT_THAT(RefusedExport(fabric, {.nodes = {"n0", "n1"}}), HasSubstr("node n1 is lost"));
  EXPECT_THAT(RefusedExport(fabric, {.nodes = {"n9"}}), HasSubstr("cluster studio has no node n9"));
  EXPECT_THAT(RefusedExport(fabric, {.nodes = {"n0", FakeFabric::Id(0)}}),
              HasSubstr("listed twice"));
}

TEST(ExportedHostsTest, KeepsTheGivenOrderWithoutCommonCables) {
  FakeFabric fabric = Ring4();
  const ExportedHosts exported =
      Exported(fabric, {.nodes = {"n3", "n2", "n0", "n1"}, .keep_order = true});
  EXPECT_THAT(ExportedNames(exported), ElementsAre("n3", "n2", "n0", "n1"));
  EXPECT_FALSE(exported.neighbours_share_cables);
  EXPECT_THAT(Notes(exported), HasSubstr("n3 to n2, n0 to n1 (another order"));
}

TEST(ExportedHostsTest, UsesTheGivenSshNames) {
  FakeFabric pair(2);
  pair.Cable(0, 1, "10.0.1");
  const ExportedHosts exported =
      Exported(pair, {.ssh_names = {{"n0", "ada@mac-1.local"}, {FakeFabric::Id(1), "127.0.0.1"}}});
  EXPECT_THAT(ExportedNames(exported), ElementsAre("ada@mac-1.local", "127.0.0.1"));
  EXPECT_THAT(exported.nodes, ElementsAre("n0", "n1"));
  for (const char* const host : {"-oProxyCommand=x", "a b", "a;id"}) {
    EXPECT_THAT(RefusedExport(pair, {.ssh_names = {{"n0", host}}}),
                HasSubstr("expected NODE=HOST"));
  }
  EXPECT_THAT(RefusedExport(pair, {.ssh_names = {{"n7", "a"}}}), HasSubstr("--ssh-name: cluster"));
  EXPECT_THAT(RefusedExport(pair, {.ssh_names = {{"n0", "n1"}}}),
              HasSubstr("two nodes have the host name \"n1\""));
}

// Why: ssh gets the file's names, and may pass them to a shell; node names are untrusted.
TEST(ExportedHostsTest, RefusesInvalidHostNamesWithTheNodesId) {
  for (const char* const name :
       {"-oProxyCommand=touch x", "mac\x1b[2J", "a b", "$(id)", "root@elsewhere", "localhost",
        "127.0.0.1", "::1", "", "a/b", "a\nb"}) {
    FakeFabric pair(2);
    pair.Cable(0, 1, "10.0.1");
    pair.node(1).set_name(name);
    const std::string reported = RefusedExport(pair);
    EXPECT_THAT(reported, HasSubstr("--ssh-name " + FakeFabric::Id(1) + "=HOST")) << name;
    EXPECT_EQ(reported.find_first_of("\x1b\n"), std::string::npos);
    EXPECT_THAT(ExportedNames(Exported(pair, {.ssh_names = {{FakeFabric::Id(1), "mac-2"}}})),
                Contains("mac-2"));
    EXPECT_THAT(ExportedNames(Exported(pair, {.nodes = {"n0"}})), ElementsAre("n0"));
  }
}

TEST(ExportedHostsTest, DistinguishesTwoNodesOfOneNameById) {
  FakeFabric pair(2);
  pair.Cable(0, 1, "10.0.1");
  pair.node(1).set_name("n0");
  EXPECT_THAT(RefusedExport(pair), HasSubstr("two nodes have the host name \"n0\""));
  EXPECT_THAT(RefusedExport(pair, {.nodes = {"n0"}}), HasSubstr("two nodes are named n0"));
  EXPECT_THAT(ExportedNames(Exported(pair, {.ssh_names = {{FakeFabric::Id(1), "n1"}}})),
              ElementsAre("n0", "n1"));
}

TEST(ExportedHostsTest, IgnoresInvalidAddressesAndDevices) {
  FakeFabric pair(2);
  pair.Join(0, 1, "10.0.0.1$(id):1", "0.0.0.0:2");
  pair.Address(0, "en6", "; rm -rf /").Address(1, "en5", "10.0.0.2\n10.0.0.3");
  for (const char* const name : {"-x", "rdma en5", "$(id)", "a\x1b"}) {
    v1::RailStatus& rail = pair.AddRail(0, 1, name, "", FakeFabric::End(1), FakeFabric::End(0));
    rail.set_transport(v1::Transport::rdma);
    rail.mutable_rdma()->set_device(name);
    v1::RdmaDevice& device = *pair.node(0).mutable_rdma()->add_devices();
    device.set_name(name);
    device.set_active(true);
  }
  const ExportedHosts exported = Exported(pair);
  for (const HostEntry& host : exported.file.hosts) {
    EXPECT_THAT(host.ips, IsEmpty());
    EXPECT_THAT(host.rdma, IsEmpty());
  }
}

TEST(ExportedHostsTest, JsonHasEachHostsNodeAndTheNotes) {
  FakeFabric fabric(2);
  fabric.node(1).set_name("n\xff");
  const ExportedHosts exported = Exported(fabric, {.ssh_names = {{FakeFabric::Id(1), "mac-2"}}});
  const nlohmann::json json = nlohmann::json::parse(ExportedJson(exported));
  EXPECT_EQ(json["nodes"], (nlohmann::json{"n0", "n\xef\xbf\xbd"}));
  EXPECT_EQ(json["neighbours_share_cables"], false);
  EXPECT_FALSE(json["notes"].empty());
  EXPECT_EQ(json["hosts"][1]["ssh"], "mac-2");
}

}  // namespace
}  // namespace mlxcomm::ctl::exported_hosts_test
