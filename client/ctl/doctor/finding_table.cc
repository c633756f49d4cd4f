#include <array>
#include <span>
#include <string_view>

#include "client/ctl/doctor/finding.h"

namespace mlxcomm::ctl {
namespace {

using Why = v1::LinkReason;

constexpr std::string_view kLinkUp = "a link that is up";
constexpr std::string_view kOwnId =
    "the machine was copied with its state_directory: on one of the two, end mlxcommd, remove "
    "node-id there, start it";
constexpr std::string_view kMendMtu =
    "ping -M do -s BYTES (macOS: ping -D -s BYTES) finds what passes. If small ones are lost as "
    "well, look at the cable; if only large ones are, an MTU on the way is too small: give both "
    "ends of the cable, and all switches, bridges and tunnels between them, the same (Linux: ip "
    "link set dev IF mtu N; macOS: ifconfig IF mtu N), or both ends the smallest of them";
constexpr std::string_view kReplaceCable =
    "replace the cable, or try another port at either end, or another way where a VPN or a proxy "
    "is on it; if it stays so, test the memory of both machines. A process that writes into a "
    "buffer while an operation uses it looks the same. Whether it goes on: mlxcommctl doctor "
    "--recent 1m";
constexpr std::string_view kOneKey = "the same cluster's name and key on all nodes";
constexpr std::string_view kRailUp = "a rail that is up; TCP carries on without it";
constexpr std::string_view kQuietSsh = "ssh that asks for nothing, as mlxcommctl launch calls it";
constexpr std::string_view kWakeDriver =
    "take its cable out and in again; if that does not help, restart the machine; if it stays so: "
    "mlxcommctl bugreport --rdma";
constexpr std::string_view kInstallService =
    "install the service again (mlxcommctl service install): it copies what the program loads";
constexpr std::string_view kOwnResults =
    "results that lie in the daemon's memory, which MLX computes with";

template <typename... Reasons>
constexpr decltype(FindingKind::reasons) Of(Reasons... reasons) {
  return {reasons...};
}

// Where a further row of a code leaves out what is found or expected, the first one's text stands.
template <std::size_t kRows>
constexpr std::array<FindingKind, kRows> WithTextsOfFirst(std::array<FindingKind, kRows> rows) {
  const FindingKind* first = nullptr;
  for (FindingKind& row : rows) {
    if (row.id == row.code()) first = &row;
    if (row.found.empty()) row.found = first->found;
    if (row.expected.empty()) row.expected = first->expected;
  }
  return rows;
}

constexpr auto kKinds = WithTextsOfFirst(std::to_array<FindingKind>({
    {"MC101", Severity::kError, "no daemon answers", "{why}", "a daemon that answers",
     "start it, and look at its log if it ends"},
    {.id = "MC101/silent",
     .remedy =
         "it runs, but says nothing: is it stopped (kill -CONT its process), or this machine too "
         "busy? Else end it, and start it again"},
    {.id = "MC101/refuses",
     .remedy =
         "do what it says; root and the daemon's own user have places that others cannot take"},
    {.id = "MC101/no_service",
     .remedy =
         "start it (mlxcommd --config FILE), or make it a service "
         "(mlxcommctl service install); if it runs, name its socket (--socket, MLXCOMM_SOCKET)"},
    {.id = "MC101/not_installed",
     .remedy = "install it (mlxcommctl service install), or put mlxcommd into the PATH"},
    {"MC102", Severity::kError, "the configuration has mistakes", "{trouble}",
     "a configuration that mlxcommd --check-config accepts", "fix the lines that are named"},
    {"MC103", Severity::kError, "the key file cannot be used, or others can read it", "{trouble}",
     "the cluster's key, readable by the daemon's user alone",
     "mlxcommctl cluster create on the first machine, mlxcommctl cluster join on each other; a "
     "file without a key has to go first"},
    {.id = "MC103/open",
     .remedy = "let nobody else read it; others may have the key already: mlxcommctl cluster key "
               "rotate"},
    {"MC104", Severity::kWarning, "the daemon has no neighbours configured and listens to none",
     "it listens to no neighbours and dials none", "neighbours, if there are to be any",
     "with a key neighbours are found by themselves: mlxcommctl cluster create on one machine, "
     "mlxcommctl cluster join on the others; then restart the daemon"},
    {"MC105", Severity::kWarning, "mlxcommctl and the daemon are of different versions",
     "mlxcommctl {own}, mlxcommd {version}", "the same version of both",
     "install both from one build, and restart the daemon"},
    {"MC106", Severity::kOk, "the daemon answers",
     "node {node} of cluster {cluster}, mlxcommd {version}"},
    {"MC107", Severity::kError, "a library of the service is not there", "{library} is not there",
     "each library that the program loads: without one it cannot start", kInstallService},
    {"MC108", Severity::kWarning, "the service runs code that others than root may change",
     "root loads {library}",
     "code that root alone may change, in folders that root alone may write to", kInstallService},

    {"MC201", Severity::kError, "a Thunderbolt interface is a member of a bridge",
     "member of {bridge}",
     "no member of a bridge: a bridge passes on frames between its cables, and over looped cables "
     "for ever",
     "take it out of the bridge (as root)"},
    {.id = "MC201/macos",
     .remedy = "take it out of the bridge (as root), and give it a network service of its own: "
               "without one macOS gives it no address, and the next boot puts it back"},
    {"MC202", Severity::kWarning, "an interface is switched off", "switched off",
     "up, so that its cable is of use", "switch it on (as root)"},
    {.id = "MC202/elsewhere",
     .remedy =
         "on {node}, as root: ip link set dev {interface} up (macOS: ifconfig {interface} up)"},
    {"MC203", Severity::kNote, "an interface has no IPv6 link-local address",
     "no IPv6 link-local address", "one, for neighbours are found by it",
     "let the system make one (sysctl net.ipv6.conf.*.addr_gen_mode)"},
    {.id = "MC203/macos",
     .remedy = "give the port a network service with automatic IPv6 (as root): macOS gives "
               "addresses to services"},
    {"MC204", Severity::kWarning, "the firewall may keep neighbours out", "{state}",
     "mlxcommd may be connected to (TCP and UDP 7470, unless configured otherwise)",
     "let the port through: ufw allow 7470; or firewall-cmd --add-port=7470/tcp "
     "--add-port=7470/udp"},
    {.id = "MC204/macos", .remedy = "allow mlxcommd in System Settings, Network, Firewall"},
    // A link-local address is on the cable itself: it needs no route, so the system refuses.
    {"MC205", Severity::kError, "the system keeps the daemon from a neighbour (no route to host)",
     "{detail}", kLinkUp, "{local_network}; else is the cable in?", Of(Why::no_route_to_host)},
    {.id = "MC205/routed",
     .remedy = "is the cable in, and an address of that network on its interface? Else "
               "{local_network}"},
    {"MC206", Severity::kError, "a neighbour refuses the connection", "{detail}", kLinkUp,
     "is mlxcommd running there, and does it listen on this address and port?",
     Of(Why::connection_refused, Why::refused)},
    {"MC207", Severity::kError, "a neighbour does not answer", "{detail}", kLinkUp,
     "is the cable in, the node awake, and does a firewall let TCP through to it?",
     Of(Why::no_answer)},
    {"MC208", Severity::kWarning, "a neighbour's name is not known", "{detail}", kLinkUp,
     "is the name right? IPv6 link-local addresses need the interface: [fe80::1%en2]:7470",
     Of(Why::unknown_host)},
    {.id = "MC209",
     .severity = Severity::kError,
     .title = "a neighbour has another key or cluster",
     .found = "{detail}",
     .expected = kOneKey,
     .remedy =
         "{node} is linked with others, so {peer} is the one to change: there, mlxcommctl cluster "
         "key rotate --take, with the code of mlxcommctl cluster key show on {node}, and the same "
         "cluster in its configuration",
     .reasons = {Why::wrong_key, Why::wrong_cluster, Why::not_proved},
     .explains_loss = true},
    {.id = "MC209/alone",
     .remedy =
         "{node} has no other link, so it is the one to change, unless {peer} has none either "
         "and is to: on {node}, mlxcommctl cluster key rotate --take, with the code of "
         "mlxcommctl cluster key show on {peer}, and the same cluster in its configuration",
     .explains_loss = true},
    {"MC210", Severity::kWarning, "hellos cannot be sent on an interface", "{detail}",
     "hellos that can be sent", "is the interface up, and has it an IPv6 link-local address?"},
    {.id = "MC210/no_route",
     .remedy = "{local_network}; else is the interface up, and has it an IPv6 link-local "
               "address?"},
    {"MC211", Severity::kWarning, "other clusters are heard, but no neighbour",
     "{hellos} hellos of another key or cluster, none of its own", "neighbours with the same key",
     "if those are to be its neighbours: mlxcommctl cluster key show on one of them, mlxcommctl "
     "cluster key rotate --take here. Where one of them is as alone, on one side only. Whether "
     "more are heard: mlxcommctl doctor --recent 10s"},
    {.id = "MC211/refused",
     .found = "{strangers} without its key, the last {ago} ago, and no neighbour",
     .remedy = "if those are to be its neighbours (mlxcommctl events says from where they come): "
               "mlxcommctl cluster key show on one of them, mlxcommctl cluster key rotate --take "
               "here. Where one of them is as alone, on one side only. Whether more come: "
               "mlxcommctl doctor --recent 10s",
     .depends_on = {"MC211"}},  // Hellos tell the same.
    {.id = "MC212",
     .severity = Severity::kWarning,
     .title = "there is no interface to look for neighbours on",
     .found = "{unused}",
     .expected = "an interface that a neighbour can be heard on",
     .remedy = "plug in a cable, or name the interfaces in discovery { interfaces }",
     .depends_on = {"MC202"}},
    {.id = "MC212/no_ipv6",
     .found = "IPv6 is off on {interfaces}",
     .expected = "IPv6, by which neighbours find each other",
     .remedy = "{how}, and restart mlxcommd",
     .depends_on = {"MC202"}},
    {"MC213", Severity::kError, "two machines have the same node id", "{detail}",
     "an id for each node",
     "the machine was copied with its state_directory: do there what is said above"},
    {.id = "MC213/linked",
     .found = "another machine, at {at}, has the id of {peer} as well",
     .remedy = kOwnId},
    {.id = "MC213/refused", .remedy = kOwnId, .reasons = {Why::same_id}, .explains_loss = true},
    {"MC214", Severity::kNote, "no neighbour is heard", "says hello, and hears nobody",
     "neighbours, if there are to be any",
     "is mlxcommd running on them, the cable in, and does a firewall here or there let UDP 7470 "
     "through? {local_network}"},

    {"MC301", Severity::kWarning, "a cable is plugged in but carries nothing",
     "connected to {peer}, but no rail is over it", "a rail to the node at the other end",
     "is mlxcommd running there, with the same key, and is the interface allowed and no member of "
     "a bridge on both?"},
    {"MC302", Severity::kWarning, "a cable leads back to this machine",
     "its cable ends in another port of this machine", "another node at the other end",
     "plug one end into a neighbour"},
    {.id = "MC302/heard",
     .found = "{detail}",
     .expected = "another node at the other end of each cable",
     .remedy = "plug one end of the cable into a neighbour; two ports on one switch are no harm"},
    {.id = "MC302/dialed",
     .found = "it leads to this node itself",
     .remedy = "plug one end of the cable into a neighbour, or take this address out of peers { "
               "connect }",
     .reasons = {Why::own_node}},
    {"MC303", Severity::kNote, "cables are paired differently than they could be",
     "{cables} cables between {one} and {other}, none between {last} and {first}", "a closed ring",
     "let one of them join {last} and {first}"},
    {"MC304", Severity::kWarning, "a Thunderbolt link is slower than its port", "runs at {speed}",
     "{fastest} Gb/s, as another port of this machine does",
     "use a cable of that rate, and a port of that generation at the other end"},
    {"MC305", Severity::kWarning, "a cable of a link is down", "{state}", "up",
     "is it in, at both ends? The link goes on without it, slower"},
    {.id = "MC305/routed",
     .remedy = "is it in, at both ends? The nodes reach each other through others"},
    {"MC306", Severity::kWarning, "an RDMA device's port is not active", "state {state}",
     "ACTIVE, as {interface} is running",
     "take the cable of {interface} out and in again; both ends need Thunderbolt 5, and RDMA "
     "enabled"},
    {.id = "MC306/rail",
     .found = "{detail}",
     .expected = "an active port, as the interface carries TCP",
     .remedy = "take the cable of {interface} out and in again; both ends need Thunderbolt 5, and "
               "RDMA enabled",
     .reasons = {Why::rdma_port_down}},
    {.id = "MC306/linux",
     .found = "{detail}{devices}",
     .expected = "an active device with an address of {interface} among its GIDs",
     .remedy = "ibv_devinfo -v shows ports and GIDs; soft-RoCE on this interface: rdma link add "
               "rxe0 type rxe netdev IF. rdma { enabled: false } where it is not to be used"},
    {"MC307", Severity::kNote, "RDMA is not enabled", "not enabled on this Mac",
     "enabled, where links are to use RDMA over Thunderbolt",
     "start into recovery, open Terminal, rdma_ctl enable, restart"},
    {"MC308", Severity::kOk, "Thunderbolt ports",
     "{ports} ports or devices, {connected} connected to other computers{generation}"},
    {"MC309", Severity::kWarning, "a neighbour is heard, but not linked",
     "hears {neighbour} (its {remote}, {address}), but no link leads to it",
     "a link to it, within a second or two",
     "let a firewall on either pass TCP to that port; mlxcommctl doctor on {neighbour} may say "
     "more"},
    {"MC310", Severity::kNote, "there is no library of RDMA", "{detail}",
     "a library of RDMA verbs, as RDMA is on",
     "install libibverbs1 and the provider of the card (Debian: ibverbs-providers); or rdma { "
     "enabled: false }"},
    {.id = "MC310/macos", .remedy = "macOS 26.2 or later; or rdma { enabled: false }"},
    {"MC311", Severity::kNote, "there is no RDMA device", "the library of RDMA lists no device",
     "one for each Thunderbolt 5 port",
     "load the driver of the network card; soft-RoCE: rdma link add rxe0 type rxe netdev IF"},
    {.id = "MC311/macos",
     .remedy = "rdma_ctl status there says whether RDMA is enabled: if not, start into recovery, "
               "open Terminal, rdma_ctl enable, restart"},
    {"MC312", Severity::kNote, "RDMA needs Thunderbolt 5",
     "no RDMA device, and no Thunderbolt port of more than 40 Gb/s",
     "Thunderbolt 5 (80 Gb/s), at both ends of a cable",
     "none for this Mac: TCP over the same cable is used. rdma { enabled: false } leaves this note "
     "out"},
    {"MC313", Severity::kWarning, "an RDMA device does not know its cable's address", "{detail}",
     "an address of {interface} among the GIDs of rdma_{interface}, best one of IPv4",
     "give {interface} an IPv4 address (as root: ifconfig {interface} inet 169.254.x.y/16 alias); "
     "if it has one, switch {interface} off and on (ifconfig {interface} down, then up), which has "
     "the driver read it again",
     Of(Why::rdma_no_gid)},
    {.id = "MC313/ipv4",
     .expected = "GIDs of IPv4 addresses at both ends: Apple's devices are known to carry data "
                 "between those alone",
     .remedy = "give {interface} an IPv4 address, any that nobody else has (as root: ifconfig "
               "{interface} inet 169.254.x.y/16 alias). macOS gives it one by itself some minutes "
               "after the cable was plugged in, where the port has a network service; mlxcommd "
               "then tries again by itself",
     .reasons = {Why::rdma_gid_without_ipv4, Why::rdma_peer_gid_without_ipv4}},
    {.id = "MC313/linux",
     .found = "{detail}{devices}",
     .expected = "an active device with an address of {interface} among its GIDs",
     .remedy = "ibv_devinfo -v shows ports and GIDs; soft-RoCE on this interface: rdma link add "
               "rxe0 type rxe netdev IF. rdma { enabled: false } where it is not to be used"},
    {"MC314", Severity::kWarning, "an RDMA driver does not answer, or fails", "{detail}",
     "a driver that answers; TCP carries on without it",
     "restart that machine: a driver that hangs does not come back by itself"
     "; if it stays so: mlxcommctl bugreport --rdma"},
    {.id = "MC314/device",
     .found = "a call of its driver has not come back for {time}",
     .expected = "an answer within milliseconds; TCP carries on without it",
     .remedy = kWakeDriver},
    {.id = "MC314/rail",
     .expected = kRailUp,
     .remedy = kWakeDriver,
     .reasons = {Why::rdma_driver_silent, Why::rdma_driver_failed}},
    {"MC315", Severity::kWarning, "an RDMA device has no queue pair or region left", "{detail}",
     kRailUp,
     "end other programs that use RDMA on this device (MLX's jaccl, other daemons); those that "
     "were killed may hold theirs until the machine is restarted",
     Of(Why::rdma_exhausted)},
    {"MC316", Severity::kWarning, "the daemon may not use an RDMA device", "{detail}",
     "a device that mlxcommd may open",
     "let the daemon's user read and write /dev/infiniband/uverbs* (group rdma, where there is "
     "one; DeviceAllow of its unit)"},
    {.id = "MC316/macos",
     .remedy = "is another program's use of RDMA at an end?"
               "; if it stays so: mlxcommctl bugreport --rdma"},
    {.id = "MC316/hidden",
     .found = "the system has the RDMA device {device}, but gives mlxcommd none",
     .expected = "/dev/infiniband/uverbs0, which the daemon's user may read and write",
     .remedy = "load the module (modprobe ib_uverbs); in a container or a unit with device rules "
               "pass /dev/infiniband on"},
    {"MC317", Severity::kNote, "the other side has no RDMA", "{detail}", "RDMA on {peer} as well",
     "rdma { enabled: true } in the configuration of {peer}, and restart its mlxcommd",
     Of(Why::rdma_off)},
    {.id = "MC317/lacks", .remedy = "mlxcommctl doctor on {peer} says what it lacks"},
    {"MC318", Severity::kWarning, "an RDMA rail cannot be made", "{detail}", kRailUp,
     "it is tried again by itself; is the cable in, at both ends?"
     "; if it stays so: mlxcommctl bugreport --rdma",
     Of(Why::rdma_not_made, Why::rdma_not_opened)},
    {"MC319", Severity::kWarning, "little memory may be locked for RDMA",
     "mlxcommd may lock {bytes} of memory, and RDMA locks what it registers", "{least} or more",
     "raise it: LimitMEMLOCK=infinity in mlxcommd.service; ulimit -l for a private one"},
    {.id = "MC319/rail",
     .found = "{detail}",
     .expected = kRailUp,
     .remedy = "Linux: LimitMEMLOCK=infinity in mlxcommd.service, or ulimit -l; macOS: end other "
               "programs that use RDMA",
     .reasons = {Why::rdma_memory}},
    {"MC320", Severity::kNote, "a connection is encrypted, so RDMA is not used beside it",
     "{detail}", "a cable that nobody else is on may go without",
     "peers { interface_security { interface: \"{interface}\" security: PLAIN } } on both sides, "
     "if "
     "it is such a cable",
     Of(Why::rdma_encrypted)},
    {"MC321", Severity::kOk, "RDMA", "{summary}"},

    {"MC401", Severity::kWarning, "the machine goes to sleep when nobody uses it",
     "the machine sleeps when it is idle",
     "awake, between jobs as well: a sleeping node is a lost node",
     "let it stay awake on mains power (as root)"},
    {"MC402", Severity::kWarning, "few files may be open",
     "mlxcommd has {open} of {most} open files", "room for {least} or more",
     "raise it: LimitNOFILE in mlxcommd.service, SoftResourceLimits in the plist, ulimit -n for a "
     "private one"},
    {"MC403", Severity::kWarning, "the clock is not synchronised", "not synchronised",
     "a clock that follows others: logs and traces of nodes are compared by it",
     "let the system set it (as root)"},
    {"MC404", Severity::kNote, "something could not be found out", "{unknown}", "an answer"},
    {"MC405", Severity::kWarning, "results are copied: MLX does not take the daemon's memory",
     "{said}", kOwnResults,
     "values are right, but each result is read and written once more, and each input that was one "
     "(mlxcommctl status says how long that has taken). In a virtual machine: run MLX outside of "
     "it. Else send a report: mlxcommctl bugreport"},
    {"MC406", Severity::kNote, "results are copied, as MLXCOMM_RESULTS says", "{said}", kOwnResults,
     "unset MLXCOMM_RESULTS, if nothing here needs it: each result is read and written once more"},
    {"MC407", Severity::kError, "MLX reads other bytes than lie in the daemon's memory", "{said}",
     "the bytes that the daemon wrote",
     "set MLXCOMM_RESULTS=copy for all that uses MLX here, for results may be wrong without; and "
     "send a report: mlxcommctl bugreport"},
    {"MC408", Severity::kWarning, "the self test of the Python package fails", "{said}",
     "a self test that says where results lie",
     "see what it says by hand: {program} -m mlxcomm.check_results; where it does not fit MLX or "
     "the daemon, install the package again"},
    {"MC409", Severity::kOk, "results of the Python package", "results lie in the daemon's memory"},
    {"MC410", Severity::kNote, "the clock follows no other", "not synchronised",
     "a synchronised clock, once there are other nodes: their logs are compared by it",
     "let the system set it (as root)"},

    {"MC501", Severity::kError, "a node does not answer", "does not answer in time", "an answer",
     "look at its mlxcommd, and at what loads that machine"},
    {.id = "MC501/cut_off", .remedy = "repair the link that is down; else look at its mlxcommd"},
    {.id = "MC501/lost",
     .found = "lost",
     .expected = "up",
     .remedy = "is the machine awake, and mlxcommd running?"},
    {"MC502", Severity::kError, "a link is down", "{detail}", kLinkUp,
     "is mlxcommd running there, and the cable in?"},
    {.id = "MC502/interface",
     .remedy = "is the cable in, at both ends, and the interface up?",
     .reasons = {Why::interface_down}},
    {.id = "MC502/carrier",
     .found = "{detail}; interface {interface} of {node} is connected to nothing now",
     .remedy = "is the cable in, at both ends, and the interface up?"},
    {.id = "MC502/off",
     .found = "interface {interface} of {off_node} is switched off",
     .remedy =
         "on {off_node}, as root: ip link set dev {interface} up (macOS: ifconfig {interface} "
         "up)",
     .explains_loss = true},
    {.id = "MC502/knocks",
     .found = "{detail}; {who}",
     .remedy = "if they are of {peer}, it has another key: there, mlxcommctl cluster key rotate "
               "--take, with the code of mlxcommctl cluster key show on {node}. Else is mlxcommd "
               "running there, and the cable in?",
     .explains_loss = true},
    {.id = "MC502/stranger",
     .remedy = "are address and port right? Another program answers there",
     .reasons = {Why::not_a_daemon}},
    {.id = "MC502/version",
     .remedy = "upgrade the older of the two: a release links with the one before it",
     .reasons = {Why::version_too_far}},
    {.id = "MC502/way",
     .remedy = "the two reached each other through other nodes: look at the cables and links of "
               "these, and whether mlxcommd runs there",
     .reasons = {Why::way_lost_link, Why::way_ended},
     .depends_on = {"MC205", "MC205/routed", "MC206", "MC207", "MC208", "MC209", "MC209/alone",
                    "MC213/refused", "MC302/dialed", "MC502", "MC502/carrier", "MC502/interface",
                    "MC502/knocks", "MC502/off", "MC502/stranger", "MC502/version", "MC514/down",
                    "MC515/down"}},
    {"MC503", Severity::kWarning, "nodes run different versions", "{versions}",
     "the same mlxcommd on all nodes", "install the same version everywhere"},
    {"MC504", Severity::kWarning, "clocks of nodes differ", "its clock is {time} {direction}",
     "less than a second apart", "let the systems set their clocks"},
    {"MC505", Severity::kWarning, "the two ends of a cable have different MTUs",
     "MTU {one} and {other}", "the same at both ends",
     "give both the same: on {node}, ip link set dev {interface} mtu {larger} (macOS: ifconfig IF "
     "mtu {larger})"},
    {"MC506", Severity::kWarning, "a link is much slower than the others",
     "has carried {rate} at best", "about {best}, as the fastest has",
     "a ring is as fast as its slowest cable: try another cable or port; if it was never busy, "
     "mlxcommctl bench measures it"},
    {"MC507", Severity::kWarning, "a link is slower in one direction",
     "{out} towards {peer}, {back} back", "about the same both ways",
     "try another cable; does another program use one of the two machines?"},
    {"MC508", Severity::kNote, "the nodes form a line: a ring is not closed",
     "a line of {nodes} nodes", "a closed ring",
     "a cable between {last} and {first} would close it"},
    {"MC509", Severity::kWarning, "strangers were refused",
     "{strangers} without proof of the key since its start, the last {ago} ago", "none",
     "mlxcommctl events there, or its log, says from where; whether more come: mlxcommctl doctor "
     "--recent 1m"},
    {"MC510", Severity::kWarning, "a job has failed or waits for long", "{detail}",
     "a job that runs",
     "mlxcommctl record tells of its last operations; it is forgotten once its ranks have ended"},
    {.id = "MC510/waits",
     .remedy = "let that process go on, or end it: the other ranks then get an error"},
    {.id = "MC510/circle",
     .remedy =
         "end the job (mlxcommctl kill); then have one of these ranks receive before it sends, "
         "or set a larger MLXCOMM_SEND_BYTES"},
    {.id = "MC510/halves",
     .expected = "all ranks in one job",
     .remedy =
         "set those variables to the same on all ranks, or MLXCOMM_JOB to one name, and start "
         "them again; mlxcommctl launch does so"},
    {.id = "MC510/forming",
     .expected = "all ranks of the job",
     .remedy = "start those that are awaited, with the same job's name and size and on a node of "
               "this cluster; or end those that wait"},
    {"MC511", Severity::kOk, "nodes and links", "{nodes} up, shape {shape}"},
    {"MC512", Severity::kNote, "nodes hold different keys", "{keys}", "the same key on all nodes",
     "end the change of the key: mlxcommctl cluster key rotate --take on those that have the old "
     "one, then mlxcommctl cluster key rotate --finish on each"},
    {"MC513", Severity::kWarning, "nodes were refused, or have yielded their place",
     "{refused} since its start, the last {ago} ago; {linked} nodes are linked with it now, {most} "
     "may be",
     "none",
     "if all of them are yours, raise peers { nodes_max } in its configuration; else stop those "
     "that are not: mlxcommctl events there, or its log, says from where they came"},
    {"MC514", Severity::kWarning, "bytes were changed or lost on the way",
     "{times}, last on {cable} {ago} ago; no wrong byte was delivered, all was sent again",
     "bytes that arrive as they were sent", kReplaceCable},
    {.id = "MC514/down",
     .found = "{detail}",
     .expected = kLinkUp,
     .remedy = kReplaceCable,
     .reasons = {Why::bytes_changed}},
    {"MC515", Severity::kError, "large frames do not pass",
     "small frames pass, large ones do not, on {cable}", "frames of any size", kMendMtu},
    {.id = "MC515/down", .found = "{detail}", .remedy = kMendMtu, .reasons = {Why::large_lost}},
    {"MC516", Severity::kWarning, "a daemon is draining", "draining, {waits}",
     "a daemon that takes new jobs",
     "it got a signal to stop: let its jobs end, or end them; it ends then, and takes jobs once "
     "mlxcommd is started again"},
    {"MC517", Severity::kNote, "a job waits for ranks", "{detail}", "all ranks of the job",
     "start those that are awaited, where that is not about to happen"},
    {"MC518", Severity::kWarning, "a restart was refused", "{refused} ({ago} ago)",
     "the program and configuration that lie on its disk, which it was to restart with",
     "fix that; then on {node}, as root: mlxcommctl service restart. Or let it stay as it is: "
     "mlxcommctl service restart --cancel"},
    {"MC519", Severity::kNote, "a job failed within the last ten minutes", "{how}",
     "jobs that end by themselves", "mlxcommctl events shows what happened before"},
    {"MC520", Severity::kWarning, "nodes have the same name", "{nodes}",
     "a name of its own for each",
     "on all but one: node_name in the configuration, or on macOS sudo scutil --set LocalHostName; "
     "then mlxcommctl service restart there"},

    {"MC601", Severity::kError, "ssh cannot be started", "{said}", "OpenSSH's client",
     "install it (openssh-client), or say how it is called: --ssh-command"},
    {"MC602", Severity::kError, "a host's name is not known", "{said}",
     "a name that this machine finds an address for",
     "is the name right? A Mac is NAME.local in its own network; an alias for ssh goes into "
     "~/.ssh/config: Host {host}, HostName ADDRESS"},
    {"MC603", Severity::kError, "a host refuses ssh", "{said}", "sshd, which takes connections",
     "on that Mac: System Settings, General, Sharing, Remote Login; on Linux: start sshd. Where it "
     "listens at another port: Port in ~/.ssh/config"},
    {"MC604", Severity::kError, "a host does not answer ssh", "{said}", kQuietSsh,
     "is it awake and on this network, and does a firewall let TCP port 22 through? Where it "
     "answers by hand (ssh {host} true), what its shell starts may wait for something"},
    {.id = "MC604/no_route", .remedy = "is it awake and on this network? Else {local_network}"},
    {"MC605", Severity::kError, "a host's key is not known, or has changed", "{said}",
     "a host key that is known here",
     "connect once by hand, compare the fingerprint and take it: ssh {host} true"},
    {.id = "MC605/changed",
     .expected = "the host key that is known here",
     .remedy = "where the machine was set up again: forget its old key, and connect once by hand; "
               "else somebody may stand between the two"},
    {"MC606", Severity::kError, "a host does not let this user in without a password", "{said}",
     "a key of this user that the host takes, and no question",
     "give the host this user's key (none yet: ssh-keygen -t ed25519); one with a passphrase has "
     "to be in the agent: ssh-add. Another user there: USER@HOST"},
    {"MC607", Severity::kError, "ssh to a host fails", "{said}", kQuietSsh,
     "see what it says by hand: ssh -v {host} true; a login shell there has to run what it is "
     "given"},
    {"MC608", Severity::kError, "mlxcommctl is not found on a host, or does not run",
     "it is not where it is here, nor in {searched}", "mlxcommctl {own}",
     "install mlxcomm there, at the same path as here; or link its mlxcommctl into "
     "/usr/local/bin. What a shell's profile adds to PATH is not seen: ssh reads none"},
    {.id = "MC608/broken",
     .found = "{path} {said}",
     .remedy = "install the same release of mlxcomm there again"},
    {"MC609", Severity::kError, "mlxcommctl on a host is of another release",
     "{path} is of release {version}", "release {own}, as here",
     "install the same release on both: launch takes no other"},
    {"MC610", Severity::kError, "no daemon answers on a host", "{said}",
     "mlxcommd of this cluster, which ranks there go through",
     "start it there; mlxcommctl doctor on that host says more (ssh {host})"},
    {"MC611", Severity::kWarning, "the daemon of a host is not in this cluster",
     "node {node} of cluster {cluster}, which no link leads to",
     "a node of cluster {own_cluster} that is up",
     "ranks there would never meet those of this cluster. The same cluster's name and key on both "
     "(mlxcommctl cluster join), and a cable or network between them; where it is a private "
     "daemon that answers, start the service there"},
    {"MC612", Severity::kWarning, "a node has no name for ssh",
     "what it is called is no host's name", "a name for ssh, as launch --nodes takes it",
     "node_name in its configuration; or name hosts: --hosts, --hostfile"},
    {"MC613", Severity::kNote, "there are no hosts to try ssh with", "{why}",
     "hosts besides this machine", "name some: --hosts a,b, or --hostfile FILE"},
    {"MC614", Severity::kOk, "ssh to a host",
     "{path} of release {version}, node {node} of cluster {cluster}"},
}));

}  // namespace

std::span<const FindingKind> FindingKinds() { return kKinds; }

}  // namespace mlxcomm::ctl
