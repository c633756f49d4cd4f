// Declares what node, links and transports share: identities, events (FabricListener), and options.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "daemon/rail/rail_observer.h"
#include "daemon/rail/random_number.h"
#include "proto/key/cluster_key.h"
#include "proto/queue/scheduling_policy.h"
#include "proto/types/node_id.h"
#include "proto/types/operation_key.h"
#include "proto/wire/frame.h"
#include "proto/wire/hello.h"

namespace mlxcomm::link {

struct NodeIdentity {
  NodeId id;
  std::string name;
  std::string software_version;
  std::uint64_t incarnation = 0;
};

// An event for the log; nothing depends on it.
struct FabricNotice {
  enum class Kind : std::uint8_t {
    kRailUp,
    kRailDown,
    kLinkWaits,
    kDialFails,
    kStrangerRefused,
    kNodeRefused,
  };
  Kind kind = Kind::kRailUp;
  std::string node;  // Or the address that was dialed, or that the stranger came from.
  std::string path;  // Rails: "en2 - en3"; empty for a route through other nodes.
  std::string why;
};

// Why this daemon wants a link with a node: decides which one yields (fabric/node_places.h).
enum class NodeClaim : std::uint8_t { kComes, kFound, kNamed, kInJob };

class FabricListener {
 public:
  virtual ~FabricListener() = default;

  virtual NodeClaim ClaimOf(const NodeId& /*node*/) const { return NodeClaim::kComes; }

  virtual void OnNotice(const FabricNotice&) {}
  // Another machine, at `address`, claims the same node id.
  virtual void OnSameId(const NodeId& /*node*/, const std::string& /*address*/) {}

  // A new channel session starts.
  virtual void OnNodeUp(const NodeIdentity& node) = 0;
  // Everything sent, posted or referenced is released, and no further callback names it.
  virtual void OnNodeLost(const NodeId& node, const absl::Status& why) = 0;

  virtual void OnControl(const NodeId& node, std::span<const std::byte> message) = 0;
  // Payload is valid only during the call.
  virtual void OnEager(const NodeId& node, const wire::FrameHeader& header,
                       std::span<const std::byte> payload) = 0;
  virtual void OnGrant(const NodeId& node, const wire::FrameHeader& header) = 0;
  virtual void OnCredit(const NodeId& node, const wire::FrameHeader& header) = 0;
  // A kData frame has been placed by its posted receive.
  virtual void OnDataReceived(const NodeId& node, const wire::FrameHeader& header) = 0;
  // The payload sent with `cookie` will not be read again: it was acknowledged or cancelled.
  virtual void OnDataReleased(const NodeId& node, std::uint64_t cookie) = 0;
  // Answers Withdraw: no rail touches this operation's receives any more.
  virtual void OnWithdrawn(const NodeId& node, const OperationKey& key) = 0;
};

// Decides whether a rail is encrypted, by its interface. Either end can demand it (wire/hello.h),
// so one machine's mistake cannot weaken the other's choice.
//
//   kPlain  this side does not ask    kTls  this side asks
//   kAuto   asks unless the interface is a direct cable (platform/interfaces.h)
enum class Security : std::uint8_t { kAuto, kTls, kPlain };
struct SecurityPolicy {
  Security elsewhere = Security::kAuto;
  // By interface name, or by address for loopback (rail_path.h).
  std::map<std::string, Security> on_interface;
};

// Session and circuit numbers: the system's random numbers, or the simulator's seed. Never returns
// 0.
using RandomSource = std::function<std::uint64_t()>;

struct FabricOptions {
  NodeIdentity self;
  std::string cluster;
  std::optional<ClusterKeys> keys;  // Absent only without peers.
  SecurityPolicy security;
  std::vector<std::string> listen;   // "ADDRESS:PORT", "[ADDRESS]:PORT"; port 0: any.
  std::vector<std::string> connect;  // "HOST:PORT".
  std::uint64_t heartbeat_interval_ns = 500'000'000;
  std::uint64_t heartbeat_timeout_ns = 2'000'000'000;
  std::uint64_t grace_period_ns = 5'000'000'000;
  std::uint64_t reset_grace_ns = 200'000'000;
  std::uint64_t reconnect_delay_min_ns = 20'000'000;
  std::uint64_t reconnect_delay_max_ns = 2'000'000'000;
  std::uint32_t strangers_max = 32;  // Concurrent connections that have not proved the key.
  std::uint32_t nodes_max = 64;      // Concurrent neighbours.
  // TCP can resend a lost segment four times within this.
  std::uint64_t greeting_timeout_ns = 4'000'000'000;
  // A connection that was proved with a withdrawn key may stay this long.
  std::uint64_t new_proof_timeout_ns = 5'000'000'000;
  std::uint32_t queued_frames_max = 65536;
  std::uint64_t copied_bytes_max = 256 * 1024 * 1024;
  RandomSource random = rail::RandomNumber;
  queue::SchedulingPolicy scheduling;
  rail::RailObserverMaker rail_observers;  // Empty: none.
};

}  // namespace mlxcomm::link
