// Findings about this machine: its daemon, network, ports and settings.
#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/ctl/doctor/check.h"

namespace mlxcomm::ctl {
namespace {

bool IsBridgeActive(const Facts& facts, const std::string& bridge) {
  for (const InterfaceFacts& found : facts.system.interfaces) {
    if (found.name == bridge) return found.up;
  }
  return true;
}

// Those that cables between nodes are for.
bool Matters(const Facts& facts, const InterfaceFacts& found) {
  return !found.loopback && (found.thunderbolt || CarriesRail(facts.cluster, found.name));
}

Fix SafeFix(std::vector<std::string> command) { return {std::move(command), true, {}}; }

// On macOS addresses are given to network services, not to interfaces: a Thunderbolt port that is,
// or was, the bridge's has none. One of its own outlasts a boot; automatic IPv6 makes the
// link-local address, and a new service has IPv4 by itself, which RDMA wants. Nothing: it is not
// known which port it is.
std::vector<std::vector<std::string>> OwnService(const InterfaceFacts& found) {
  const std::string name = found.service.empty() ? "mlxcomm-" + found.name : found.service;
  std::vector<std::vector<std::string>> commands;
  if (found.service.empty()) {
    if (found.hardware.empty()) return {};
    commands.push_back({"networksetup", "-createnetworkservice", name, found.hardware});
  } else if (!found.service_enabled) {
    commands.push_back({"networksetup", "-setnetworkserviceenabled", name, "on"});
  }
  commands.push_back({"networksetup", "-setv6automatic", name});
  return commands;
}

Fix SafeFixes(std::vector<std::vector<std::string>> commands) {
  Fix fix;
  if (commands.empty()) return fix;
  fix.command = std::move(commands.front());
  commands.erase(commands.begin());
  fix.then = std::move(commands);
  fix.safe = true;
  return fix;
}

// Out of the bridge at once, and, by a service of its own and none of the bridge's, at each boot.
Fix FreeFromBridge(const Facts& facts, const InterfaceFacts& found) {
  std::vector<std::vector<std::string>> commands = {
      {"ifconfig", found.bridge, "deletem", found.name}};
  for (std::vector<std::string>& words : OwnService(found)) commands.push_back(std::move(words));
  for (const InterfaceFacts& bridge : facts.system.interfaces) {
    if (bridge.name == found.bridge && bridge.service_enabled)
      commands.push_back({"networksetup", "-setnetworkserviceenabled", bridge.service, "off"});
  }
  return SafeFixes(std::move(commands));
}

void CheckBridge(const Facts& facts, const InterfaceFacts& found, Findings& findings) {
  if (found.bridge.empty() || !IsBridgeActive(facts, found.bridge)) return;
  const Fix fix = IsMacos(facts) ? FreeFromBridge(facts, found)
                                 : SafeFix({"ip", "link", "set", "dev", found.name, "nomaster"});
  std::string remedy = "take it out of the bridge (as root)";
  if (IsMacos(facts)) {
    remedy +=
        ", and give it a network service of its own: without one macOS gives it no address, and "
        "the "
        "next boot puts it back";
  }
  findings.Add({"MC201", absl::StrCat("interface ", found.name),
                absl::StrCat("member of ", found.bridge),
                "no member of a bridge: a bridge passes on frames between its cables, and over "
                "looped cables for ever",
                remedy, fix});
}

}  // namespace

const v1::NodeCheckup& OwnCheckup(const ClusterFacts& cluster) {
  for (const v1::NodeCheckup& node : cluster.checkups.nodes()) {
    if (node.name() == cluster.checkups.node()) return node;
  }
  return v1::NodeCheckup::default_instance();
}

const v1::NodeStatus& OwnStatus(const ClusterFacts& cluster) {
  for (const v1::NodeStatus& node : cluster.status.nodes()) {
    if (node.name() == cluster.status.node()) return node;
  }
  return v1::NodeStatus::default_instance();
}

bool CarriesRail(const ClusterFacts& cluster, const std::string& interface) {
  for (const v1::LinkStatus& link : OwnStatus(cluster).links()) {
    for (const v1::RailStatus& rail : link.rails()) {
      if (rail.local_interface() == interface) return true;
    }
  }
  return false;
}

namespace {

// Whether a daemon answers, and which.
void CheckAnswer(const Facts& facts, Findings& findings) {
  const SystemFacts& system = facts.system;
  if (!facts.cluster.daemon_answers) {
    const std::string& why = facts.cluster.why_not;  // The remedy is told apart.
    Finding finding{
        "MC101", "mlxcommd", why.substr(0, why.find(". Start it")), "a daemon that answers",
        "",      {}};
    if (system.daemon_program.empty()) {
      finding.remedy = "install it (systemd-launchd/install), or put mlxcommd into the PATH";
    } else if (!system.service_installed) {
      finding.remedy =
          "start it (mlxcommd --config FILE), or make it a service (systemd-launchd/install); if "
          "it "
          "runs, name its socket (--socket, MLXCOMM_SOCKET)";
    } else {
      finding.remedy = "start it, and look at its log if it ends";
      finding.fix.command =
          IsMacos(facts)
              ? std::vector<std::string>{"launchctl", "kickstart", "system/com.mlxcomm.mlxcommd"}
              : std::vector<std::string>{"systemctl", "start", "mlxcommd"};
    }
    findings.Add(std::move(finding));
  } else {
    const v1::NodeStatus& own = OwnStatus(facts.cluster);
    findings.Add({"MC106",
                  "mlxcommd",
                  absl::StrCat("node ", facts.cluster.status.node(), " of cluster ",
                               facts.cluster.status.cluster(), ", mlxcommd ", own.version()),
                  "",
                  "",
                  {}});
    if (!own.version().empty() && own.version() != facts.own_version) {
      findings.Add({"MC105",
                    "mlxcommd",
                    absl::StrCat("mlxcommctl ", facts.own_version, ", mlxcommd ", own.version()),
                    "the same version of both",
                    "install both from one build, and restart the daemon",
                    {}});
    }
    if (OwnCheckup(facts.cluster).listening_size() == 0 && own.links_size() == 0 &&
        !own.has_discovery()) {
      findings.Add(
          {"MC104",
           "mlxcommd",
           "it listens to no neighbours and dials none",
           "neighbours, if there are to be any",
           "with a key neighbours are found by themselves: mlxcommctl cluster create on one "
           "machine, mlxcommctl cluster join on the others; then restart the daemon",
           {}});
    }
  }
}

// What the service's program loads, on macOS.
void CheckLibraries(const SystemFacts& system, Findings& findings) {
  const char* const remedy =
      "install the service again (systemd-launchd/install): it copies what the program loads";
  for (const std::string& library : system.libraries_missing) {
    findings.Add({"MC107",
                  "mlxcommd",
                  absl::StrCat(library, " is not there"),
                  "each library that the program loads: without one it cannot start",
                  remedy,
                  {}});
  }
  for (const std::string& library : system.libraries_of_users) {
    findings.Add({"MC108",
                  "mlxcommd",
                  absl::StrCat("root loads ", library),
                  "code that root alone may change, in folders that root alone may write to",
                  remedy,
                  {}});
  }
}

// The daemon's key and configuration.
void CheckFiles(const SystemFacts& system, Findings& findings) {
  if (!system.key_trouble.empty()) {
    const bool open = absl::StrContains(system.key_trouble, "others can use it");
    findings.Add(
        {"MC103", absl::StrCat("key file ", system.key_file), system.key_trouble,
         "the cluster's key, readable by the daemon's user alone",
         open ? "let nobody else read it; whoever could may have the key: mlxcommctl cluster "
                "key rotate"
              : "mlxcommctl cluster create on the first machine, mlxcommctl cluster join on each "
                "other; a file without a key has to go first",
         open ? SafeFix({"chmod", "600", system.key_file}) : Fix{}});
  }
  if (!system.config_trouble.empty()) {
    findings.Add({"MC102",
                  absl::StrCat("configuration ", system.config_file),
                  system.config_trouble,
                  "a configuration that mlxcommd --check-config accepts",
                  "mend the lines that are named",
                  {}});
  }
}

}  // namespace

void CheckDaemon(const Facts& facts, Findings& findings) {
  CheckAnswer(facts, findings);
  CheckFiles(facts.system, findings);
  CheckLibraries(facts.system, findings);
}

void CheckNetwork(const Facts& facts, Findings& findings) {
  for (const InterfaceFacts& found : facts.system.interfaces) {
    if (!Matters(facts, found)) continue;
    const std::string object = absl::StrCat("interface ", found.name);
    CheckBridge(facts, found, findings);
    if (!found.up) {
      findings.Add({"MC202", object, "switched off", "up, so that its cable is of use",
                    "switch it on (as root)",
                    IsMacos(facts) ? SafeFix({"ifconfig", found.name, "up"})
                                   : SafeFix({"ip", "link", "set", "dev", found.name, "up"})});
    } else if (found.running && !found.has_link_local && found.bridge.empty()) {
      findings.Add(
          {"MC203", object, "no IPv6 link-local address", "one, for neighbours are found by it",
           IsMacos(facts) ? "give the port a network service with automatic IPv6 (as root): macOS "
                            "gives addresses to services"
                          : "let the system make one (sysctl net.ipv6.conf.*.addr_gen_mode)",
           IsMacos(facts) ? SafeFixes(OwnService(found)) : Fix{}});
    }
  }
  const v1::NodeStatus& own = OwnStatus(facts.cluster);
  bool all_up = !own.has_discovery() || own.discovery().neighbours_size() > 0;
  for (const v1::LinkStatus& link : own.links()) {
    all_up = all_up && link.state() == "up";
  }
  const bool blocks_all = facts.system.firewall_blocks_all.value_or(false);
  if (facts.system.firewall_on.value_or(false) && (blocks_all || !all_up)) {
    findings.Add({"MC204", "firewall",
                  blocks_all ? "on, and blocks all incoming connections"
                             : "on, and a link is not up or nobody is heard",
                  "mlxcommd may be connected to (TCP and UDP 7470, unless configured otherwise)",
                  IsMacos(facts) ? "allow mlxcommd in System Settings, Network, Firewall"
                                 : "let the port through: ufw allow 7470; or firewall-cmd "
                                   "--add-port=7470/tcp --add-port=7470/udp",
                  IsMacos(facts) ? Fix{{"/usr/libexec/ApplicationFirewall/socketfilterfw",
                                        "--unblockapp", "/usr/local/bin/mlxcommd"},
                                       false}
                                 : Fix{}});
  }
}

void CheckCables(const Facts& facts, Findings& findings) {
  std::set<std::string> own_domains;
  double fastest = 0;
  std::size_t connected = 0;
  for (const ThunderboltPort& port : facts.system.ports) {
    if (!port.own_domain.empty()) own_domains.insert(port.own_domain);
    if (port.peer_domain.empty()) continue;
    fastest = std::max(fastest, port.gigabits_per_second);
    ++connected;
  }
  for (const ThunderboltPort& port : facts.system.ports) {
    if (port.peer_domain.empty()) continue;  // No computer at the other end.
    const std::string object =
        absl::StrCat("Thunderbolt port ", port.receptacle,
                     port.interface.empty() ? "" : " (" + port.interface + ")");
    if (own_domains.contains(port.peer_domain)) {
      findings.Add({"MC302",
                    object,
                    "its cable ends in another port of this machine",
                    "another node at the other end",
                    "plug one end into a neighbour",
                    {}});
    } else if (facts.cluster.daemon_answers && !port.interface.empty() &&
               !CarriesRail(facts.cluster, port.interface)) {
      findings.Add({"MC301",
                    object,
                    absl::StrCat("connected to ", port.peer, ", but no rail is over it"),
                    "a rail to the node at the other end",
                    "is mlxcommd running there, with the same key, and is the interface allowed "
                    "and no member of a bridge on both?",
                    {}});
    }
    if (port.gigabits_per_second > 0 && port.gigabits_per_second < fastest) {
      findings.Add({"MC304",
                    object,
                    absl::StrCat("runs at ", port.speed),
                    absl::StrCat(fastest, " Gb/s, as another port of this machine does"),
                    "use a cable of that rate, and a port of that generation at the other end",
                    {}});
    }
  }
  if (!facts.system.ports.empty()) {
    findings.Add({"MC308",
                  "Thunderbolt",
                  absl::StrCat(facts.system.ports.size(), " ports or devices, ", connected,
                               " connected to other computers",
                               facts.system.ports[0].generation.empty()
                                   ? ""
                                   : ", " + facts.system.ports[0].generation),
                  "",
                  "",
                  {}});
  }
}

void CheckSystem(const Facts& facts, Findings& findings) {
  if (facts.system.sleeps.value_or(false)) {
    findings.Add({"MC401", "power", "the machine sleeps when it is idle",
                  "awake, between jobs as well: a sleeping node is a lost node",
                  "let it stay awake on mains power (as root)",
                  IsMacos(facts) ? SafeFix({"pmset", "-c", "sleep", "0"})
                                 : SafeFix({"systemctl", "mask", "sleep.target"})});
  }
  if (!facts.system.clock_synchronised.value_or(true)) {
    findings.Add({"MC403", "clock", "not synchronised",
                  "a clock that follows others: logs and traces of nodes are compared by it",
                  "let the system set it (as root)",
                  IsMacos(facts) ? SafeFix({"systemsetup", "-setusingnetworktime", "on"})
                                 : SafeFix({"timedatectl", "set-ntp", "true"})});
  }
  for (const std::string& unknown : facts.system.unknown) {
    findings.Add({"MC404", "doctor", unknown, "an answer", "", {}});
  }
}

Findings Check(const Facts& facts) {
  Findings findings;
  CheckDaemon(facts, findings);
  CheckNetwork(facts, findings);
  CheckCables(facts, findings);
  CheckRdma(facts, findings);
  CheckSystem(facts, findings);
  CheckPython(facts, findings);
  if (facts.cluster.daemon_answers) {
    CheckDiscovery(facts, findings);
    CheckLinks(facts, findings);
    CheckNodes(facts, findings);
  }
  CheckSsh(facts, findings);
  return findings;
}

}  // namespace mlxcomm::ctl
