// Findings about this machine: its daemon, network, ports, settings and Python package.
#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/ctl/doctor/check.h"
#include "client/ctl/doctor/section.h"
#include "client/ctl/status/health.h"

namespace mlxcomm::ctl {
namespace {

bool IsBridgeActive(const Facts& facts, const std::string& bridge) {
  for (const InterfaceFacts& found : facts.system.interfaces) {
    if (found.name == bridge) return found.up;
  }
  return true;
}

Fix SafeFix(const std::vector<std::string>& command) { return {{command}, true}; }

// On macOS network services have addresses, not interfaces, and a Thunderbolt port that is or was
// in the bridge has none. Its own service outlasts a boot and has the IPv4 that some rails need;
// automatic IPv6 adds the link-local address. Empty if the port is unknown.
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

// Takes the interface out of the bridge now, and keeps it out at each boot: it gets a service, and
// the bridge loses its own.
Fix FreeFromBridge(const Facts& facts, const InterfaceFacts& found) {
  std::vector<std::vector<std::string>> commands = {
      {"ifconfig", found.bridge, "deletem", found.name}};
  for (std::vector<std::string>& words : OwnService(found)) commands.push_back(std::move(words));
  for (const InterfaceFacts& bridge : facts.system.interfaces) {
    if (bridge.name == found.bridge && bridge.service_enabled)
      commands.push_back({"networksetup", "-setnetworkserviceenabled", bridge.service, "off"});
  }
  return {std::move(commands), true};
}

void CheckBridge(const Facts& facts, const InterfaceFacts& found, Findings& findings) {
  if (found.bridge.empty() || !IsBridgeActive(facts, found.bridge)) return;
  const Fix fix = IsMacos(facts) ? FreeFromBridge(facts, found)
                                 : SafeFix({"ip", "link", "set", "dev", found.name, "nomaster"});
  findings.Add(IsMacos(facts) ? "MC201/macos" : "MC201", absl::StrCat("interface ", found.name),
               {{"bridge", found.bridge}}, fix);
}

void CheckAbsence(const Facts& facts, Findings& findings) {
  const SystemFacts& system = facts.system;
  const Findings::Values values = {{"why", facts.cluster.why_not}};
  if (facts.cluster.daemon_refuses) return findings.Add("MC101/refuses", "mlxcommd", values);
  if (facts.cluster.daemon_is_silent) return findings.Add("MC101/silent", "mlxcommd", values);
  if (system.daemon_program.empty()) return findings.Add("MC101/not_installed", "mlxcommd", values);
  if (!system.service_installed) return findings.Add("MC101/no_service", "mlxcommd", values);
  const std::vector<std::string> start =
      IsMacos(facts)
          ? std::vector<std::string>{"launchctl", "kickstart", "system/com.mlxcomm.mlxcommd"}
          : std::vector<std::string>{"systemctl", "start", "mlxcommd"};
  findings.Add("MC101", "mlxcommd", values, {{start}, /*safe=*/false});
}

void CheckAnswer(const Facts& facts, Findings& findings) {
  if (!facts.cluster.daemon_answers) return CheckAbsence(facts, findings);
  const v1::NodeStatus& own = OwnStatus(facts.cluster);
  const Findings::Values values = {{"node", facts.cluster.status.node()},
                                   {"cluster", facts.cluster.status.cluster()},
                                   {"version", own.version()},
                                   {"own", facts.own_version}};
  findings.Add("MC106", "mlxcommd", values);
  if (!own.version().empty() && own.version() != facts.own_version)
    findings.Add("MC105", "mlxcommd", values);
  if (OwnCheckup(facts.cluster).listening_size() == 0 && own.links_size() == 0 &&
      !own.has_discovery() && !own.ends_with_last_client())
    findings.Add("MC104", "mlxcommd");
}

void CheckLibraries(const SystemFacts& system, Findings& findings) {
  for (const std::string& library : system.libraries_missing) {
    findings.Add("MC107", "mlxcommd", {{"library", library}});
  }
  for (const std::string& library : system.libraries_of_users) {
    findings.Add("MC108", "mlxcommd", {{"library", library}});
  }
}

void CheckFiles(const SystemFacts& system, Findings& findings) {
  if (!system.key_trouble.text.empty()) {
    const bool open = system.key_trouble.others_can_use_it;
    findings.Add(open ? "MC103/open" : "MC103", absl::StrCat("key file ", system.key_file),
                 {{"trouble", system.key_trouble.text}},
                 open ? SafeFix({"chmod", "600", system.key_file}) : Fix{});
  }
  if (!system.config_trouble.empty()) {
    findings.Add("MC102", absl::StrCat("configuration ", system.config_file),
                 {{"trouble", system.config_trouble}});
  }
}

}  // namespace

const v1::NodeCheckup& CheckupOf(const ClusterFacts& cluster, const std::string& node) {
  for (const v1::NodeCheckup& checkup : cluster.checkups.nodes()) {
    if (checkup.name() == node) return checkup;
  }
  return v1::NodeCheckup::default_instance();
}

const v1::NodeCheckup& OwnCheckup(const ClusterFacts& cluster) {
  return CheckupOf(cluster, cluster.checkups.node());
}

const v1::NodeStatus& OwnStatus(const ClusterFacts& cluster) { return OwnNode(cluster.status); }

bool CarriesRail(const ClusterFacts& cluster, const std::string& interface) {
  for (const v1::LinkStatus& link : OwnStatus(cluster).links()) {
    for (const v1::RailStatus& rail : link.rails()) {
      if (rail.local_interface() == interface) return true;
    }
    if (link.last_local_interface() == interface) return true;
  }
  // While a rail is down, only the side that dials it lists it.
  for (const v1::NodeStatus& node : cluster.status.nodes()) {
    for (const v1::LinkStatus& link : node.links()) {
      if (link.peer() != cluster.status.node()) continue;
      for (const v1::RailStatus& rail : link.rails()) {
        if (rail.remote_interface() == interface) return true;
      }
    }
  }
  return false;
}

void CheckDaemon(const Facts& facts, Findings& findings) {
  CheckAnswer(facts, findings);
  CheckFiles(facts.system, findings);
  CheckLibraries(facts.system, findings);
}

void CheckNetwork(const Facts& facts, Findings& findings) {
  for (const InterfaceFacts& found : facts.system.interfaces) {
    // Only interfaces that cables between nodes use.
    if (found.loopback || !(found.thunderbolt || CarriesRail(facts.cluster, found.name))) continue;
    const std::string object = absl::StrCat("interface ", found.name);
    CheckBridge(facts, found, findings);
    if (!found.up) {
      findings.Add("MC202", object, {},
                   IsMacos(facts) ? SafeFix({"ifconfig", found.name, "up"})
                                  : SafeFix({"ip", "link", "set", "dev", found.name, "up"}));
    } else if (found.running && !found.has_link_local && found.bridge.empty()) {
      findings.Add(IsMacos(facts) ? "MC203/macos" : "MC203", object, {},
                   IsMacos(facts) ? Fix{OwnService(found), true} : Fix{});
    }
  }
  const v1::NodeStatus& own = OwnStatus(facts.cluster);
  bool all_up = !own.has_discovery() || own.discovery().neighbours_size() > 0;
  for (const v1::LinkStatus& link : own.links()) {
    all_up = all_up && link.state() == v1::LinkState::up;
  }
  const bool blocks_all = facts.system.firewall_blocks_all.value_or(false);
  if (facts.system.firewall_on.value_or(false) && (blocks_all || !all_up)) {
    const char* const state = blocks_all ? "on, and blocks all incoming connections"
                                         : "on, and a link is not up or no neighbour is heard";
    findings.Add(IsMacos(facts) ? "MC204/macos" : "MC204", "firewall", {{"state", state}},
                 IsMacos(facts) ? Fix{{{"/usr/libexec/ApplicationFirewall/socketfilterfw",
                                        "--unblockapp", "/usr/local/bin/mlxcommd"}},
                                      false}
                                : Fix{});
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
      findings.Add("MC302", object);
    } else if (facts.cluster.daemon_answers && !port.interface.empty() &&
               !CarriesRail(facts.cluster, port.interface)) {
      findings.Add("MC301", object, {{"peer", port.peer}});
    }
    if (port.gigabits_per_second > 0 && port.gigabits_per_second < fastest) {
      findings.Add("MC304", object, {{"speed", port.speed}, {"fastest", absl::StrCat(fastest)}});
    }
  }
  if (facts.system.ports.empty()) return;
  const std::string& generation = facts.system.ports[0].generation;
  findings.Add("MC308", "Thunderbolt",
               {{"ports", std::to_string(facts.system.ports.size())},
                {"connected", std::to_string(connected)},
                {"generation", generation.empty() ? "" : ", " + generation}});
}

void CheckSystem(const Facts& facts, Findings& findings) {
  if (facts.system.sleeps.value_or(false)) {
    findings.Add("MC401", "power", {},
                 IsMacos(facts) ? SafeFix({"pmset", "-c", "sleep", "0"})
                                : SafeFix({"systemctl", "mask", "sleep.target"}));
  }
  if (!facts.system.clock_synchronised.value_or(true)) {
    findings.Add(facts.cluster.status.nodes_size() < 2 ? "MC410" : "MC403", "clock", {},
                 IsMacos(facts) ? SafeFix({"systemsetup", "-setusingnetworktime", "on"})
                                : SafeFix({"timedatectl", "set-ntp", "true"}));
  }
  for (const std::string& unknown : facts.system.unknown) {
    findings.Add("MC404", "doctor", {{"unknown", unknown}});
  }
}

void CheckPython(const Facts& facts, Findings& findings) {
  const PythonFacts& python = facts.system.python;
  const std::string object = absl::StrCat("Python package of ", python.program);
  const Findings::Values values = {{"message", python.message}, {"program", python.program}};
  switch (python.results) {
    case ResultsKind::kNotTested: return;
    case ResultsKind::kShared: return findings.Add("MC409", object);
    case ResultsKind::kCopied: return findings.Add("MC405", object, values);
    case ResultsKind::kCopiedAsAsked: return findings.Add("MC406", object, values);
    case ResultsKind::kWrong: return findings.Add("MC407", object, values);
    case ResultsKind::kTestFailed: return findings.Add("MC408", object, values);
  }
}

Findings Check(const Facts& facts) {
  Findings findings;
  CheckDaemon(facts, findings);
  CheckNetwork(facts, findings);
  CheckCables(facts, findings);
  for (const Section* const section : Sections()) section->check(facts, findings);
  CheckSystem(facts, findings);
  CheckPython(facts, findings);
  if (facts.cluster.daemon_answers) {
    CheckDiscovery(facts, findings);
    CheckLinks(facts, findings);
    CheckNodes(facts, findings);
  }
  return findings;
}

}  // namespace mlxcomm::ctl
