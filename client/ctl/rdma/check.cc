// Findings about RDMA: why a connection has no RDMA rail beside it. Until then links use TCP, so
// what is merely missing is a note. If RDMA is off, there are no findings.
#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/ctl/cli/quantities.h"
#include "client/ctl/doctor/check.h"
#include "client/ctl/rdma/section.h"
#include "client/ctl/status/health.h"
#include "client/ctl/status/status_parts.h"
#include "proto/status_words.h"

namespace mlxcomm::ctl {
namespace {

constexpr double kThunderbolt5Gigabits = 80;

bool RunsMacos(const Facts& facts, const v1::NodeStatus& node) {
  return CheckupOf(facts.cluster, node.name()).system().starts_with("Darwin");
}

bool IsOwn(const Facts& facts, const v1::NodeStatus& node) {
  return node.name() == facts.cluster.status.node();
}

// The node's report about RDMA; empty if it is off there.
const v1::TransportStatus& RdmaOf(const v1::NodeStatus& node) {
  for (const v1::TransportStatus& transport : node.transports()) {
    if (transport.transport() == v1::Transport::rdma) return transport;
  }
  return v1::TransportStatus::default_instance();
}

bool IsOn(const v1::NodeStatus& node) { return RdmaOf(node).transport() == v1::Transport::rdma; }

std::string NoDevicesObject(const v1::NodeStatus& node) {
  return absl::StrCat("node ", node.name(), ", RDMA");
}

// False if no port is known.
bool IsBelowThunderbolt5(const Facts& facts) {
  double fastest = 0;
  for (const ThunderboltPort& port : facts.system.ports) {
    fastest = std::max(fastest, port.gigabits_per_second);
  }
  return IsMacos(facts) && fastest > 0 && fastest < kThunderbolt5Gigabits;
}

bool IsSwitchedOff(const Facts& facts) {
  return facts.system.devices_enabled.has_value() && !*facts.system.devices_enabled;
}

bool IsOfDriver(v1::LinkReason::Value reason) {
  return reason == v1::LinkReason::driver_silent || reason == v1::LinkReason::driver_failed;
}

bool CannotBeOpened(const v1::TransportDevice& device) {
  return device.reason() == v1::LinkReason::device_not_opened;
}

void CheckNoDevice(const Facts& facts, const v1::NodeStatus& node, Findings& findings) {
  const std::string object = NoDevicesObject(node);
  const bool own = IsOwn(facts, node);
  if (own && IsBelowThunderbolt5(facts)) return findings.Add("MC312", object);
  if (own && IsSwitchedOff(facts)) return;  // MC307.
  if (own && !IsMacos(facts) && !facts.system.devices.empty())
    return findings.Add("MC316/hidden", object, {{"device", facts.system.devices[0]}});
  const bool macos = RunsMacos(facts, node) || (own && IsMacos(facts));
  findings.Add(macos ? "MC311/macos" : "MC311", object);
}

void CheckDevices(const Facts& facts, const v1::NodeStatus& node, Findings& findings) {
  if (!IsOn(node)) return;
  const v1::TransportStatus& rdma = RdmaOf(node);
  const std::string object = NoDevicesObject(node);
  const bool macos = RunsMacos(facts, node);
  if (rdma.reason() == v1::LinkReason::no_library) {
    findings.Add(macos ? "MC310/macos" : "MC310", object, {{"detail", rdma.detail()}});
  } else if (IsOfDriver(rdma.reason())) {
    findings.Add("MC314", object, {{"detail", rdma.detail()}});
  } else if (rdma.reason() == v1::LinkReason::none && rdma.devices_size() == 0) {
    CheckNoDevice(facts, node, findings);
  }
  for (const v1::TransportDevice& device : rdma.devices()) {
    const std::string one = absl::StrCat("node ", node.name(), ", RDMA device ", device.name());
    constexpr std::uint64_t kBusyMsMax = 5'000;
    if (device.busy_ms() >= kBusyMsMax)
      findings.Add("MC314/device", one, {{"time", HumanTime(device.busy_ms())}});
    if (CannotBeOpened(device))
      findings.Add(macos ? "MC316/macos" : "MC316", one, {{"detail", device.state()}});
  }
}

bool IsOff(const Facts& facts, const std::string& node) {
  const v1::NodeStatus& status = NodeNamed(facts.cluster.status, node);
  return status.answered() && !IsOn(status);
}

bool AnyRailIsUp(const v1::NodeStatus& node) {
  return std::ranges::any_of(node.links(), [](const v1::LinkStatus& link) {
    return std::ranges::any_of(link.rails(), [](const v1::RailStatus& rail) {
      return rail.transport() == v1::Transport::rdma && rail.state() == v1::RailState::up;
    });
  });
}

// Linux device names do not name interfaces, so the finding lists all devices with their GIDs.
void CheckMatch(const Facts& facts, const v1::NodeStatus& node, const v1::RailStatus& rail,
                const std::string& object, Findings& findings) {
  if (RunsMacos(facts, node) || AnyRailIsUp(node) || RdmaOf(node).devices_size() == 0) return;
  std::string there;
  bool active = false;
  for (const v1::TransportDevice& device : RdmaOf(node).devices()) {
    if (CannotBeOpened(device)) return;  // MC316.
    active = active || device.active();
    absl::StrAppend(&there, "; ", device.name(), " is ", device.active() ? "for" : "down");
    for (const std::string& gid : device.gids()) absl::StrAppend(&there, " ", gid);
  }
  findings.Add(
      active ? "MC313/linux" : "MC306/linux", object,
      {{"detail", rail.detail()}, {"devices", there}, {"interface", rail.local_interface()}});
}

// The default of `ulimit -l` is too small for a rail, which needs some megabytes.
void CheckLockedMemory(const Facts& facts, const v1::NodeStatus& node, Findings& findings) {
  constexpr std::uint64_t kLockedBytesMin = 64ull << 20;
  const std::uint64_t most = CheckupOf(facts.cluster, node.name()).locked_bytes_max();
  if (RdmaOf(node).devices_size() == 0 || most == 0 || most >= kLockedBytesMin) return;
  findings.Add("MC319", absl::StrCat("node ", node.name()),
               {{"bytes", HumanBytes(static_cast<double>(most))},
                {"least", HumanBytes(static_cast<double>(kLockedBytesMin))}});
}

// The interface that a rail's reason is about: that of the side that reports it, unless the reason
// is the other side's address.
const std::string& InterfaceMeant(const v1::RailStatus& rail) {
  const bool of_other = rail.reason() == v1::LinkReason::peer_gid_without_ipv4;
  return rail.peers_reason() == of_other ? rail.local_interface() : rail.remote_interface();
}

void CheckRail(const Facts& facts, const v1::NodeStatus& node, const v1::LinkStatus& link,
               const v1::RailStatus& rail, Findings& findings) {
  using Why = v1::LinkReason;
  const std::string object = absl::StrCat("RDMA from ", node.name(), " ", rail.local_interface(),
                                          " to ", link.peer(), " ", rail.remote_interface());
  Findings::Values values = {
      {"detail", rail.detail()}, {"interface", InterfaceMeant(rail)}, {"peer", link.peer()}};
  const Why::Value reason = rail.reason();
  const bool waits = reason == Why::no_offer;
  if ((waits || rail.peers_reason()) && IsOff(facts, link.peer())) {
    if (waits) values[0].second = absl::StrCat("RDMA is off on ", link.peer());
    return findings.Add("MC317", object, values);
  }
  // In progress, or another finding reports the cause.
  if (waits || reason == Why::looking || reason == Why::being_made) return;
  const bool lacks = reason == Why::no_device || reason == Why::no_library;
  if (lacks && rail.peers_reason()) return findings.Add("MC317/lacks", object, values);
  if (reason == Why::no_device) return CheckMatch(facts, node, rail, object, findings);
  if (reason == Why::no_library) return;
  if (IsOfDriver(reason) && !rail.peers_reason() && reason == RdmaOf(node).reason()) return;
  const std::string_view id = IdOf(reason, RdmaFindingKinds());
  if (!id.empty()) findings.Add(id, object, values);
}

std::string Summary(const v1::NodeStatus& node) {
  if (!IsOn(node)) return "off (rdma { enabled: true } in the configuration)";
  const v1::TransportStatus& rdma = RdmaOf(node);
  if (rdma.reason() != v1::LinkReason::none) {
    return rdma.detail().empty() ? WordOf(rdma.reason()) : rdma.detail();
  }
  std::string text = Plural(static_cast<std::uint64_t>(rdma.devices_size()), "device");
  for (const v1::TransportDevice& device : rdma.devices()) {
    const std::string uses = UsesOf(device);
    absl::StrAppend(&text, "; ", device.name(), " ", device.state(), uses.empty() ? "" : ", ",
                    uses);
  }
  return text;
}

}  // namespace

void CheckRdma(const Facts& facts, Findings& findings) {
  const bool off = facts.cluster.daemon_answers && !IsOn(OwnStatus(facts.cluster));
  if (!off && IsSwitchedOff(facts) && !IsBelowThunderbolt5(facts)) findings.Add("MC307", "RDMA");
  if (!facts.cluster.daemon_answers) return;
  for (const v1::NodeStatus& node : facts.cluster.status.nodes()) {
    if (!node.answered()) continue;
    CheckDevices(facts, node, findings);
    CheckLockedMemory(facts, node, findings);
    for (const v1::LinkStatus& link : node.links()) {
      for (const v1::RailStatus& rail : link.rails()) {
        if (rail.transport() == v1::Transport::rdma && rail.state() != v1::RailState::up)
          CheckRail(facts, node, link, rail, findings);
      }
    }
    if (IsOwn(facts, node))
      findings.Add("MC321", NoDevicesObject(node), {{"summary", Summary(node)}});
  }
}

}  // namespace mlxcomm::ctl
