// The verbs of mlxcommctl: one file each, each returns the exit code.
//
//   0 done   1 the daemon or a rank failed   2 wrong usage   3 no daemon   4 doctor has warnings
//
// Owner: main. Thread: main. Memory: plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mlxcomm::ctl {

inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitNoDaemon = 3;
inline constexpr int kExitWarnings = 4;  // doctor: warnings, but no error.

struct StatusOptions {
  std::string socket_path;
  bool json = false;
  bool watch = false;  // Again and again, until SIGINT or SIGTERM.
  std::uint64_t interval_ns = 1'000'000'000;
};
int RunStatus(const StatusOptions& options);

enum class TopologyForm { kText, kJson, kDot, kSvg };
struct TopologyOptions {
  std::string socket_path;
  TopologyForm form = TopologyForm::kText;
};
int RunTopology(const TopologyOptions& options);

struct PingOptions {
  std::string socket_path;
  std::string node;
  std::uint32_t count = 5;
  std::uint64_t interval_ns = 200'000'000;
  std::uint64_t timeout_ns = 1'000'000'000;
  std::optional<std::uint64_t> payload_bytes;
  bool json = false;
};
int RunPing(const PingOptions& options);

struct EventsOptions {
  std::string socket_path;
  std::uint32_t last = 20;
  bool follow = false;
  bool json = false;  // A line for each.
};
int RunEvents(const EventsOptions& options);

// What is wrong here and in the cluster, and how it is mended.
struct DoctorOptions {
  std::string called;  // How this program was: argv[0].
  std::string socket_path;
  std::string config_file;  // Of a daemon that does not run; empty: the service's.
  bool json = false;
  bool all = false;      // Also what was found to be well.
  bool fix = false;      // Says what it would do.
  bool yes = false;      // And does it.
  bool codes = false;    // Lists what can be found.
  bool ssh = false;      // Also whether hosts can be reached by ssh as launch does it:
  std::string hosts;     // These, as launch takes them, or
  std::string hostfile;  // those; neither: the cluster's other nodes.
  std::string ssh_command = "ssh";
  std::uint64_t ssh_timeout_ns = 30'000'000'000;
};
int RunDoctor(const DoctorOptions& options);

struct BugreportOptions {
  std::string called;  // How this program was: argv[0].
  std::string socket_path;
  std::string config_file;
  std::string output;  // Empty: mlxcomm-bugreport-TIME.tar.gz here.
  bool json = false;   // What was written, for programs.
  bool rdma = false;   // Try what is taken of RDMA devices, and show what came of it.
};
int RunBugreport(const BugreportOptions& options);

// What is taken of Macs, tried on this one.
struct FirstLightOptions {
  std::string called;  // How this program was: argv[0].
  std::string socket_path;
  std::string config_file;
  std::string output;              // Empty: mlxcomm-firstlight-TIME.json here.
  std::vector<std::string> steps;  // Empty: all.
  std::vector<std::string> skip;
  std::string prompt_command;  // Empty: a person, if there is a terminal.
  std::uint64_t large_bytes = std::uint64_t{1} << 30;
  bool yes = false;    // Nobody is asked.
  bool names = false;  // Names and addresses stay as they are.
  bool json = false;
};
int RunFirstLight(const FirstLightOptions& options);

struct PlanOptions {
  std::string socket_path;
  std::string operation;
  std::string data_type;  // Empty, as all below: by itself.
  std::string reduce_operator;
  std::string plan;
  std::optional<std::uint64_t> bytes;
  std::uint32_t nodes = 0;
  std::uint32_t ranks_per_node = 1;
  std::uint32_t root = 0;
  std::uint64_t latency_ns = 0;  // 0, as below: as this node has it.
  std::uint64_t bytes_per_second = 0;
  std::uint32_t links_per_node = 0;
  bool steps = false;
  bool json = false;
  bool dot = false;
};
int RunPlan(const PlanOptions& options);

// What the flight recorder holds: a table, or a trace for Perfetto.
struct RecordOptions {
  std::string socket_path;
  std::string job;  // Empty, as group: all.
  std::string group;
  std::uint32_t operations_max = 0;  // 0: all that are there.
  bool json = false;                 // Of a trace: to a terminal as well.
  bool tracks = false;
};
int RunRecord(const RecordOptions& options);
int RunTrace(const RecordOptions& options);

// Measures operations as nccl-tests does. Either `ranks` of them here, or this process is one.
struct BenchOptions {
  std::string called;  // How this program was: argv[0].
  std::string socket_path;
  std::string job;  // Empty: from the environment, else "bench".
  std::string operation = "all_reduce";
  std::string data_type = "float32";
  std::string reduce_operator = "sum";
  std::uint64_t from_bytes = 8;
  std::uint64_t to_bytes = std::uint64_t{128} << 20;
  double factor = 4;
  std::uint32_t iterations = 20;
  std::uint32_t warm_up = 5;
  bool check = true;
  bool in_place = false;
  bool json = false;
  unsigned ranks = 0;
  std::optional<std::uint32_t> rank;  // Both or neither; neither: from the environment.
  std::optional<std::uint32_t> size;
};
int RunBench(const BenchOptions& options);

// Scripts for shells, from the table of all verbs (command_table.h).
struct Command;
struct CompletionOptions {
  std::string shell;  // bash, zsh, fish
  bool json = false;  // The table itself.
};
int RunCompletion(const CompletionOptions& options, const Command& table);

// What the --json of a verb holds.
struct SchemaOptions {
  std::vector<std::string> verb;  // "cluster", "create"; empty: which there are.
  bool json = false;
};
int RunSchema(const SchemaOptions& options);

struct LaunchOptions {
  std::string called;  // How this program was: argv[0].
  std::string socket_path;
  std::string job;    // Empty: a name of its own for this launch.
  std::string hosts;  // One of these three; none: this machine.
  std::string hostfile;
  std::string nodes;                     // "all", or names of nodes.
  unsigned ranks = 0;                    // On each host; 0: as many as the hostfile says, else one.
  std::vector<std::string> environment;  // "NAME=VALUE".
  std::string input = "all";             // Who gets standard input: "all", "0", "none".
  std::string directory;
  std::string python;
  std::string ssh = "ssh";
  std::vector<std::string> command;
  bool prefix = true;  // Lines are shown behind their rank.
  bool verbose = false;
};
// Starts ranks here and by ssh, prefixes their output, forwards signals, ends all when one
// fails; the exit code is that of the first that failed (128 + signal).
int RunLaunch(const LaunchOptions& options);
// What `launch` starts on another host.
int RunLaunchAgent(const std::string& called);

// Hosts as others write them, as our own file of hosts or as configurations.
struct HostsImportOptions {
  std::string file;
  std::string output;      // Empty: standard output.
  std::string config_dir;  // Not empty: a configuration for each node goes there.
  std::string cluster;     // Empty: by the key, so no word of it in the configurations.
  std::string key_file = "/etc/mlxcommd/key";
  std::string links;  // "ring", "all"; empty: by what the file says.
  unsigned port = 7470;
  bool json = false;
};
int RunHostsImport(const HostsImportOptions& options);

// MLX's host file from the fabric that the daemons have found.
struct HostsExportOptions {
  std::string socket_path;
  std::string output;                  // Empty, or "-": standard output.
  std::string nodes;                   // "all", or names of nodes; empty: all.
  std::string rank_order;              // Names of nodes, in the order of the ranks.
  std::string backend;                 // Empty: the best that there is.
  std::vector<std::string> ssh_names;  // "NODE=HOST".
  bool force = false;                  // Over a file that is there.
  bool json = false;
};
int RunHostsExport(const HostsExportOptions& options);

// The cluster's key on this machine.
struct ClusterOptions {
  std::string socket_path;
  std::string key_file;  // Empty: where mlxcommd looks that is not told otherwise.
  std::string name;      // create
  std::string from;      // join, rotate --take: another key file; empty: asks.
  bool json = false;     // On standard output instead of the bare code.
  bool id_only = false;  // key show
  bool take = false;     // key rotate
  bool finish = false;
  bool force = false;
};
int RunClusterCreate(const ClusterOptions& options);
int RunClusterJoin(const ClusterOptions& options);
int RunClusterKeyShow(const ClusterOptions& options);
int RunClusterKeyRotate(const ClusterOptions& options);

}  // namespace mlxcomm::ctl
