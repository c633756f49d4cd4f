// The cables between some nodes of the cluster, as MLX's host file needs them: for each end its
// interface, an IPv4 address that the other end reaches, and the RDMA device on it.
//
//   status     rails that are up: interfaces, addresses, RDMA devices ─┐
//   topology   which cables go through a switch, and their speed      ─┼─▶ FindCables ─▶ RingOrder
//   checkups   other addresses of the interfaces                      ─┘
//
// MLX's ring connects by IPv4 alone, while daemons that find each other are linked by IPv6
// link-local addresses. So for such a cable the interfaces' IPv4 addresses are used, where both lie
// in one network. A self-assigned address (169.254.0.0/16) does not show its interface, and is not
// used.
//
// All of it comes from other nodes: an address must be one, and a device's name consist of letters,
// digits, '_', '.' and '-', else it is ignored. Thread: any. Memory: the cables.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::ctl {

// The reports of this node's daemon.
struct Fabric {
  v1::StatusReply status;
  v1::TopologyReply topology;
  v1::DoctorReply checkups;
};

struct CableEnd {
  std::string interface;
  std::string ipv4;    // Empty: none that the other end can reach.
  std::string device;  // Empty: none, or its port is not active.
};

struct FabricCable {
  CableEnd own;    // Of the first node of the pair.
  CableEnd other;  // Of the second node.
  bool switched = false;
  double bytes_per_second_best = 0;  // 0: not measured yet.

  bool has_rdma() const { return !own.device.empty() && !other.device.empty(); }
  bool has_addresses() const { return !own.ipv4.empty() && !other.ipv4.empty(); }
};

// By the nodes' places in a list; each pair in both orders. For each pair the best first, and only
// those that are worth using beside it: direct ones where there are any, else those through a
// switch; those with RDMA where there are any; none that is slower than half of the best one.
class Cables {
 public:
  using Pair = std::pair<std::size_t, std::size_t>;

  const std::vector<FabricCable>& Between(std::size_t a, std::size_t b) const;
  bool Joins(std::size_t a, std::size_t b) const { return !Between(a, b).empty(); }
  const std::map<Pair, std::vector<FabricCable>>& all() const { return all_; }

 private:
  friend Cables FindCables(const Fabric& fabric, const std::vector<std::string>& ids);
  std::map<Pair, std::vector<FabricCable>> all_;
};

Cables FindCables(const Fabric& fabric, const std::vector<std::string>& ids);

// IPv4 addresses that the node has on interfaces that are up, and on which: no loopback, none that
// the system has assigned itself.
struct InterfaceAddress {
  std::string interface;
  std::string ipv4;
};
std::vector<InterfaceAddress> AddressesOf(const Fabric& fabric, const std::string& node_name);
// The first three parts are the same: most networks are at least that large, and those of cables
// smaller.
bool AreInOneNetwork(const std::string& ipv4, const std::string& other);

// The places 0 to count - 1 in an order in which each is joined to the next, and the last to the
// first; or the original order, and `closed` is false: there is none, or the search was given up.
std::vector<std::size_t> RingOrder(std::size_t count, const Cables& cables, bool& closed);
bool IsClosedRing(const std::vector<std::size_t>& order, const Cables& cables);

}  // namespace mlxcomm::ctl
