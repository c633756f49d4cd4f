// Side rails: rails of another transport beside the TCP connections to neighbours, over the same
// cables. A transport that needs a connection for its set-up, and as a spare, makes its rails by
// implementing this class in a folder of its own (rdma/rdma_rails.h). The fabric tells it of
// connections, and it adds its rails to the links by Links::AddSideRail, each on the path of its
// connection with its own transport (rail_path.h).
//
//   connection ─▶ OnConnection ─▶ set-up with the neighbour, over the channel ─▶ AddSideRail
//
// Owner: TcpFabric. Thread: the loop's; nothing here may wait. Time is an argument.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "daemon/link/fabric_listener.h"
#include "daemon/platform/wakeup.h"
#include "daemon/rail/client_memory.h"
#include "daemon/rail/rail_path.h"
#include "proto/key/cluster_key.h"
#include "proto/types/link_reason.h"
#include "proto/types/node_id.h"

namespace mlxcomm::v1 {
class NodeStatus;
}

namespace mlxcomm::fabric {

class Links;

class SideRails {
 public:
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};

  virtual ~SideRails() = default;

  // A connection has become a rail.
  struct Connection {
    NodeId peer;
    rail::RailPath path;
    std::array<std::uint8_t, 16> local{};  // Its address here: IPv6, or IPv4 mapped into it.
    bool encrypted = false;
    ClusterKeyId key{};  // That both sides have proved to hold.
  };
  virtual void OnConnection(const Connection& connection) = 0;
  // A message about a side rail to be made, valid only during the call, inside a callback of Links.
  // Every transport gets all messages and leaves alone what is not its own (wire/rail_setup.h).
  virtual void OnRailSetup(const NodeId& peer, std::span<const std::byte> payload) = 0;
  // A rail to a neighbour has gone, of whatever transport. Inside a callback of Links.
  virtual void OnRailGone() = 0;
  virtual void OnInterfaceUp(std::uint64_t now_ns) = 0;

  // As TcpFabric's.
  virtual void AddMemory(const rail::ClientMemory& memory) = 0;
  virtual void RemoveMemory(const std::byte* data) = 0;

  // Not inside a callback of Links. How much there was to do; called in every turn of the loop that
  // is awake, and at deadline_ns().
  virtual std::size_t Turn(std::uint64_t now_ns) = 0;
  virtual std::uint64_t deadline_ns() const = 0;
  // Adds the transport's state, and to the links the side rails that there are not, and why.
  virtual void Describe(v1::NodeStatus& status) const = 0;
};

// Makes those of a fabric; all arguments outlive them. `bell` wakes the loop, from any thread.
using SideRailsMaker = std::function<std::vector<std::unique_ptr<SideRails>>(
    const link::FabricOptions& options, Links& links, platform::Wakeup& bell)>;

}  // namespace mlxcomm::fabric
