// The verbs of mlxcommctl: one file each, each returns the exit code.
//
//   0 done   1 the daemon or a rank failed   2 wrong usage   3 no daemon
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

struct StatusOptions {
  std::string socket_path;
  bool json = false;
};
int RunStatus(const StatusOptions& options);

struct PlanOptions {
  std::string socket_path;
  std::string operation;
  std::string data_type;        // Empty, as all below: the daemon's default.
  std::string reduce_operator;
  std::string plan;
  std::optional<std::uint64_t> bytes;
  std::uint32_t nodes = 0;
  std::uint32_t ranks_per_node = 1;
  std::uint32_t root = 0;
  std::uint64_t latency_ns = 0;  // 0, as below: as the daemon has it.
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
  std::string job;    // Empty, as group: all.
  std::string group;
  std::uint32_t operations_max = 0;  // 0: all that are there.
  bool json = false;
  bool tracks = false;
};
int RunRecord(const RecordOptions& options);
int RunTrace(const RecordOptions& options);

struct LaunchOptions {
  std::string socket_path;
  std::string job;  // Empty: a name of its own for this launch.
  unsigned ranks = 1;
  std::vector<std::string> command;
};
// Starts local ranks, prefixes their output, forwards signals, ends all when one
// fails; the exit code is that of the first that failed (128 + signal).
int RunLaunch(const LaunchOptions& options);

}  // namespace mlxcomm::ctl
