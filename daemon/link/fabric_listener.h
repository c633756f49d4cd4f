// What the node, the links and the transports have in common: who a node is, where received data goes, what
// the node hears of the others (FabricListener), and the options.
//
// None of it knows of collectives: data goes where a posted receive says. README.md has the parts between
// this daemon and the other nodes, which together are the fabric.
//
// Thread: a listener's calls on the loop's; `place` of a posted receive says which.
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

// What people want to know besides nodes: nothing follows from it.
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
  std::string path;  // Rails: "en2 - en3", "rdma en2 - en3"; empty for a route through other nodes.
  std::string why;
};

// Why this daemon wants a link with a node: who yields to whom where there are too many
// (link/node_places.h).
enum class NodeClaim : std::uint8_t { kComes, kFound, kNamed, kInJob };

class FabricListener {
 public:
  virtual ~FabricListener() = default;

  // As far as the listener knows. May not call back.
  virtual NodeClaim ClaimOf(const NodeId& /*node*/) const { return NodeClaim::kComes; }

  virtual void OnNotice(const FabricNotice&) {}
  // Another machine, at that address, says that it is the node. Seldom.
  virtual void OnSameId(const NodeId& /*node*/, const std::string& /*address*/) {}
  // Others' operations have begun to go through this node (not only circuits for them), or have not
  // for a while.
  virtual void OnForwarding(bool /*forwards*/) {}

  // A new channel session: nothing of an earlier one is left.
  virtual void OnNodeUp(const NodeIdentity& node) = 0;
  // Everything that was sent, posted or referenced is gone by now: no rail
  // thread touches any of it any more, and no further callback names it.
  virtual void OnNodeLost(const NodeId& node, const absl::Status& why) = 0;

  virtual void OnControl(const NodeId& node, std::span<const std::byte> message) = 0;
  // Payload is valid only during the call.
  virtual void OnEager(const NodeId& node, const wire::FrameHeader& header,
                       std::span<const std::byte> payload) = 0;
  virtual void OnGrant(const NodeId& node, const wire::FrameHeader& header) = 0;
  virtual void OnCredit(const NodeId& node, const wire::FrameHeader& header) = 0;
  // A kData frame has been placed by its posted receive.
  virtual void OnDataReceived(const NodeId& node, const wire::FrameHeader& header) = 0;
  // The payload of the kData frame sent with `cookie` will never be read again:
  // acknowledged, or cancelled.
  virtual void OnDataReleased(const NodeId& node, std::uint64_t cookie) = 0;
  // After Withdraw: no rail touches the receives of this operation any more.
  virtual void OnWithdrawn(const NodeId& node, const OperationKey& key) = 0;
};

// Whether a rail is to be encrypted, by the interface that it is on. A rail is encrypted when
// either of its ends asks for it (wire/hello.h), so a mistake on one machine cannot make it weaker
// than the other machine wants it.
//
//   kPlain  this side does not ask for it    kTls  this side asks for it
//   kAuto   asks for it unless the interface is a direct cable (platform/interfaces.h)
enum class Security : std::uint8_t { kAuto, kTls, kPlain };
struct SecurityPolicy {
  Security elsewhere = Security::kAuto;
  // By the interface's name; of loopback ones by the address (rail_path.h).
  std::map<std::string, Security> on_interface;
};

// Where session and circuit numbers come from: the system's random numbers, or, in the simulator,
// its seed. Never gives 0.
using RandomSource = std::function<std::uint64_t()>;

// Bugs that can be switched on, to show that the simulator would find them: only tests do.
enum class PlantedBug : std::uint8_t {
  kNone,
  kDropAcknowledgement,  // None goes out by itself, only with other frames.
  kKeepDuplicates,       // A frame that was sent again goes up once more.
};

struct FabricOptions {
  NodeIdentity self;
  std::string cluster;
  std::optional<ClusterKeys> keys;  // Absent only where there are no peers.
  SecurityPolicy security;
  std::vector<std::string> listen;   // "ADDRESS:PORT", "[ADDRESS]:PORT"; port 0: any.
  std::vector<std::string> connect;  // "HOST:PORT".
  std::uint64_t heartbeat_interval_ns = 500'000'000;
  std::uint64_t heartbeat_timeout_ns = 2'000'000'000;
  std::uint64_t grace_period_ns = 5'000'000'000;
  std::uint64_t reset_grace_ns = 200'000'000;
  std::uint64_t reconnect_delay_min_ns = 20'000'000;
  std::uint64_t reconnect_delay_max_ns = 2'000'000'000;
  std::uint32_t strangers_max = 32;  // Connections that have not proved the key, at once.
  std::uint32_t nodes_max = 64;      // Neighbours, at once.
  // Time for TCP to send a lost segment four times again.
  std::uint64_t greeting_timeout_ns = 4'000'000'000;
  // How long a connection stays that was proved with a key which is no longer taken.
  std::uint64_t new_proof_timeout_ns = 5'000'000'000;
  // What may wait for one node, and how much of it may be copied.
  std::uint32_t queued_frames_max = 65536;
  std::uint64_t copied_bytes_max = 256 * 1024 * 1024;
  RandomSource random = rail::RandomNumber;
  queue::SchedulingPolicy scheduling;
  PlantedBug planted_bug = PlantedBug::kNone;  // For tests of the tests.
  rail::RailObserverMaker rail_observers;      // Empty: nobody looks.

  // Ticks may be two intervals apart, or a little more, and leave out a rail on which the other side has just
  // asked (Link::OnTick): the limit of silence leaves time for the next one's answer.
  bool may_ask_seldom() const { return heartbeat_timeout_ns >= 4 * heartbeat_interval_ns; }
};

}  // namespace mlxcomm::link
