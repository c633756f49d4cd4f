// Findings about discovery: which neighbours are heard, and why others are not.
#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/ctl/cli/quantities.h"
#include "client/ctl/doctor/check.h"
#include "client/ctl/status/health.h"

namespace mlxcomm::ctl {
namespace {

void CheckInterface(const std::string& node, const v1::DiscoveryInterface& interface,
                    Findings& findings) {
  using Reason = v1::DiscoveryReason;
  const char* const id = interface.reason() == Reason::own_hellos         ? "MC302/heard"
                         : interface.reason() == Reason::same_id          ? "MC213"
                         : interface.reason() == Reason::no_route_to_host ? "MC210/no_route"
                                                                          : "MC210";
  findings.Add(id, absl::StrCat("node ", node, ", interface ", interface.name()),
               {{"detail", interface.detail()}, {"local_network", kLocalNetworkRemedy}});
}

// Counts a link in any state: a faulty one has findings of its own.
bool HasLink(const v1::NodeStatus& node, const v1::DiscoveredNeighbour& heard) {
  return std::ranges::any_of(node.links(), [&heard](const v1::LinkStatus& link) {
    return link.peer_id() == heard.id() || link.peer() == heard.address();
  });
}

void CheckUnlinked(const v1::NodeStatus& node, Findings& findings) {
  for (const v1::DiscoveredNeighbour& heard : node.discovery().neighbours()) {
    if (heard.state() != "heard" || HasLink(node, heard)) continue;
    findings.Add("MC309",
                 absl::StrCat("node ", node.name(), ", interface ", heard.local_interface()),
                 {{"neighbour", heard.name()},
                  {"remote", heard.remote_interface()},
                  {"address", heard.address()}});
  }
}

// Finds why this node, which looks for neighbours, has none.
void CheckSilence(const Facts& facts, const v1::NodeStatus& own, Findings& findings) {
  const v1::DiscoveryStatus& discovery = own.discovery();
  const std::string object = absl::StrCat("node ", own.name());
  std::string unused;
  bool used = false;
  for (const v1::DiscoveryInterface& interface : discovery.interfaces()) {
    used = used || interface.used();
    if (interface.used() || interface.reason() == v1::DiscoveryReason::loopback) continue;
    absl::StrAppend(&unused, unused.empty() ? "" : "; ", interface.name(), ": ",
                    interface.detail());
  }
  if (const std::string without = InterfacesWithoutIpv6(own); !without.empty()) {
    findings.Add("MC212/no_ipv6", object,
                 {{"interfaces", without},
                  {"how", IsMacos(facts) ? "networksetup -setv6automatic SERVICE"
                                         : "sysctl -w net.ipv6.conf.all.disable_ipv6=0"}});
  } else if (!used) {
    findings.Add("MC212", object, {{"unused", unused.empty() ? "there is only loopback" : unused}});
  } else if (discovery.neighbours_size() > 0 || own.links_size() > 0) {
    return;
  } else if (HearsForeignHellos(facts, own)) {
    findings.Add("MC211", object, {{"hellos", std::to_string(discovery.foreign())}});
  } else if (discovery.hellos_sent() > 1) {
    findings.Add("MC214", object, {{"local_network", kLocalNetworkRemedy}});
  }
}

// Finds connections with another key, if this node has no neighbour.
void CheckRefusedOnes(const Facts& facts, const v1::NodeStatus& own, Findings& findings) {
  if (own.links_size() > 0 || own.discovery().neighbours_size() > 0) return;
  if (own.strangers_refused() == 0 || !IsStillComing(facts, own.stranger_refused_ms_ago())) return;
  findings.Add("MC211/refused", absl::StrCat("node ", own.name()),
               {{"strangers", Plural(own.strangers_refused(), "connection")},
                {"ago", HumanTime(own.stranger_refused_ms_ago())}});
}

}  // namespace

void CheckDiscovery(const Facts& facts, Findings& findings) {
  for (const v1::NodeStatus& node : facts.cluster.status.nodes()) {
    for (const v1::DiscoveryInterface& interface : node.discovery().interfaces()) {
      if (interface.used() && !interface.detail().empty())
        CheckInterface(node.name(), interface, findings);
    }
    CheckUnlinked(node, findings);
  }
  const v1::NodeStatus& own = OwnStatus(facts.cluster);
  if (own.has_discovery()) CheckSilence(facts, own, findings);
  CheckRefusedOnes(facts, own, findings);
}

}  // namespace mlxcomm::ctl
