// Findings about RDMA: what keeps queue pairs from being beside connections, and what mends it.
// TCP carries on in all of these, so what merely is not there is a note; and where RDMA is off
// nothing is found.
#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/ctl/cli/quantities.h"
#include "client/ctl/doctor/check.h"
#include "client/ctl/status/render_status.h"

namespace mlxcomm::ctl {
namespace {

constexpr double kThunderbolt5Gigabits = 80;
constexpr char kAReport[] = "; if it stays so: mlxcommctl bugreport --rdma";
constexpr char kWakeDriver[] =
    "take its cable out and in again; if that does not help, restart the machine; if it stays so: "
    "mlxcommctl bugreport --rdma";

// What a neighbour's daemon told of itself.
bool RunsMacos(const Facts& facts, const v1::NodeStatus& node) {
  for (const v1::NodeCheckup& checkup : facts.cluster.checkups.nodes()) {
    if (checkup.name() == node.name()) return absl::StartsWith(checkup.system(), "Darwin");
  }
  return false;
}

bool IsOwn(const Facts& facts, const v1::NodeStatus& node) {
  return node.name() == facts.cluster.status.node();
}

std::string NoDevicesObject(const v1::NodeStatus& node) {
  return absl::StrCat("node ", node.name(), ", RDMA");
}

// Whether the ports that can be seen say that they are of Thunderbolt 4 or older.
bool IsBelowThunderbolt5(const Facts& facts) {
  double fastest = 0;
  for (const ThunderboltPort& port : facts.system.ports) {
    fastest = std::max(fastest, port.gigabits_per_second);
  }
  return IsMacos(facts) && fastest > 0 && fastest < kThunderbolt5Gigabits;
}

bool IsSwitchedOff(const Facts& facts) {
  return facts.system.rdma_enabled.has_value() && !*facts.system.rdma_enabled;
}

// The library is there, and lists no device.
void CheckNoDevice(const Facts& facts, const v1::NodeStatus& node, Findings& findings) {
  const std::string object = NoDevicesObject(node);
  const bool own = IsOwn(facts, node);
  if (own && IsBelowThunderbolt5(facts)) {
    findings.Add(
        {"MC312",
         object,
         "no RDMA device, and no Thunderbolt port of more than 40 Gb/s",
         "Thunderbolt 5 (80 Gb/s), at both ends of a cable",
         "none for this Mac: TCP over the same cable is used. rdma { enabled: false } leaves "
         "this note out",
         {}});
    return;
  }
  if (own && IsSwitchedOff(facts)) return;  // Which is told.
  if (own && !IsMacos(facts) && !facts.system.rdma.empty()) {
    findings.Add(
        {"MC316",
         object,
         absl::StrCat("the system has the RDMA device ", facts.system.rdma[0].device,
                      ", but gives mlxcommd none"),
         "/dev/infiniband/uverbs0, which the daemon's user may read and write",
         "load the module (modprobe ib_uverbs); in a container or a unit with device rules "
         "pass /dev/infiniband on",
         {}});
    return;
  }
  findings.Add({"MC311",
                object,
                "the library of RDMA lists no device",
                "one for each Thunderbolt 5 port",
                RunsMacos(facts, node) || (own && IsMacos(facts))
                    ? "rdma_ctl status there says whether RDMA is enabled: if not, start into "
                      "recovery, open "
                      "Terminal, rdma_ctl enable, restart"
                    : "load the driver of the network card; soft-RoCE: rdma link add rxe0 type rxe "
                      "netdev IF",
                {}});
}

bool CannotBeOpened(const v1::RdmaDevice& device) {
  return absl::StartsWith(device.state(), "cannot be opened");
}

void CheckDevices(const Facts& facts, const v1::NodeStatus& node, Findings& findings) {
  const v1::RdmaStatus& rdma = node.rdma();
  const std::string object = NoDevicesObject(node);
  if (rdma.state() == "no library") {
    findings.Add({"MC310",
                  object,
                  rdma.detail(),
                  "a library of RDMA verbs, as RDMA is on",
                  RunsMacos(facts, node)
                      ? "macOS 26.2 or later; or rdma { enabled: false }"
                      : "install libibverbs1 and the provider of the card (Debian: "
                        "ibverbs-providers); or rdma { enabled: false }",
                  {}});
  } else if (rdma.state() == "no answer" || rdma.state() == "failed") {
    findings.Add(
        {"MC314",
         object,
         rdma.detail(),
         "a driver that answers; TCP carries on without it",
         absl::StrCat("restart that machine: a driver that hangs does not come back by itself",
                      kAReport),
         {}});
  } else if (rdma.state() == "found" && rdma.devices_size() == 0) {
    CheckNoDevice(facts, node, findings);
  }
  for (const v1::RdmaDevice& device : rdma.devices()) {
    const std::string one = absl::StrCat("node ", node.name(), ", RDMA device ", device.name());
    constexpr std::uint64_t kBusyMsMax = 5'000;
    if (device.busy_ms() >= kBusyMsMax) {
      findings.Add(
          {"MC314",
           one,
           absl::StrCat("a call of its driver has not come back for ", HumanTime(device.busy_ms())),
           "an answer within milliseconds; TCP carries on without it",
           kWakeDriver,
           {}});
    }
    if (!CannotBeOpened(device)) continue;
    findings.Add(
        {"MC316",
         one,
         device.state(),
         "a device that mlxcommd may open",
         RunsMacos(facts, node)
             ? absl::StrCat("is another program's use of RDMA at an end?", kAReport)
             : "let the daemon's user read and write /dev/infiniband/uverbs* (group rdma, where "
               "there is one; DeviceAllow of its unit)",
         {}});
  }
}

// By its own word.
bool IsOff(const Facts& facts, const std::string& node) {
  for (const v1::NodeStatus& one : facts.cluster.status.nodes()) {
    if (one.name() == node) return one.answered() && !one.has_rdma();
  }
  return false;
}

bool AnyRailIsUp(const v1::NodeStatus& node) {
  return std::any_of(node.links().begin(), node.links().end(), [](const v1::LinkStatus& link) {
    return std::any_of(link.rails().begin(), link.rails().end(), [](const v1::RailStatus& rail) {
      return rail.transport() == "rdma" && rail.state() == "up";
    });
  });
}

// On Linux names tell nothing of interfaces: what devices there are is told beside what was looked for.
void CheckMatch(const Facts& facts, const v1::NodeStatus& node, const v1::RailStatus& rail,
                const std::string& object, Findings& findings) {
  if (RunsMacos(facts, node) || AnyRailIsUp(node) || node.rdma().devices_size() == 0) return;
  std::string there;
  bool active = false;
  for (const v1::RdmaDevice& device : node.rdma().devices()) {
    if (CannotBeOpened(device)) return;  // Which is told.
    active = active || device.active();
    absl::StrAppend(&there, "; ", device.name(), " is ", device.active() ? "for" : "down");
    for (const std::string& gid : device.gids()) absl::StrAppend(&there, " ", gid);
  }
  findings.Add(
      {active ? "MC313" : "MC306",
       object,
       absl::StrCat(rail.detail(), there),
       absl::StrCat("an active device with an address of ", rail.local_interface(),
                    " among its GIDs"),
       "ibv_devinfo -v shows ports and GIDs; soft-RoCE on this interface: rdma link add rxe0 "
       "type rxe netdev IF. rdma { enabled: false } where it is not to be used",
       {}});
}

// Of what `ulimit -l` gives where nobody has raised it: a rail takes some megabytes.
void CheckLockedMemory(const Facts& facts, const v1::NodeStatus& node, Findings& findings) {
  constexpr std::uint64_t kLockedBytesMin = 64ull << 20;
  if (node.rdma().devices_size() == 0) return;
  for (const v1::NodeCheckup& checkup : facts.cluster.checkups.nodes()) {
    const std::uint64_t most = checkup.locked_bytes_max();
    if (checkup.name() != node.name() || most == 0 || most >= kLockedBytesMin) continue;
    findings.Add(
        {"MC319",
         absl::StrCat("node ", node.name()),
         absl::StrCat("mlxcommd may lock ", HumanBytes(static_cast<double>(most)),
                      " of memory, and RDMA locks what it registers"),
         absl::StrCat(HumanBytes(static_cast<double>(kLockedBytesMin)), " or more"),
         "raise it: LimitMEMLOCK=infinity in mlxcommd.service; ulimit -l for a private one",
         {}});
  }
}

std::string RailObject(const v1::NodeStatus& node, const v1::LinkStatus& link,
                       const v1::RailStatus& rail) {
  return absl::StrCat("RDMA from ", node.name(), " ", rail.local_interface(), " to ", link.peer(),
                      " ", rail.remote_interface());
}

// It could not be made: what the driver, or the other side, said.
Finding SetUpFinding(const std::string& object, const v1::RailStatus& rail) {
  using absl::StrContains;
  const std::string& why = rail.detail();
  const std::string up = "a rail that is up; TCP carries on without it";
  if (StrContains(why, "queue pairs already") || StrContains(why, "no queue pair left") ||
      StrContains(why, "regions already")) {
    return {"MC315",
            object,
            why,
            up,
            "end other programs that use RDMA on this device (MLX's jaccl, other daemons); those "
            "that were "
            "killed may hold theirs until the machine is restarted",
            {}};
  }
  if (StrContains(why, "does not register memory")) {
    return {"MC319",
            object,
            why,
            up,
            "Linux: LimitMEMLOCK=infinity in mlxcommd.service, or ulimit -l; macOS: end other "
            "programs that "
            "use RDMA",
            {}};
  }
  if (StrContains(why, "a GID without IPv4")) {
    const std::string interface =
        StrContains(why, "from a GID") ? rail.local_interface() : rail.remote_interface();
    return {"MC313",
            object,
            why,
            "GIDs of IPv4 addresses at both ends: Apple's devices are known to carry data between "
            "those "
            "alone",
            absl::StrCat(
                "give ", interface,
                " an IPv4 address, any that nobody else has (as root: ifconfig ", interface,
                " inet 169.254.x.y/16 alias). macOS gives it one by itself some minutes after "
                "the cable was plugged in, where the port has a network service; mlxcommd then "
                "tries again by itself"),
            {}};
  }
  if (StrContains(why, "driver does not answer")) {
    return {"MC314", object, why, up, kWakeDriver, {}};
  }
  return {"MC318",
          object,
          why,
          up,
          absl::StrCat("it is tried again by itself; is the cable in, at both ends?", kAReport),
          {}};
}

void CheckRail(const Facts& facts, const v1::NodeStatus& node, const v1::LinkStatus& link,
               const v1::RailStatus& rail, Findings& findings) {
  const std::string object = RailObject(node, link, rail);
  const std::string& reason = rail.rdma().reason();
  const std::string device = absl::StrCat("rdma_", rail.local_interface());
  if (reason == "port") {
    findings.Add({"MC306",
                  object,
                  rail.detail(),
                  "an active port, as the interface carries TCP",
                  absl::StrCat("take the cable of ", rail.local_interface(),
                               " out and in again; both ends need Thunderbolt 5, and RDMA enabled"),
                  {}});
  } else if (reason == "no GID") {
    findings.Add(
        {"MC313",
         object,
         rail.detail(),
         absl::StrCat("an address of ", rail.local_interface(), " among the GIDs of ", device,
                      ", best one of IPv4"),
         absl::StrCat("give ", rail.local_interface(), " an IPv4 address (as root: ifconfig ",
                      rail.local_interface(), " inet 169.254.x.y/16 alias); if it has one, switch ",
                      rail.local_interface(), " off and on (ifconfig ", rail.local_interface(),
                      " down, then up), which has the driver read it again"),
         {}});
  } else if (reason == "tls") {
    findings.Add({"MC320",
                  object,
                  rail.detail(),
                  "a cable that nobody else is on may go without",
                  absl::StrCat("peers { interface_security { interface: \"", rail.local_interface(),
                               "\" security: PLAIN } } on both sides, if it is such a cable"),
                  {}});
  } else if (reason == "peer") {
    const bool waits = absl::StrContains(rail.detail(), "has offered none");
    const bool off =
        absl::StrContains(rail.detail(), "RDMA is off there") || IsOff(facts, link.peer());
    if (waits && !off) return;  // What keeps it is told of the other side.
    const bool lacks = off || absl::StrContains(rail.detail(), "no RDMA device") ||
                       absl::StrContains(rail.detail(), "no library");
    if (!lacks) {
      findings.Add(SetUpFinding(object, rail));
      return;
    }
    findings.Add({"MC317",
                  object,
                  waits ? absl::StrCat("RDMA is off on ", link.peer()) : rail.detail(),
                  absl::StrCat("RDMA on ", link.peer(), " as well"),
                  off ? absl::StrCat("rdma { enabled: true } in the configuration of ", link.peer(),
                                     ", and restart its mlxcommd")
                      : absl::StrCat("mlxcommctl doctor on ", link.peer(), " says what it lacks"),
                  {}});
  } else if (reason == "no device") {
    CheckMatch(facts, node, rail, object, findings);
  } else if (reason == "set-up" && rail.detail() != "is being made") {
    findings.Add(SetUpFinding(object, rail));
  }
}

// What is well, for --all.
std::string Summary(const v1::NodeStatus& node) {
  if (!node.has_rdma()) return "off (rdma { enabled: true } in the configuration)";
  const v1::RdmaStatus& rdma = node.rdma();
  if (rdma.state() != "found") {
    return absl::StrCat(rdma.state(), rdma.detail().empty() ? "" : ": ", rdma.detail());
  }
  std::string text =
      absl::StrCat(rdma.devices_size(), rdma.devices_size() == 1 ? " device" : " devices");
  for (const v1::RdmaDevice& device : rdma.devices()) {
    absl::StrAppend(&text, "; ", device.name(), " ", device.state());
    if (device.queue_pairs_max() == 0) continue;
    absl::StrAppend(&text, ", ", device.queue_pairs(), " of ", device.queue_pairs_max(),
                    " queue pairs, ", device.regions(), " of ", device.regions_max(), " regions");
  }
  return text;
}

// By the system's own word: where no daemon answers, and on Macs that have it switched off.
void CheckOwnSystem(const Facts& facts, Findings& findings) {
  const v1::NodeStatus& own = OwnStatus(facts.cluster);
  const bool off = facts.cluster.daemon_answers && !own.has_rdma();
  if (!off && IsSwitchedOff(facts) && !IsBelowThunderbolt5(facts)) {
    findings.Add({"MC307",
                  "RDMA",
                  "not enabled on this Mac",
                  "enabled, where links are to use RDMA over Thunderbolt",
                  "start into recovery, open Terminal, rdma_ctl enable, restart",
                  {}});
  }
  if (facts.cluster.daemon_answers) return;  // It knows which ports matter.
  for (const RdmaPort& port : facts.system.rdma) {
    const bool plugged = std::any_of(
        facts.system.interfaces.begin(), facts.system.interfaces.end(),
        [&port](const InterfaceFacts& one) { return one.name == port.interface && one.running; });
    if (port.state == "ACTIVE" || port.state.empty() || !plugged) continue;
    findings.Add({"MC306",
                  absl::StrCat("RDMA device ", port.device, " port ", port.port),
                  absl::StrCat("state ", port.state),
                  absl::StrCat("ACTIVE, as ", port.interface, " is running"),
                  absl::StrCat("take the cable of ", port.interface,
                               " out and in again; both ends need Thunderbolt 5, and RDMA enabled"),
                  {}});
  }
}

}  // namespace

void CheckRdma(const Facts& facts, Findings& findings) {
  CheckOwnSystem(facts, findings);
  if (!facts.cluster.daemon_answers) return;
  for (const v1::NodeStatus& node : facts.cluster.status.nodes()) {
    if (!node.answered()) continue;
    CheckDevices(facts, node, findings);
    CheckLockedMemory(facts, node, findings);
    for (const v1::LinkStatus& link : node.links()) {
      for (const v1::RailStatus& rail : link.rails()) {
        if (rail.transport() == "rdma" && rail.state() != "up")
          CheckRail(facts, node, link, rail, findings);
      }
    }
    if (IsOwn(facts, node))
      findings.Add({"MC321", NoDevicesObject(node), Summary(node), "", "", {}});
  }
}

}  // namespace mlxcomm::ctl
