// The cables between some nodes for MLX's host file: for each end its interface, an IPv4 address, and the
// RDMA device.
//
//   status     rails that are up: interfaces, addresses, RDMA devices ─┐
//   topology   which cables go through a switch, and their speed      ─┼─▶ FindCables ─▶ RingOrder
//   checkups   other addresses of the interfaces                      ─┘
//
// MLX's ring needs IPv4, but discovered daemons are linked over IPv6 link-local addresses. For such a cable
// the interfaces' IPv4 addresses are used if both are in one network, except self-assigned ones
// (169.254.0.0/16).
//
// The input comes from other nodes, so invalid addresses and device names are ignored.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::ctl {

// Reports of this node's daemon.
struct Fabric {
  v1::StatusReply status;
  v1::TopologyReply topology;
  v1::DoctorReply checkups;
};

struct CableEnd {
  std::string interface;
  std::string ipv4;    // Empty: none that the other end reaches.
  std::string device;  // Empty: none is active.
};

struct FabricCable {
  CableEnd own;    // The first node's.
  CableEnd other;  // The second node's.
  bool switched = false;
  double bytes_per_second_best = 0;  // 0: not measured yet.

  bool has_rdma() const { return !own.device.empty() && !other.device.empty(); }
  bool has_addresses() const { return !own.ipv4.empty() && !other.ipv4.empty(); }
};

// The cables of each pair of nodes (given by index, in both orders), best first. Switched cables are dropped
// if there are direct ones, cables without RDMA if there are some with it, and those slower than half of the
// best.
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

// The IPv4 addresses of a node on interfaces that are up, except loopback and self-assigned ones.
struct InterfaceAddress {
  std::string interface;
  std::string ipv4;
};
std::vector<InterfaceAddress> AddressesOf(const Fabric& fabric, const std::string& node_name);
// Compares the first three parts: networks of cables are at most that large, others at least.
bool AreInOneNetwork(const std::string& ipv4, const std::string& other);

// Returns 0 to count - 1 in an order in which cables join each to the next, and the last to the first. If no
// such order is found, returns the original order, and `closed` is false.
std::vector<std::size_t> RingOrder(std::size_t count, const Cables& cables, bool& closed);
bool IsClosedRing(const std::vector<std::size_t>& order, const Cables& cables);

}  // namespace mlxcomm::ctl
