#include <array>
#include <span>
#include <string_view>

#include "client/ctl/doctor/finding.h"

namespace mlxcomm::ctl {
namespace {

using Why = v1::LinkReason;

constexpr std::string_view kLinkUp = "a link that is up";
constexpr std::string_view kOwnId =
    "one machine is a copy of the other, with its state_directory: on one of the two, stop "
    "mlxcommd, delete node-id there and start it again";
constexpr std::string_view kFixMtu =
    "ping -M do -s BYTES (macOS: ping -D -s BYTES) finds the sizes that pass. If small packets are "
    "lost as well, check the cable. If only large ones are lost, an MTU on the path is too small: "
    "set the same MTU at both ends of the cable and on all switches, bridges and tunnels between "
    "them (Linux: ip link set dev IF mtu N; macOS: ifconfig IF mtu N), or lower both ends to the "
    "smallest";
constexpr std::string_view kReplaceCable =
    "replace the cable, or try another port at either end, or a path without a VPN or proxy. If it "
    "continues (mlxcommctl doctor --recent 1m), test the memory of both machines. A process that "
    "writes into a buffer while an operation uses it has the same effect";
constexpr std::string_view kOneKey = "the same cluster name and key on all nodes";
constexpr std::string_view kInstallService =
    "install the service again (mlxcommctl service install): it copies the libraries that the "
    "program loads";
constexpr std::string_view kOwnResults = "results in the daemon's memory, where MLX uses them";
constexpr std::string_view kTakeTheirKey =
    "if these should be its neighbours: run mlxcommctl cluster key show on one of them and "
    "mlxcommctl cluster key rotate --take here. If both are alone, do this on one of them only. To "
    "see whether more come: mlxcommctl doctor --recent 10s";
constexpr std::string_view kSwitchOn =
    "on {node}, as root: ip link set dev {interface} up (macOS: ifconfig {interface} up)";
constexpr std::string_view kCheckCable =
    "check the cable at both ends, and that the interface is up";

constexpr auto kKinds = std::to_array<FindingKind>({
    {"MC101", Severity::kError, "no daemon answers", "{why}", "a daemon that answers",
     "start it; if it exits, read its log"},
    {.id = "MC101/silent",
     .remedy = "it runs but does not answer: it may be stopped (kill -CONT its process), or this "
               "machine overloaded. Otherwise end it, and start it again"},
    {.id = "MC101/refuses",
     .remedy =
         "follow the daemon's message; root and the daemon's own user have reserved connections"},
    {.id = "MC101/no_service",
     .remedy = "start it (mlxcommd --config FILE), or install it as a service (mlxcommctl service "
               "install); if it runs, name its socket (--socket, MLXCOMM_SOCKET)"},
    {.id = "MC101/not_installed",
     .remedy = "install it (mlxcommctl service install), or add mlxcommd to the PATH"},
    {"MC102", Severity::kError, "the configuration has mistakes", "{trouble}",
     "a configuration that mlxcommd --check-config accepts", "fix the lines named above"},
    {"MC103", Severity::kError, "the key file cannot be used, or others can read it", "{trouble}",
     "the cluster's key, readable only by the daemon's user",
     "run mlxcommctl cluster create on the first machine and mlxcommctl cluster join on each "
     "other; delete a file without a key first"},
    {.id = "MC103/open",
     .remedy = "let only its owner read it; others may already have the key: mlxcommctl cluster "
               "key rotate"},
    {"MC104", Severity::kWarning, "the daemon neither listens for neighbours nor connects to any",
     "no listen address, no peers and no discovery", "neighbours, if this node should have any",
     "nodes with the same key find each other: run mlxcommctl cluster create on one machine and "
     "mlxcommctl cluster join on the others; then restart the daemon"},
    {"MC105", Severity::kWarning, "mlxcommctl and the daemon have different versions",
     "mlxcommctl {own}, mlxcommd {version}", "the same version of both",
     "install both from one build, and restart the daemon"},
    {"MC106", Severity::kOk, "the daemon answers",
     "node {node} of cluster {cluster}, mlxcommd {version}"},
    {"MC107", Severity::kError, "a library of the service is missing", "{library} does not exist",
     "each library that the program loads: without one it cannot start", kInstallService},
    {"MC108", Severity::kWarning, "the service runs code that users other than root can change",
     "root loads {library}", "code in files and folders that only root can write to",
     kInstallService},

    {"MC201", Severity::kError, "a Thunderbolt interface is a member of a bridge",
     "member of {bridge}",
     "not in a bridge, which forwards frames between its cables, and over looped ones forever",
     "take it out of the bridge (as root)"},
    {.id = "MC201/macos",
     .remedy = "take it out of the bridge (as root), and give it its own network service: without "
               "one macOS gives it no address, and the next boot puts it back"},
    {"MC202", Severity::kWarning, "an interface is switched off", "switched off",
     "up, so that its cable can be used", "switch it on (as root)"},
    {.id = "MC202/elsewhere", .remedy = kSwitchOn},
    {"MC203", Severity::kNote, "an interface has no IPv6 link-local address",
     "no IPv6 link-local address", "a link-local address, by which neighbours are found",
     "let the system create one (sysctl net.ipv6.conf.*.addr_gen_mode)"},
    {.id = "MC203/macos",
     .remedy = "give the port a network service with automatic IPv6 (as root): macOS gives "
               "addresses to services"},
    {"MC204", Severity::kWarning, "the firewall may block neighbours", "{state}",
     "mlxcommd reachable on TCP and UDP 7470, unless configured otherwise",
     "open the port: ufw allow 7470; or firewall-cmd --add-port=7470/tcp --add-port=7470/udp"},
    {.id = "MC204/macos", .remedy = "allow mlxcommd in System Settings, Network, Firewall"},
    // A link-local address is on the cable itself: it needs no route, so the system refuses.
    {"MC205", Severity::kError, "the system blocks connections to a neighbour (no route to host)",
     "{detail}", kLinkUp, "{local_network}. Otherwise check the cable", Of(Why::no_route_to_host)},
    {.id = "MC205/routed",
     .remedy = "check the cable, and that its interface has an address in that network. Otherwise: "
               "{local_network}"},
    {"MC206", Severity::kError, "a neighbour refuses the connection", "{detail}", kLinkUp,
     "check that mlxcommd runs there, and listens on this address and port",
     Of(Why::connection_refused, Why::refused)},
    {"MC207", Severity::kError, "a neighbour does not answer", "{detail}", kLinkUp,
     "check the cable, that the node is awake, and that no firewall blocks TCP to it",
     Of(Why::no_answer)},
    {"MC208", Severity::kWarning, "a neighbour's name is unknown", "{detail}", kLinkUp,
     "check the name. IPv6 link-local addresses need the interface: [fe80::1%en2]:7470",
     Of(Why::unknown_host)},
    {.id = "MC209",
     .severity = Severity::kError,
     .title = "a neighbour has another key or cluster",
     .found = "{detail}",
     .expected = kOneKey,
     .remedy = "{node} has other links, so change {peer}: run mlxcommctl cluster key rotate --take "
               "there, with the code that mlxcommctl cluster key show prints on {node}, and "
               "configure the same cluster name",
     .reasons = {Why::wrong_key, Why::wrong_cluster, Why::not_proved},
     .explains_loss = true},
    {.id = "MC209/alone",
     .remedy = "{node} has no other link, so change {node} (or {peer}, if that has none either): "
               "run mlxcommctl cluster key rotate --take there, with the code that mlxcommctl "
               "cluster key show prints on {peer}, and configure the same cluster name",
     .explains_loss = true},
    {"MC210", Severity::kWarning, "hellos cannot be sent on an interface", "{detail}",
     "an interface that can send hellos",
     "check that the interface is up, and has an IPv6 link-local address"},
    {.id = "MC210/no_route",
     .remedy = "{local_network}. Otherwise check that the interface is up, and has an IPv6 "
               "link-local address"},
    {"MC211", Severity::kWarning, "other clusters are heard, but no neighbour",
     "{hellos} hellos with another key or cluster, none with this node's",
     "neighbours with the same key", kTakeTheirKey},
    {.id = "MC211/refused",
     .found = "{strangers} without its key, the last {ago} ago, and no neighbour (mlxcommctl "
              "events shows their addresses)",
     .depends_on = {"MC211"}},
    {.id = "MC212",
     .severity = Severity::kWarning,
     .title = "no interface can be used to find neighbours",
     .found = "{unused}",
     .expected = "an interface on which neighbours can be heard",
     .remedy = "plug in a cable, or name the interfaces in discovery { interfaces }",
     .depends_on = {"MC202"}},
    {.id = "MC212/no_ipv6",
     .found = "IPv6 is off on {interfaces}",
     .expected = "IPv6, by which neighbours find each other",
     .remedy = "switch it on ({how}), and restart mlxcommd",
     .depends_on = {"MC202"}},
    {"MC213", Severity::kError, "two machines have the same node id", "{detail}",
     "a different id for each node", kOwnId},
    {.id = "MC213/linked", .found = "another machine, at {at}, also has the id of {peer}"},
    {.id = "MC213/refused", .reasons = {Why::same_id}, .explains_loss = true},
    {"MC214", Severity::kNote, "no neighbour is heard", "sends hellos, but hears none",
     "neighbours, if this node should have any",
     "check that mlxcommd runs on them, that the cable is plugged in, and that no firewall on "
     "either side blocks UDP 7470. {local_network}"},

    {"MC301", Severity::kWarning, "a cable is plugged in but carries nothing",
     "connected to {peer}, but no rail uses it", "a rail to the node at the other end",
     "check that mlxcommd runs there with the same key, and that on both sides the interface is "
     "allowed and not in a bridge"},
    {"MC302", Severity::kWarning, "a cable leads back to this machine",
     "its cable ends in another port of this machine", "another node at the other end",
     "plug one end into a neighbour"},
    {.id = "MC302/heard",
     .found = "{detail}",
     .remedy = "plug one end of the cable into a neighbour; two ports on one switch are harmless"},
    {.id = "MC302/dialed",
     .found = "it leads to this node itself",
     .remedy = "plug one end of the cable into a neighbour, or remove this address from peers { "
               "connect }",
     .reasons = {Why::own_node}},
    {"MC303", Severity::kNote, "the cables could form a ring, but do not",
     "{cables} cables between {one} and {other}, none between {last} and {first}", "a closed ring",
     "move one of them between {last} and {first}"},
    {"MC304", Severity::kWarning, "a Thunderbolt link is slower than its port", "runs at {speed}",
     "{fastest} Gb/s, like another port of this machine",
     "use a cable of that speed, and a port of that generation at the other end"},
    {"MC305", Severity::kWarning, "a cable of a link is down", "{state}", "up",
     "check that it is plugged in at both ends. The link works without it, but slower"},
    {.id = "MC305/routed",
     .remedy =
         "check that it is plugged in at both ends. The nodes reach each other through others"},
    {"MC308", Severity::kOk, "Thunderbolt ports",
     "{ports} ports or devices, {connected} connected to other computers{generation}"},
    {"MC309", Severity::kWarning, "a neighbour is heard, but not linked",
     "hears {neighbour} (its {remote}, {address}), but has no link to it",
     "a link to it within two seconds",
     "let TCP to that port through the firewalls of both; mlxcommctl doctor on {neighbour} may say "
     "more"},

    {"MC401", Severity::kWarning, "the machine sleeps when it is idle", "idle sleep is on",
     "awake between jobs as well: a sleeping node is a lost node",
     "keep it awake on mains power (as root)"},
    {"MC402", Severity::kWarning, "the limit of open files is low",
     "mlxcommd has {open} of {most} open files", "room for {least} or more",
     "raise it: LimitNOFILE in mlxcommd.service, SoftResourceLimits in the plist, ulimit -n for a "
     "private daemon"},
    {"MC403", Severity::kWarning, "the clock is not synchronised", "not synchronised",
     "a synchronised clock, so that logs and traces of different nodes can be compared",
     "let the system set it (as root)"},
    {"MC404", Severity::kNote, "something could not be checked", "{unknown}", "an answer"},
    {"MC405", Severity::kWarning, "results are copied: MLX does not use the daemon's memory",
     "{message}", kOwnResults,
     "results are right, but each is copied once more, and so is each input that was a result "
     "(mlxcommctl status shows the time it took). In a virtual machine, run MLX outside of it. "
     "Otherwise send mlxcommctl bugreport"},
    {"MC406", Severity::kNote, "results are copied, as MLXCOMM_RESULTS says", "{message}",
     kOwnResults,
     "unset MLXCOMM_RESULTS unless something here needs it: each result is copied once more"},
    {"MC407", Severity::kError, "MLX reads wrong bytes from the daemon's memory", "{message}",
     "the bytes that the daemon wrote",
     "set MLXCOMM_RESULTS=copy for everything that uses MLX here, because results may be wrong "
     "without it; and send mlxcommctl bugreport"},
    {"MC408", Severity::kWarning, "the Python package's self test fails", "{message}",
     "a self test that reports where results are",
     "run it by hand: {program} -m mlxcomm.check_results; if it does not match MLX or the daemon, "
     "install the package again"},
    {"MC409", Severity::kOk, "results of the Python package", "results are in the daemon's memory"},
    {"MC410", Severity::kNote, "the clock of this single node is not synchronised",
     "not synchronised",
     "a synchronised clock once there are other nodes, so that their logs can be compared",
     "let the system set it (as root)"},

    {"MC501", Severity::kError, "a node does not answer", "does not answer in time", "an answer",
     "check its mlxcommd, and the load of that machine"},
    {.id = "MC501/cut_off", .remedy = "repair the link that is down; otherwise check its mlxcommd"},
    {.id = "MC501/lost",
     .found = "lost",
     .expected = "up",
     .remedy = "check that the machine is awake, and that mlxcommd runs"},
    {"MC502", Severity::kError, "a link is down", "{detail}", kLinkUp,
     "check the cable, and that mlxcommd runs there"},
    {.id = "MC502/interface", .remedy = kCheckCable, .reasons = {Why::interface_down}},
    {.id = "MC502/carrier",
     .found = "{detail}; interface {interface} of {node} has no carrier now",
     .remedy = kCheckCable},
    {.id = "MC502/off",
     .found = "interface {interface} of {node} is switched off",
     .remedy = kSwitchOn,
     .explains_loss = true},
    {.id = "MC502/knocks",
     .found = "{detail}; {who}",
     .remedy = "if they are from {peer}, it has another key: run mlxcommctl cluster key rotate "
               "--take there, with the code that mlxcommctl cluster key show prints on {node}. "
               "Otherwise check the cable, and that mlxcommd runs there",
     .explains_loss = true},
    {.id = "MC502/stranger",
     .remedy = "check address and port: another program answers there",
     .reasons = {Why::not_a_daemon}},
    {.id = "MC502/version",
     .remedy = "upgrade the older of the two: a release links with the one before it",
     .reasons = {Why::version_too_far}},
    {.id = "MC502/way",
     .remedy = "the two reached each other through other nodes: check their cables and links, and "
               "that mlxcommd runs there",
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
     "on {node}, as root: ip link set dev {interface} mtu {larger} (macOS: ifconfig IF mtu "
     "{larger})"},
    {"MC506", Severity::kWarning, "a link is much slower than the others",
     "has carried {rate} at best", "about {best}, like the fastest",
     "a ring is as fast as its slowest cable: try another cable or port; mlxcommctl bench measures "
     "it"},
    {"MC507", Severity::kWarning, "a link is slower in one direction",
     "{out} towards {peer}, {back} back", "about the same both ways",
     "try another cable; check whether another program uses one of the two machines"},
    {"MC508", Severity::kNote, "the nodes form a line: a ring is not closed",
     "a line of {nodes} nodes", "a closed ring",
     "a cable between {last} and {first} would close it"},
    {"MC509", Severity::kWarning, "connections without the key were refused",
     "{strangers} without proof of the key since it started, the last {ago} ago", "none",
     "mlxcommctl events there, or its log, shows their addresses; to see whether more come: "
     "mlxcommctl doctor --recent 1m"},
    {"MC510", Severity::kWarning, "a job has failed, or has waited for a long time", "{detail}",
     "a job that runs",
     "mlxcommctl record shows its last operations; the daemon forgets it once its ranks have "
     "ended"},
    {.id = "MC510/waits",
     .remedy = "let that process continue, or end it: the other ranks then get an error"},
    {.id = "MC510/circle",
     .remedy = "end the job (mlxcommctl kill); then have one of these ranks receive before it "
               "sends, or set a larger MLXCOMM_SEND_BYTES"},
    {.id = "MC510/halves",
     .expected = "all ranks in one job",
     .remedy = "set those variables to the same on all ranks, or MLXCOMM_JOB to one name, and "
               "start them again; mlxcommctl launch does so"},
    {.id = "MC510/forming",
     .expected = "all ranks of the job",
     .remedy = "start the missing ranks, with the same job name and size and on a node of this "
               "cluster; or end those that wait"},
    {"MC511", Severity::kOk, "nodes and links", "{nodes} up, shape {shape}"},
    {"MC512", Severity::kNote, "nodes have different keys", "{keys}", "the same key on all nodes",
     "finish the change of the key: mlxcommctl cluster key rotate --take on nodes with the old "
     "one, then mlxcommctl cluster key rotate --finish on each"},
    {"MC513", Severity::kWarning, "nodes were refused, or had to leave",
     "{refused} since it started, the last {ago} ago; {linked} nodes are linked with it now, "
     "{most} may be",
     "none",
     "if all of them are yours, raise peers { nodes_max } in its configuration. Otherwise stop the "
     "others: mlxcommctl events there, or its log, shows their addresses"},
    {"MC514", Severity::kWarning, "bytes were changed or lost on the way",
     "{times}, last on {cable} {ago} ago; all were sent again, and no wrong byte was delivered",
     "bytes that arrive as they were sent", kReplaceCable},
    {.id = "MC514/down", .found = "{detail}", .expected = kLinkUp, .reasons = {Why::bytes_changed}},
    {"MC515", Severity::kError, "large frames do not pass",
     "small frames pass, large ones do not, on {cable}", "frames of any size", kFixMtu},
    {.id = "MC515/down", .found = "{detail}", .reasons = {Why::large_lost}},
    {"MC516", Severity::kWarning, "a daemon is draining", "draining, {waits}",
     "a daemon that takes new jobs",
     "it received a signal to stop, and exits after its jobs: wait for them or end them, then "
     "start mlxcommd again"},
    {"MC517", Severity::kNote, "a job waits for ranks", "{detail}", "all ranks of the job",
     "start the missing ranks, unless they are about to start"},
    {"MC518", Severity::kWarning, "a restart was refused", "{refused} ({ago} ago)",
     "an installed program and configuration that it can restart with",
     "fix that; then on {node}, as root: mlxcommctl service restart. To leave it as it is: "
     "mlxcommctl service restart --cancel"},
    {"MC519", Severity::kNote, "a job failed within the last ten minutes", "{how}",
     "jobs that end without an error", "mlxcommctl events shows what happened before"},
    {"MC520", Severity::kWarning, "nodes have the same name", "{nodes}",
     "a different name for each",
     "on all but one: node_name in the configuration, or on macOS sudo scutil --set LocalHostName; "
     "then mlxcommctl service restart there"},
});

}  // namespace

std::span<const FindingKind> GeneralFindingKinds() { return kKinds; }

}  // namespace mlxcomm::ctl
