#include "client/ctl/firstlight/assumptions.h"

namespace mlxcomm::ctl {
namespace {

constexpr std::string_view kXnu = "XNU's source";
constexpr std::string_view kNote = "Apple, TN3205";
constexpr std::string_view kMlx = "MLX's source";
constexpr std::string_view kLlama = "llama.cpp, transport-apple.cpp";
constexpr std::string_view kUsers = "users' reports";
constexpr std::string_view kGuess = "guess";

constexpr Assumption kAssumptions[] = {
    {"port-link-local", "each Thunderbolt port with a cable has an IPv6 link-local address", kXnu,
     "system"},
    {"port-service", "each Thunderbolt port has a network service of its own", kGuess, "system"},
    {"port-bridge", "Thunderbolt ports are members of bridge0 until somebody changes it", kUsers,
     "system"},
    {"page-size", "pages of macOS have 16 KiB", kXnu, "platform"},
    {"shm-fixed-size", "the size of shared memory cannot be changed once it is set", kXnu,
     "platform"},
    {"shm-name", "shared memory may have a name of 25 characters", kXnu, "platform"},
    {"shm-sparse", "shared memory as large as the machine's costs only the pages that are touched",
     kXnu, "platform"},
    {"shm-passed", "shared memory passes a Unix socket and is mapped at the other end", kXnu,
     "platform"},
    {"bell", "a bell that is rung often is heard once", kXnu, "platform"},
    {"wake-time", "a thread that sleeps is awake within 100 us of its bell (median)", kGuess,
     "platform"},
    {"peer-process", "a Unix socket tells which process and user is at its other end", kXnu,
     "platform"},
    {"full-backlog", "to connect where too many wait is EAGAIN on Linux, ECONNREFUSED on macOS",
     kXnu, "platform"},
    {"process-exit", "the end of a process is told to one that is not its parent", kXnu,
     "platform"},
    {"open-files", "the limit of open files can be raised to what is allowed, at most 65536", kXnu,
     "platform"},
    {"interface-watch", "the system tells when an interface changes", kXnu, "platform"},
    {"multicast", "hellos can be sent on each interface, and do not come back", kXnu, "platform"},
    {"gpu-default", "MLX's default device is the GPU", kMlx, "gpu"},
    {"gpu-small", "the sum of 1 KiB is right, also for an operation of the default device", kGuess,
     "gpu"},
    {"gpu-large", "the sum of 1 GiB (or an eighth of the memory) is right as well", kGuess, "gpu"},
    {"gpu-shares", "the default device takes shared memory for a buffer, without a copy", kGuess,
     "gpu"},
    {"loopback-values", "two ranks here get right values at each size", kGuess, "loopback"},
    {"loopback-rate", "their bus bandwidth at 128 MiB is at least 4 GB/s", kGuess, "loopback"},
    {"rdma-names", "an RDMA device is called rdma_ and the interface whose cable it is on", kNote,
     "rdma"},
    {"rdma-gid-ipv4", "the port of an active device has an IPv4-mapped GID", kMlx, "rdma"},
    {"rdma-gid-first", "its first GID is link-local", kUsers, "rdma"},
    {"rdma-describe", "a device says what it is", kLlama, "rdma"},
    {"rdma-uc", "unreliable queue pairs can be had", kNote, "rdma"},
    {"rdma-no-rc", "reliable ones cannot", kNote, "rdma"},
    {"rdma-access", "a region is registered with remote access", kMlx, "rdma"},
    {"rdma-access-needed", "and not without it", kLlama, "rdma"},
    {"rdma-channel", "completions can be waited for", kGuess, "rdma"},
    {"rdma-depth", "a queue of the depth that is taken is given", kNote, "rdma"},
    {"rdma-receives-after", "receives are taken when the queue pair is ready to send", kLlama,
     "rdma"},
    {"rdma-receives-before", "and not before it is ready to receive", kLlama, "rdma"},
    {"rdma-message", "a message of five frames arrives whole", kMlx, "rdma"},
    {"rdma-message-frame", "a message of one frame arrives whole", kNote, "rdma"},
    {"rdma-message-equal", "a message of fewer frames than its receive does not arrive", kNote,
     "rdma"},
    {"rdma-destroy", "a queue pair is destroyed with receives posted, and another can be had",
     kLlama, "rdma"},
    {"rdma-region-large", "256 MiB are registered at once", kGuess, "rdma"},
    {"rdma-region-shared", "so are 256 MiB of memory that another process shares", kGuess, "rdma"},
    {"rdma-region-boundary", "a region that reaches over 4 GiB is registered (and then wrong)",
     kUsers, "rdma"},
    {"rdma-pairs", "a device has at most 10 queue pairs", kNote, "rdma"},
    {"rdma-regions", "a device has at most 100 regions", kUsers, "rdma"},
    {"neighbour", "the neighbour on the cable is found and linked, with nothing told of it", kGuess,
     "neighbour"},
    {"neighbour-rdma", "an RDMA rail comes up beside the connection", kGuess, "neighbour"},
    {"neighbour-answers", "the neighbour's daemon answers within 10 ms", kGuess, "neighbour"},
    {"cable-values", "ranks on both Macs get right values at each size", kGuess, "cable"},
    {"pull-seen", "the interface watch tells of a pulled cable, at most 1 s after its rails", kXnu,
     "pull"},
    {"pull-rails", "all rails on a pulled cable are down within 1 s of that", kGuess, "pull"},
    {"pull-daemon", "the daemon outlives it (Apple's driver has crashed when a cable was pulled)",
     kUsers, "pull"},
    {"plug-rails", "the rails are back within 5 s of the cable", kGuess, "pull"},
    {"plug-addresses", "the interface has the same addresses as before", kUsers, "pull"},
    {"sleep-clock", "the clock that deadlines follow counts the time asleep", kXnu, "sleep"},
    {"sleep-rails", "rails are up 30 s after waking", kGuess, "sleep"},
    {"power-assertion", "caffeinate -ims keeps a Mac awake without a terminal", kXnu, "power"},
};

constexpr TrialAssumption kTrials[] = {
    {"describe", "worked", "rdma-describe"},
    {"pair-uc", "worked", "rdma-uc"},
    {"pair-rc", "refused", "rdma-no-rc"},
    {"region-remote", "worked", "rdma-access"},
    {"region-local", "refused", "rdma-access-needed"},
    {"channel", "worked", "rdma-channel"},
    {"depth", "worked", "rdma-depth"},
    {"receives-after", "worked", "rdma-receives-after"},
    {"receives-before", "refused", "rdma-receives-before"},
    {"message", "worked", "rdma-message"},
    {"message-frame", "worked", "rdma-message-frame"},
    {"message-short", "refused", "rdma-message-equal"},
    {"destroy", "worked", "rdma-destroy"},
    {"region-large", "worked", "rdma-region-large"},
    {"region-shared", "worked", "rdma-region-shared"},
    {"region-boundary", "worked", "rdma-region-boundary"},
};

}  // namespace

std::span<const Assumption> Assumptions() { return kAssumptions; }

const Assumption* FindAssumption(std::string_view id) {
  for (const Assumption& one : kAssumptions) {
    if (one.id == id) return &one;
  }
  return nullptr;
}

std::span<const TrialAssumption> TrialAssumptions() { return kTrials; }

}  // namespace mlxcomm::ctl
