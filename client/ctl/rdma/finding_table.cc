#include <array>
#include <span>
#include <string_view>

#include "client/ctl/doctor/finding.h"
#include "client/ctl/rdma/section.h"

namespace mlxcomm::ctl {
namespace {

using Why = v1::LinkReason;

constexpr std::string_view kRailUp = "a rail that is up; until then the link uses TCP";
constexpr std::string_view kWakeDriver =
    "unplug its cable and plug it in again; if that does not help, restart the machine; if it "
    "still fails, send mlxcommctl bugreport --rdma";
constexpr std::string_view kMatchingDevice =
    "an active device with an address of {interface} among its GIDs";
constexpr std::string_view kFindDevice =
    "ibv_devinfo -v shows ports and GIDs; soft-RoCE on this interface: rdma link add rxe0 type rxe "
    "netdev IF. To do without RDMA, set rdma { enabled: false }";

constexpr auto kRdmaKinds = std::to_array<FindingKind>({
    {"MC306", Severity::kWarning, "an RDMA device's port is not active", "{detail}",
     "an active port, because the interface carries TCP",
     "unplug the cable of {interface} and plug it in again; both ends need Thunderbolt 5, and RDMA "
     "enabled",
     Of(Why::port_down)},
    {.id = "MC306/linux",
     .found = "{detail}{devices}",
     .expected = kMatchingDevice,
     .remedy = kFindDevice},
    {"MC307", Severity::kNote, "RDMA is not enabled", "not enabled on this Mac",
     "enabled, if links should use RDMA over Thunderbolt",
     "start in recovery mode, open Terminal, run rdma_ctl enable, restart"},
    {"MC310", Severity::kNote, "there is no RDMA library", "{detail}",
     "an RDMA verbs library, because RDMA is on",
     "install libibverbs1 and the card's provider (Debian: ibverbs-providers), or set rdma { "
     "enabled: false }"},
    {.id = "MC310/macos",
     .remedy = "upgrade to macOS 26.2 or later, or set rdma { enabled: false }"},
    {"MC311", Severity::kNote, "there is no RDMA device", "the RDMA library lists no device",
     "a device for each Thunderbolt 5 port",
     "load the network card's driver; soft-RoCE: rdma link add rxe0 type rxe netdev IF"},
    {.id = "MC311/macos",
     .remedy = "run rdma_ctl status there: if RDMA is not enabled, start in recovery mode, open "
               "Terminal, run rdma_ctl enable, restart"},
    {"MC312", Severity::kNote, "RDMA needs Thunderbolt 5",
     "no RDMA device, and no Thunderbolt port faster than 40 Gb/s",
     "Thunderbolt 5 (80 Gb/s) at both ends of a cable",
     "none for this Mac: TCP over the same cable is used. rdma { enabled: false } hides this note"},
    {"MC313", Severity::kWarning, "an RDMA device has no GID for its cable's address", "{detail}",
     "an address of {interface}, preferably IPv4, among the GIDs of rdma_{interface}",
     "give {interface} an IPv4 address (as root: ifconfig {interface} inet 169.254.x.y/16 alias). "
     "If it has one, switch {interface} off and on (ifconfig {interface} down, then up), so that "
     "the driver reads it again",
     Of(Why::no_gid)},
    {.id = "MC313/ipv4",
     .expected = "GIDs of IPv4 addresses at both ends: Apple's devices are known to carry data "
                 "only between those",
     .remedy = "give {interface} an unused IPv4 address (as root: ifconfig {interface} inet "
               "169.254.x.y/16 alias), and mlxcommd tries again. If the port has a network "
               "service, macOS does this some minutes after the cable was plugged in",
     .reasons = {Why::gid_without_ipv4, Why::peer_gid_without_ipv4}},
    {.id = "MC313/linux",
     .found = "{detail}{devices}",
     .expected = kMatchingDevice,
     .remedy = kFindDevice},
    {"MC314", Severity::kWarning, "an RDMA driver does not answer, or fails", "{detail}",
     "a driver that answers; until then links use TCP",
     "restart that machine, because a hung driver does not recover; if it still fails, send "
     "mlxcommctl bugreport --rdma"},
    {.id = "MC314/device",
     .found = "a call of its driver has not returned for {time}",
     .remedy = kWakeDriver},
    {.id = "MC314/rail",
     .expected = kRailUp,
     .remedy = kWakeDriver,
     .reasons = {Why::driver_silent, Why::driver_failed}},
    {"MC315", Severity::kWarning, "an RDMA device has no queue pair or region left", "{detail}",
     kRailUp,
     "stop other programs that use RDMA on this device (MLX's jaccl, other daemons); programs that "
     "were killed "
     "may keep theirs until the machine is restarted",
     Of(Why::device_exhausted)},
    {"MC316", Severity::kWarning, "the daemon may not use an RDMA device", "{detail}",
     "a device that mlxcommd may open",
     "let the daemon's user read and write /dev/infiniband/uverbs* (group rdma, if it exists; "
     "DeviceAllow of its unit)"},
    {.id = "MC316/macos",
     .remedy =
         "stop other programs that use RDMA; if it still fails, send mlxcommctl bugreport --rdma"},
    {.id = "MC316/hidden",
     .found = "the system has the RDMA device {device}, but gives mlxcommd none",
     .expected = "/dev/infiniband/uverbs0, which the daemon's user may read and write",
     .remedy = "load the module (modprobe ib_uverbs); pass /dev/infiniband into a container or a "
               "unit with device rules"},
    {"MC317", Severity::kNote, "the other side has no RDMA", "{detail}", "RDMA on {peer} as well",
     "set rdma { enabled: true } in the configuration of {peer}, and restart its mlxcommd",
     Of(Why::transport_off)},
    {.id = "MC317/lacks", .remedy = "mlxcommctl doctor on {peer} says what is missing"},
    {"MC318", Severity::kWarning, "an RDMA rail cannot be set up", "{detail}", kRailUp,
     "check the cable at both ends; mlxcommd keeps trying. If it still fails, send mlxcommctl "
     "bugreport --rdma",
     Of(Why::not_made, Why::device_not_opened)},
    {"MC319", Severity::kWarning, "too little memory may be locked for RDMA",
     "mlxcommd may lock {bytes} of memory, and RDMA locks what it registers", "{least} or more",
     "raise it: LimitMEMLOCK=infinity in mlxcommd.service; ulimit -l for a private daemon"},
    {.id = "MC319/rail",
     .found = "{detail}",
     .expected = kRailUp,
     .remedy = "Linux: LimitMEMLOCK=infinity in mlxcommd.service, or ulimit -l; macOS: stop other "
               "programs that use RDMA",
     .reasons = {Why::device_memory}},
    {"MC320", Severity::kNote, "RDMA is not used beside an encrypted connection", "{detail}",
     "no encryption, if nothing else uses the cable",
     "if nothing else uses it, on both sides: peers { interface_security { interface: "
     "\"{interface}\" security: PLAIN } }",
     Of(Why::encrypted)},
    {"MC321", Severity::kOk, "RDMA", "{summary}"},
});

}  // namespace

std::span<const FindingKind> RdmaFindingKinds() { return kRdmaKinds; }

}  // namespace mlxcomm::ctl
