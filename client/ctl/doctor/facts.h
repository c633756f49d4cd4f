// What doctor knows when it judges: plain values, gathered by collect.h and by RPCs, judged
// by check.h. What could not be found out says why, and is not taken for trouble.
//
// Owner: the verb. Thread: main. Memory: plain values; what programs and files say is bounded
// where it is read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::ctl {

enum class SystemKind : std::uint8_t { kLinux, kMacos };

struct InterfaceFacts {
  std::string name;
  std::string hardware;  // "Thunderbolt 2", "Wi-Fi"; empty: not known.
  bool up = false;       // By the operator.
  bool running = false;  // Connected to something.
  bool loopback = false;
  bool thunderbolt = false;
  bool wireless = false;
  std::uint32_t mtu = 0;       // 0: not known.
  std::string bridge;          // Whose member it is; empty: none's.
  bool has_link_local = true;  // An IPv6 link-local address, which discovery needs.
  std::string service;         // macOS's network service of it; empty: none, so no address either.
  bool service_enabled = false;
};

struct ThunderboltPort {
  std::string receptacle;  // "2", as printed beside it or counted.
  std::string bus;
  std::string generation;          // "Thunderbolt 5", "USB4"; empty: not known.
  std::string speed;               // "Up to 80 Gb/s"
  double gigabits_per_second = 0;  // 0: not known.
  bool connected = false;
  std::string peer;         // Name of what is at the other end.
  std::string own_domain;   // UUIDs of the two machines' controllers.
  std::string peer_domain;  // Empty: not another computer.
  std::string interface;    // Whose cable it is, where that is known.
};

struct RdmaPort {
  std::string device;  // "rdma_en2", "mlx5_0"
  std::uint32_t port = 1;
  std::string state;  // "ACTIVE", "DOWN"
  std::string interface;
};

// Where results of MLX's operations come to lie, as the Python package's self test has found.
enum class ResultsKind : std::uint8_t {
  kNotAsked,       // There is no such package, or no daemon.
  kShared,         // In the daemon's memory.
  kCopied,         // MLX does not take that.
  kCopiedAsAsked,  // By MLXCOMM_RESULTS.
  kWrong,          // In the daemon's memory, where MLX reads something else.
  kUntold,         // The self test did not come to its end.
};

struct PythonFacts {
  std::string program;  // The Python that has the package.
  ResultsKind results = ResultsKind::kNotAsked;
  std::string said;  // Why they are copied, what is wrong; printable, a few lines.
};

// What came of ssh to a host, called as launch calls it.
enum class SshAnswer : std::uint8_t {
  kReached,
  kNoSsh,  // There is none to be called here.
  kNameUnknown,
  kRefused,
  kNoRoute,
  kNoAnswer,
  kKeyUnknown,
  kKeyChanged,
  kDenied,  // To who has no password to type.
  kFailed,  // In another way, or something else runs there than what was asked for.
};

struct SshHostFacts {
  std::string host;  // What ssh is given.
  SshAnswer answer = SshAnswer::kFailed;
  std::string said;  // By ssh; printable, a few lines.
  // Where it was reached:
  std::string path;          // Of mlxcommctl there; empty: there is none.
  std::string searched;      // Then: the folders where it was looked for.
  std::string version;       // Empty: it does not run.
  std::string version_said;  // Then: what it said.
  bool daemon_answers = false;
  std::string daemon_said;  // Where it does not.
  std::string cluster;      // Of the daemon there, with its node's name and id.
  std::string node;
  std::string node_id;
};

struct SshFacts {
  bool asked = false;
  bool of_cluster =
      false;  // For the nodes that the daemon knows, not hosts that somebody has named.
  std::vector<SshHostFacts> hosts;
  std::vector<std::string> nameless;  // Nodes whose names are none for ssh.
};

// What is wrong with a key file as far as everybody can see; an empty text: nothing.
struct KeyTrouble {
  std::string text;
  bool others_can_use_it = false;
};

struct SystemFacts {
  SystemKind kind = SystemKind::kLinux;
  std::vector<InterfaceFacts> interfaces;
  std::vector<ThunderboltPort> ports;
  std::vector<RdmaPort> rdma;
  std::optional<bool> rdma_enabled;  // macOS; nullopt: not told.
  std::optional<bool> sleeps;        // When idle, on mains power.
  std::optional<bool> firewall_on;
  std::optional<bool> firewall_blocks_all;
  std::optional<bool> clock_synchronised;
  std::uint64_t open_files_max = 0;  // Of this user's processes; 0: not known.
  std::string key_file;              // Of the configuration that was looked at.
  KeyTrouble key_trouble;
  std::string config_file;
  std::string config_trouble;                   // What `mlxcommd --check-config` says.
  bool service_installed = false;               // A unit or plist of mlxcommd.
  std::string daemon_program;                   // Empty: there is none to be found.
  std::vector<std::string> libraries_missing;   // Of the service's program, on macOS.
  std::vector<std::string> libraries_of_users;  // Which others than root may change.
  PythonFacts python;
  std::string window_program;        // Whose window this is, "iTerm"; empty: not known.
  std::vector<std::string> unknown;  // "system_profiler: no such program"
};

// What the daemon told, or why nothing.
struct ClusterFacts {
  bool daemon_answers = false;
  std::string why_not;
  v1::StatusReply status;
  v1::DoctorReply checkups;
  v1::TopologyReply topology;
};

struct Facts {
  SystemFacts system;
  ClusterFacts cluster;
  SshFacts ssh;
  std::string own_version;  // Of this mlxcommctl.
};

inline bool IsMacos(const Facts& facts) { return facts.system.kind == SystemKind::kMacos; }

}  // namespace mlxcomm::ctl
