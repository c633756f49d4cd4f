// Findings about how neighbours are found: who is heard, who is not, and why.
#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/ctl/doctor/check.h"

namespace mlxcomm::ctl {
namespace {

// What an interface that is used does not do.
void CheckInterface(const Facts& facts, const std::string& node,
                    const v1::DiscoveryInterface& interface, Findings& findings) {
  const std::string object = absl::StrCat("node ", node, ", interface ", interface.name());
  if (absl::StrContains(interface.detail(), "this node's own hellos")) {
    findings.Add({"MC302",
                  object,
                  interface.detail(),
                  "another node at the other end of each cable",
                  "plug one end of the cable into a neighbour; two ports on one switch are no harm",
                  {}});
  } else if (absl::StrContains(interface.detail(), "this node's id")) {
    findings.Add({"MC213",
                  object,
                  interface.detail(),
                  "an id for each node",
                  "the machine was copied with its state_directory: do there what is said above",
                  {}});
  } else {
    const char* const address = "is the interface up, and has it an IPv6 link-local address?";
    const bool refused = absl::StrContains(interface.detail(), "No route to host");
    findings.Add({"MC210",
                  object,
                  interface.detail(),
                  "hellos that can be sent",
                  refused ? absl::StrCat(LocalNetworkRemedy(facts), "; else ", address) : address,
                  {}});
  }
}

// Any link, whichever state it is in: what is wrong with it is another finding.
bool HasLink(const v1::NodeStatus& node, const v1::DiscoveredNeighbour& heard) {
  return std::any_of(node.links().begin(), node.links().end(),
                     [&heard](const v1::LinkStatus& link) {
                       return link.peer_id() == heard.id() || link.peer() == heard.address();
                     });
}

void CheckUnlinked(const v1::NodeStatus& node, Findings& findings) {
  for (const v1::DiscoveredNeighbour& heard : node.discovery().neighbours()) {
    if (heard.state() != "heard" || HasLink(node, heard)) continue;
    findings.Add(
        {"MC309",
         absl::StrCat("node ", node.name(), ", interface ", heard.local_interface()),
         absl::StrCat("hears ", heard.name(), " (its ", heard.remote_interface(), ", ",
                      heard.address(), "), but no link leads to it"),
         "a link to it, within a second or two",
         absl::StrCat("let a firewall on either pass TCP to that port; mlxcommctl doctor on ",
                      heard.name(), " may say more"),
         {}});
  }
}

// This node looks for neighbours and has none.
void CheckSilence(const Facts& facts, const v1::NodeStatus& own, Findings& findings) {
  const v1::DiscoveryStatus& discovery = own.discovery();
  const std::string object = absl::StrCat("node ", own.name());
  std::string unused;
  bool used = false;
  for (const v1::DiscoveryInterface& interface : discovery.interfaces()) {
    used = used || interface.used();
    if (interface.used() || interface.detail() == "loopback") continue;
    absl::StrAppend(&unused, unused.empty() ? "" : "; ", interface.name(), ": ",
                    interface.detail());
  }
  if (!used) {
    findings.Add({"MC212",
                  object,
                  unused.empty() ? "there is only loopback" : unused,
                  "an interface that a neighbour can be heard on",
                  "plug in a cable, or name the interfaces in discovery { interfaces }",
                  {}});
  } else if (discovery.neighbours_size() > 0 || own.links_size() > 0) {
    return;
  } else if (discovery.foreign() > 0) {
    findings.Add(
        {"MC211",
         object,
         absl::StrCat(discovery.foreign(), " hellos of another key or cluster, none of its own"),
         "neighbours with the same key",
         "if those are to be its neighbours: mlxcommctl cluster key show on one of them, "
         "mlxcommctl cluster key rotate --take here",
         {}});
  } else if (discovery.hellos_sent() > 1) {
    findings.Add(
        {"MC214",
         object,
         "says hello, and hears nobody",
         "neighbours, if there are to be any",
         absl::StrCat(
             "is mlxcommd running on them, the cable in, and does a firewall here or there "
             "let UDP 7470 through? ",
             LocalNetworkRemedy(facts)),
         {}});
  }
}

}  // namespace

std::string LocalNetworkRemedy(const Facts& facts) {
  const std::string& window = facts.system.window_program;
  return absl::StrCat(
      "on macOS 15 and later the system asks whether the program may reach the local network in "
      "whose window mlxcommd was started (tmux, iTerm, VS Code",
      window.empty() ? "" : absl::StrCat("; this one is ", window),
      "): allow that one in System Settings, Privacy & Security, Local Network, or run mlxcommd as "
      "the service (systemd-launchd/install), which is not asked");
}

void CheckDiscovery(const Facts& facts, Findings& findings) {
  for (const v1::NodeStatus& node : facts.cluster.status.nodes()) {
    for (const v1::DiscoveryInterface& interface : node.discovery().interfaces()) {
      if (interface.used() && !interface.detail().empty())
        CheckInterface(facts, node.name(), interface, findings);
    }
    CheckUnlinked(node, findings);
  }
  const v1::NodeStatus& own = OwnStatus(facts.cluster);
  if (own.has_discovery()) CheckSilence(facts, own, findings);
}

}  // namespace mlxcomm::ctl
