// Finds neighbours: sends hellos on each interface (wire/discovery_hello.h), and learns from those
// that arrive which nodes are at the other end of a cable or on the same switch. Each pair of
// interfaces over which two nodes hear each other becomes a rail; the node with the smaller id
// dials. See README.md.
//
// Sans-I/O; time is an argument. Owner: Node. Thread: the loop's. Memory: at most
// kNeighboursMax neighbours, kInterfacesMax interfaces.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "daemon/discovery/interface_choice.h"
#include "daemon/discovery/sealed_hello.h"
#include "daemon/link/fabric_listener.h"
#include "daemon/platform/token_bucket.h"
#include "proto/key/cluster_key.h"
#include "proto/types/node_id.h"
#include "proto/wire/discovery_hello.h"

namespace mlxcomm::discovery {

struct DiscoveryOptions {
  link::NodeIdentity self;  // Its incarnation is never 0.
  std::string cluster;
  // Derived from the cluster's key; two while that is being changed. Each hello is sent with each
  // key.
  std::vector<DerivedKey> keys;
  link::RandomSource random = rail::RandomNumber;
};

// Called from inside Discovery's calls; may not call back.
class DiscoveryPort {
 public:
  virtual ~DiscoveryPort() = default;
  virtual void SendHello(const std::string& interface, const wire::DiscoveryHello& hello) = 0;
  // "[fe80::2%en2]:7470": dial it until StopDialing.
  virtual void Dial(const std::string& address) = 0;
  virtual void StopDialing(const std::string& address) = 0;
};

class Discovery {
 public:
  static constexpr std::size_t kNeighboursMax = 512;
  static constexpr std::size_t kInterfacesMax = 64;
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};
  static constexpr std::uint64_t kHelloIntervalNs = 2'000'000'000;
  static constexpr std::uint64_t kLostNs = 10'000'000'000;
  static constexpr std::uint64_t kDialNs = 60'000'000'000;
  static constexpr std::uint64_t kForgetNs = 600'000'000'000;
  // The rations of signature checks of an interface, and the rate of each.
  static constexpr std::size_t kRationsMax = 256;
  static constexpr platform::Rate kProofs = {.burst = 20, .per_second = 100};

  struct Interface {
    std::string name;
    wire::AddressBytes address{};  // Link-local.
    std::uint16_t port = 0;        // This node listens on this port.
  };
  struct Neighbour {
    NodeId id;
    std::string name;
    std::string local_interface;
    std::string remote_interface;
    wire::AddressBytes address{};
    std::uint16_t port = 0;
    std::uint64_t heard_ns = 0;
    std::uint64_t incarnation = 0;
    std::uint64_t nonce = 0;     // That of the other interface.
    std::string dialed;          // The address; empty: not dialed.
    std::uint64_t sequence = 0;  // The last hello's.
    std::array<std::uint64_t, 4> ended_incarnations{};
    // Used when strangers have used up the ration of its address.
    platform::TokenBucket ration{kProofs};

    bool IsLost(std::uint64_t now_ns) const { return now_ns - heard_ns >= kLostNs; }
  };

  Discovery(DiscoveryOptions options, DiscoveryPort& port);

  // Replaces the keys; neighbours stay.
  void SetKeys(const std::vector<DerivedKey>& keys);

  // A known interface starts again: its address or port has changed.
  void OnInterfaceUp(const Interface& interface, std::uint64_t now_ns);
  // Its neighbours stay known, so they are linked again as soon as they are heard.
  void OnInterfaceDown(const std::string& name) { interfaces_.erase(name); }
  void OnDatagram(const std::string& interface, const wire::AddressBytes& from,
                  std::span<const std::uint8_t> datagram, std::uint64_t now_ns);
  void OnTime(std::uint64_t now_ns);
  std::uint64_t deadline_ns() const;

  // Has only the counters.
  const v1::DiscoveryStatus& counters() const { return counters_; }
  std::vector<const Neighbour*> Neighbours() const;  // Sorted by key.
  // True if it was heard recently, on any interface.
  bool Hears(const NodeId& id, std::uint64_t now_ns) const;
  bool Knows(const NodeId& id, const std::string& local_interface,
             const std::string& remote_interface) const {
    return neighbours_.contains(Key{local_interface, id, remote_interface});
  }
  // When the last hello of another cluster or key arrived there; 0: none since the interface came
  // up.
  std::uint64_t ForeignNs(const std::string& interface) const;
  // The fault seen there recently, or none.
  InterfaceFault FaultOf(const std::string& interface, std::uint64_t now_ns) const;

 private:
  using Key = std::tuple<std::string, NodeId, std::string>;  // Local interface, node, remote one.
  struct Port {
    Interface facts;
    std::uint64_t nonce = 0;
    std::uint64_t nonce_before = 0;
    std::uint64_t nonce_made_ns = 0;
    std::size_t hellos_said = 0;  // Counts the fast ones since it came up.
    std::uint64_t next_hello_ns = 0;
    std::uint64_t last_hello_ns = 0;
    std::vector<wire::HeardNode> to_repeat;
    std::uint64_t salt = 0;  // Hides which addresses share a ration.
    std::vector<platform::TokenBucket> rations{kRationsMax, platform::TokenBucket(kProofs)};
    InterfaceFault fault;
    std::uint64_t fault_ns = 0;  // When the fault was last seen.
    std::uint64_t foreign_ns = 0;
  };

  bool MayCheck(Port& port, Neighbour* known, const wire::DiscoveryHello& claimed,
                std::uint64_t now_ns) const;
  void OnOwnHello(Port& port, const wire::DiscoveryHello& hello, std::uint64_t now_ns);
  void OnHello(Port& port, const wire::DiscoveryHello& hello, std::uint64_t now_ns);
  static bool IsRepeated(const Neighbour& neighbour, const wire::DiscoveryHello& hello);
  bool MakeRoom(std::uint64_t now_ns);
  void Repeat(Port& port, const wire::DiscoveryHello& hello, bool asks_back, std::uint64_t now_ns);
  void SayHello(Port& port, std::uint64_t now_ns);
  void Plan(std::uint64_t now_ns);
  void SetDialed(Neighbour& neighbour, const std::string& address);
  static Key KeyOf(const Port& port, const wire::DiscoveryHello& hello);

  DiscoveryOptions options_;
  DiscoveryPort& port_;
  std::vector<HelloSeal> seals_;
  std::map<std::string, Port> interfaces_;
  std::map<Key, Neighbour> neighbours_;
  std::uint64_t sequence_ = 0;
  std::uint64_t next_look_ns_ = kNever;  // When to check for silent neighbours.
  v1::DiscoveryStatus counters_;
};

// "[fe80::2%en2]:7470"
std::string AddressText(const wire::AddressBytes& address, const std::string& interface,
                        std::uint16_t port);

}  // namespace mlxcomm::discovery
