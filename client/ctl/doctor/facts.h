// The facts that doctor judges: collect.h and RPCs gather them, check.h turns them into findings.
// An unknown fact is not a fault.
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
  std::string hardware;  // "Thunderbolt 2", "Wi-Fi"; empty: unknown.
  bool up = false;       // Switched on.
  bool running = false;  // Has a carrier.
  bool loopback = false;
  bool thunderbolt = false;
  std::uint32_t mtu = 0;       // 0: unknown.
  std::string bridge;          // The bridge that it is in; empty: none.
  bool has_link_local = true;  // An IPv6 link-local address, which discovery needs.
  std::string service;         // macOS's network service; empty: none, so it has no address.
  bool service_enabled = false;
};

struct ThunderboltPort {
  std::string receptacle;          // "2"
  std::string generation;          // "Thunderbolt 5", "USB4"; empty: unknown.
  std::string speed;               // "Up to 80 Gb/s"
  double gigabits_per_second = 0;  // 0: unknown.
  std::string peer;                // The name of the device at the other end.
  std::string own_domain;          // The UUID of this machine's controller.
  std::string peer_domain;         // Empty if it is not another computer.
  std::string interface;           // Empty: unknown.
};

// The outcome of the Python package's self test.
enum class ResultsKind : std::uint8_t {
  kNotTested,      // No package, or no daemon.
  kShared,         // Results are in the daemon's memory.
  kCopied,         // MLX does not accept the daemon's memory.
  kCopiedAsAsked,  // MLXCOMM_RESULTS requests it.
  kWrong,          // MLX reads wrong bytes from the daemon's memory.
  kTestFailed,
};

struct PythonFacts {
  std::string program;  // The Python that has the package.
  ResultsKind results = ResultsKind::kNotTested;
  std::string message;  // Why results are copied or wrong; printable, a few lines.
};

struct KeyTrouble {
  std::string text;  // Empty: none.
  bool others_can_use_it = false;
};

struct SystemFacts {
  SystemKind kind = SystemKind::kLinux;
  std::vector<InterfaceFacts> interfaces;
  std::vector<ThunderboltPort> ports;
  // Used by transports other than TCP.
  std::vector<std::string> devices;     // Linux only.
  std::optional<bool> devices_enabled;  // macOS only.
  std::optional<bool> sleeps;           // When idle, on mains power.
  std::optional<bool> firewall_on;
  std::optional<bool> firewall_blocks_all;
  std::optional<bool> clock_synchronised;
  std::string key_file;
  KeyTrouble key_trouble;
  std::string config_file;
  std::string config_trouble;                   // The output of `mlxcommd --check-config`.
  bool service_installed = false;               // mlxcommd has a unit or plist.
  std::string daemon_program;                   // Empty if not found.
  std::vector<std::string> libraries_missing;   // The service's, on macOS.
  std::vector<std::string> libraries_of_users;  // Users other than root may change them.
  PythonFacts python;
  std::vector<std::string> unknown;  // "system_profiler: no such program"
};

// The daemon's reports, or why there are none.
struct ClusterFacts {
  bool daemon_answers = false;
  bool daemon_refuses = false;
  bool daemon_is_silent = false;  // It runs, but does not answer in time.
  std::string why_not;
  v1::StatusReply status;
  v1::DoctorReply checkups;
  v1::TopologyReply topology;
};

struct Facts {
  SystemFacts system;
  ClusterFacts cluster;
  std::string own_version;              // mlxcommctl's.
  std::uint64_t recent_ms = kRecentMs;  // Older one-off events are not reported.
};

inline bool IsMacos(const Facts& facts) { return facts.system.kind == SystemKind::kMacos; }

}  // namespace mlxcomm::ctl
