// What doctor knows when it judges: plain values, gathered by collect.h and by RPCs, judged by
// check.h. A fact that could not be found out has a reason, and does not count as a fault.
//
// Owner: the verb. Thread: main. Memory: plain values; the texts of programs and files are bounded
// where they are read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/ctl/status/health.h"
#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::ctl {

enum class SystemKind : std::uint8_t { kLinux, kMacos };

struct InterfaceFacts {
  std::string name;
  std::string hardware;  // "Thunderbolt 2", "Wi-Fi"; empty: not known.
  bool up = false;       // Administratively.
  bool running = false;  // Connected to something.
  bool loopback = false;
  bool thunderbolt = false;
  std::uint32_t mtu = 0;       // 0: not known.
  std::string bridge;          // The one that it is a member of; empty: none.
  bool has_link_local = true;  // An IPv6 link-local address, which discovery needs.
  std::string service;         // macOS's network service for it; empty: none, so it has no address.
  bool service_enabled = false;
};

struct ThunderboltPort {
  std::string receptacle;          // "2", as printed beside it or counted.
  std::string generation;          // "Thunderbolt 5", "USB4"; empty: not known.
  std::string speed;               // "Up to 80 Gb/s"
  double gigabits_per_second = 0;  // 0: not known.
  std::string peer;                // The name of the device at the other end.
  std::string own_domain;          // UUIDs of the two machines' controllers.
  std::string peer_domain;         // Empty: not another computer.
  std::string interface;           // The interface of this cable, where it is known.
};

struct RdmaPort {
  std::string device;  // "rdma_en2", "mlx5_0"
  std::uint32_t port = 1;
  std::string state;  // "ACTIVE", "DOWN"
  std::string interface;
};

// Where results of MLX's operations lie, according to the Python package's self test.
enum class ResultsKind : std::uint8_t {
  kNotAsked,       // There is no such package, or no daemon.
  kShared,         // In the daemon's memory.
  kCopied,         // MLX does not accept the daemon's memory.
  kCopiedAsAsked,  // By MLXCOMM_RESULTS.
  kWrong,          // In the daemon's memory, where MLX reads wrong bytes.
  kUntold,         // The self test did not end.
};

struct PythonFacts {
  std::string program;  // The Python that has the package.
  ResultsKind results = ResultsKind::kNotAsked;
  std::string said;  // Why they are copied, what is wrong; printable, a few lines.
};

// The outcome of an ssh to a host, called as launch calls it.
enum class SshAnswer : std::uint8_t {
  kReached,
  kNoSsh,  // There is no ssh on this machine.
  kNameUnknown,
  kRefused,
  kNoRoute,
  kNoAnswer,
  kKeyUnknown,
  kKeyChanged,
  kDenied,  // Without a password, which nobody could type.
  kFailed,  // It failed in another way, or another program answered.
};

struct SshHostFacts {
  std::string host;  // The argument for ssh.
  SshAnswer answer = SshAnswer::kFailed;
  std::string said;  // By ssh; printable, a few lines.
  // If it was reached:
  std::string path;          // mlxcommctl there; empty: not found.
  std::string searched;      // Then: the folders that were searched.
  std::string version;       // Empty: it does not run.
  std::string version_said;  // Then: its output.
  bool daemon_answers = false;
  std::string daemon_said;  // If the daemon does not answer.
  std::string cluster;      // The daemon's, with its node's name and id.
  std::string node;
  std::string node_id;
};

struct SshFacts {
  bool asked = false;
  bool of_cluster = false;  // For the nodes that the daemon knows, not for named hosts.
  std::vector<SshHostFacts> hosts;
  std::vector<std::string> nameless;  // Nodes whose names cannot be used for ssh.
};

// What is wrong with a key file, as far as everybody can see; empty text: nothing.
struct KeyTrouble {
  std::string text;
  bool others_can_use_it = false;
};

struct SystemFacts {
  SystemKind kind = SystemKind::kLinux;
  std::vector<InterfaceFacts> interfaces;
  std::vector<ThunderboltPort> ports;
  std::vector<RdmaPort> rdma;
  std::optional<bool> rdma_enabled;  // macOS; nullopt: not known.
  std::optional<bool> sleeps;        // When idle, on mains power.
  std::optional<bool> firewall_on;
  std::optional<bool> firewall_blocks_all;
  std::optional<bool> clock_synchronised;
  std::string key_file;  // In the configuration that was examined.
  KeyTrouble key_trouble;
  std::string config_file;
  std::string config_trouble;                   // The output of `mlxcommd --check-config`.
  bool service_installed = false;               // mlxcommd has a unit or plist.
  std::string daemon_program;                   // Empty: not found.
  std::vector<std::string> libraries_missing;   // Of the service's program, on macOS.
  std::vector<std::string> libraries_of_users;  // Which users other than root may change.
  PythonFacts python;
  // The program that owns this window, "iTerm"; empty: not known.
  std::string window_program;
  std::vector<std::string> unknown;  // "system_profiler: no such program"
};

// What the daemon reported, or why there is nothing.
struct ClusterFacts {
  bool daemon_answers = false;
  bool daemon_refuses = false;
  bool daemon_is_silent = false;  // There is one, which does not answer in time.
  std::string why_not;
  v1::StatusReply status;
  v1::DoctorReply checkups;
  v1::TopologyReply topology;
};

struct Facts {
  SystemFacts system;
  ClusterFacts cluster;
  SshFacts ssh;
  std::string own_version;              // Of this mlxcommctl.
  std::uint64_t recent_ms = kRecentMs;  // What was counted longer ago is over.
};

inline bool IsMacos(const Facts& facts) { return facts.system.kind == SystemKind::kMacos; }

}  // namespace mlxcomm::ctl
