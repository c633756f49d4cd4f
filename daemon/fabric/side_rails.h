// Side rails: rails of another transport beside the TCP connections to neighbours, over the same
// cables. A transport implements this class in its own folder. The fabric reports connections to
// it; it adds its rails with Links::AddSideRail, each on its connection's path with its own
// transport (rail_path.h).
//
//   connection ─▶ OnConnection ─▶ set-up with the neighbour, over the channel ─▶ AddSideRail
//
// Owner: TcpFabric. Thread: the loop's; must not block. Time is an argument.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/link/fabric_listener.h"
#include "daemon/platform/wakeup.h"
#include "daemon/rail/client_memory.h"
#include "daemon/rail/rail_path.h"
#include "proto/key/cluster_key.h"
#include "proto/types/node_id.h"

namespace mlxcomm::v1 {
class DaemonConfig;
class NodeStatus;
}  // namespace mlxcomm::v1

namespace mlxcomm::fabric {

class Links;

class SideRails {
 public:
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};

  virtual ~SideRails() = default;

  struct Connection {
    NodeId peer;
    rail::RailPath path;
    std::array<std::uint8_t, 16> local{};  // The local address: IPv6, or IPv4 mapped into it.
    bool encrypted = false;
    ClusterKeyId key{};  // Proved by both sides.
  };
  virtual void OnConnection(const Connection& connection) = 0;
  // A neighbour's message of wire::kRailSetupBytes, valid only during the call, inside a callback
  // of Links. It may be for another transport: its first 32 bits are its kind. Kinds below 0x10000
  // belong to the oldest transport; another's begin at 0x10000 times its number in Transport
  // (types/link_reason.h).
  virtual void OnRailSetup(const NodeId& peer, std::span<const std::byte> payload) = 0;
  // A rail to a neighbour has ended, of any transport.
  virtual void OnRailGone() = 0;
  virtual void OnInterfaceUp(std::uint64_t now_ns) = 0;

  virtual void AddMemory(const rail::ClientMemory& memory) = 0;
  virtual void RemoveMemory(const std::byte* data) = 0;

  // Returns how much it did. Called in each turn and at deadline_ns(), never inside a callback of
  // Links.
  virtual std::size_t Turn(std::uint64_t now_ns) = 0;
  virtual std::uint64_t deadline_ns() const = 0;
  // Adds the transport's state, and to each link the missing side rails with the reason.
  virtual void Describe(v1::NodeStatus& status) const = 0;
};

using ReadConfig = absl::StatusOr<v1::DaemonConfig> (*)(const std::string& path);

// An argument of mlxcommd that makes its process do a transport's work, away from the daemon.
struct ChildMode {
  std::string_view argument;
  int count;  // Arguments after it.
  int (*run)(char** arguments, ReadConfig read);
};

// A transport's row in daemon/process/transports.cc.
struct SideTransport {
  std::unique_ptr<SideRails> (*make)(const v1::DaemonConfig& config,
                                     const link::FabricOptions& options, Links& links,
                                     platform::Wakeup& bell);
  std::span<const ChildMode> child_modes;
};

// Makes a fabric's side rails; all arguments outlive them. `bell` wakes the loop, from any thread.
using SideRailsMaker = std::function<std::vector<std::unique_ptr<SideRails>>(
    const link::FabricOptions& options, Links& links, platform::Wakeup& bell)>;

}  // namespace mlxcomm::fabric
