#include "client/ctl/hosts/fabric_cables.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <numeric>
#include <optional>
#include <tuple>

namespace mlxcomm::ctl {
namespace {

constexpr std::size_t kRingTriesMax = 200'000;
constexpr std::size_t kDeviceNameBytesMax = 63;
// A cable slower than this part of the best one's rate would slow down data divided between them.
constexpr double kWorthIt = 0.5;

std::optional<std::uint32_t> Ipv4(const std::string& text) {
  in_addr four{};
  if (::inet_pton(AF_INET, text.c_str(), &four) != 1) return std::nullopt;
  return ntohl(four.s_addr);
}

bool IsLoopback(std::uint32_t four) { return four >> 24 == 127; }
bool IsSelfAssigned(std::uint32_t four) { return four >> 16 == 0xa9fe; }  // 169.254.0.0/16

// Returns the IPv4 address in "10.0.0.1:7470", "" if there is none to connect to.
std::string Ipv4Of(const std::string& address) {
  const std::string host = address.substr(0, address.find(':'));
  const auto four = Ipv4(host);
  return four && *four != 0 ? host : "";
}

std::string DeviceIn(const std::string& name) {
  const auto fits = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '.' || c == '-';
  };
  const bool is_name = !name.empty() && name.front() != '-' && name.size() <= kDeviceNameBytesMax &&
                       std::ranges::all_of(name, fits);
  return is_name ? name : "";
}

bool IsActive(const v1::NodeStatus& node, const std::string& device) {
  return std::ranges::any_of(node.rdma().devices(), [&](const v1::RdmaDevice& one) {
    return one.name() == device && one.active();
  });
}

// A cable's two ends (place and interface), the smaller place first. If a rail has no interface, as over
// loopback, its address replaces it.
using Ends = std::tuple<std::size_t, std::string, std::size_t, std::string>;

class CableFinder {
 public:
  CableFinder(const Fabric& fabric, const std::vector<std::string>& ids) : fabric_(fabric) {
    for (std::size_t i = 0; i < ids.size(); ++i) places_[ids[i]] = i;
  }

  std::map<Ends, FabricCable> Find() {
    // TCP first: an RDMA rail belongs to a TCP connection.
    for (const bool rdma : {false, true}) {
      for (const v1::NodeStatus& node : fabric_.status.nodes()) {
        if (places_.contains(node.id())) AddRails(node, rdma);
      }
    }
    for (const v1::NodeStatus& node : fabric_.status.nodes()) {
      if (places_.contains(node.id())) AddDevicesByName(node);
    }
    for (auto& [ends, cable] : found_) AddInterfaceAddresses(ends, cable);
    AddTopology();
    return std::move(found_);
  }

 private:
  void AddRails(const v1::NodeStatus& node, bool rdma) {
    const std::size_t own = places_.at(node.id());
    for (const v1::LinkStatus& link : node.links()) {
      const auto other = places_.find(link.peer_id());
      if (other == places_.end() || other->second == own) continue;
      for (const v1::RailStatus& rail : link.rails()) {
        if (rail.transport() == v1::Transport::route ||
            (rail.transport() == v1::Transport::rdma) != rdma)
          continue;
        rdma ? AddDevice(node, own, other->second, rail) : AddConnection(own, other->second, rail);
      }
    }
  }

  // Without the port, which is arbitrary on the dialing side.
  static std::string EndName(const std::string& interface, const std::string& address) {
    return interface.empty() ? Ipv4Of(address) : interface;
  }

  void AddConnection(std::size_t own, std::size_t other, const v1::RailStatus& rail) {
    if (rail.state() != v1::RailState::up) return;
    const std::string from = EndName(rail.local_interface(), rail.local_address());
    const std::string to = EndName(rail.remote_interface(), rail.remote_address());
    if (from.empty() || to.empty()) return;
    const bool first = own < other;
    FabricCable& cable = found_[first ? Ends(own, from, other, to) : Ends(other, to, own, from)];
    CableEnd& mine = first ? cable.own : cable.other;
    CableEnd& theirs = first ? cable.other : cable.own;
    mine.interface = rail.local_interface();
    theirs.interface = rail.remote_interface();
    // Both ends report it; the first report wins.
    if (mine.ipv4.empty()) mine.ipv4 = Ipv4Of(rail.local_address());
    if (theirs.ipv4.empty()) theirs.ipv4 = Ipv4Of(rail.remote_address());
  }

  FabricCable* Known(std::size_t own, const std::string& from, std::size_t other,
                     const std::string& to) {
    const auto found =
        found_.find(own < other ? Ends(own, from, other, to) : Ends(other, to, own, from));
    return found == found_.end() ? nullptr : &found->second;
  }

  // Also for rails that are down, for example because of encryption: the device exists.
  void AddDevice(const v1::NodeStatus& node, std::size_t own, std::size_t other,
                 const v1::RailStatus& rail) {
    const std::string device = DeviceIn(rail.rdma().device());
    if (device.empty() || !IsActive(node, device)) return;
    FabricCable* const cable = Known(own, rail.local_interface(), other, rail.remote_interface());
    if (cable != nullptr) (own < other ? cable->own : cable->other).device = device;
  }

  // On macOS a device is named after the interface of its cable.
  void AddDevicesByName(const v1::NodeStatus& node) {
    const std::size_t place = places_.at(node.id());
    for (auto& [ends, cable] : found_) {
      for (CableEnd* const end : {std::get<0>(ends) == place ? &cable.own : nullptr,
                                  std::get<2>(ends) == place ? &cable.other : nullptr}) {
        if (end == nullptr || !end->device.empty() || end->interface.empty()) continue;
        const std::string device = DeviceIn("rdma_" + end->interface);
        if (!device.empty() && IsActive(node, device)) end->device = device;
      }
    }
  }

  const std::vector<InterfaceAddress>& AddressesAt(std::size_t place) {
    const auto [known, is_new] = addresses_.try_emplace(place);
    if (!is_new) return known->second;
    for (const v1::NodeStatus& node : fabric_.status.nodes()) {
      const auto found = places_.find(node.id());
      if (found == places_.end() || found->second != place) continue;
      known->second = AddressesOf(fabric_, node.name());
    }
    return known->second;
  }

  void AddInterfaceAddresses(const Ends& ends, FabricCable& cable) {
    if (cable.has_addresses() || cable.own.interface.empty() || cable.other.interface.empty())
      return;
    for (const InterfaceAddress& mine : AddressesAt(std::get<0>(ends))) {
      if (mine.interface != cable.own.interface) continue;
      for (const InterfaceAddress& theirs : AddressesAt(std::get<2>(ends))) {
        if (theirs.interface != cable.other.interface) continue;
        if (!AreInOneNetwork(mine.ipv4, theirs.ipv4) || mine.ipv4 == theirs.ipv4) continue;
        cable.own.ipv4 = mine.ipv4;
        cable.other.ipv4 = theirs.ipv4;
        return;
      }
    }
  }

  void AddTopology() {
    for (const v1::TopologyCable& reported : fabric_.topology.cables()) {
      const auto from = places_.find(reported.from_node());
      const auto to = places_.find(reported.to_node());
      if (from == places_.end() || to == places_.end()) continue;
      FabricCable* const cable =
          Known(from->second, reported.from_interface(), to->second, reported.to_interface());
      if (cable == nullptr) continue;
      cable->switched = reported.switch_number() != 0;
      cable->bytes_per_second_best = reported.bytes_per_second_best();
    }
  }

  const Fabric& fabric_;
  std::map<std::string, std::size_t> places_;
  std::map<Ends, FabricCable> found_;
  std::map<std::size_t, std::vector<InterfaceAddress>> addresses_;
};

// Sorts the best first, and removes those that are not worth using beside it.
void KeepTheBest(std::vector<FabricCable>& cables) {
  const auto rank = [](const FabricCable& cable) {
    return std::tuple(cable.switched, !cable.has_rdma(), !cable.has_addresses(),
                      -cable.bytes_per_second_best);
  };
  std::ranges::stable_sort(cables, {}, rank);
  const FabricCable best = cables.front();
  double fastest = 0;
  for (const FabricCable& cable : cables) {
    if (cable.switched == best.switched && cable.has_rdma() == best.has_rdma())
      fastest = std::max(fastest, cable.bytes_per_second_best);
  }
  std::erase_if(cables, [&](const FabricCable& cable) {
    const bool measured = cable.bytes_per_second_best > 0;
    return cable.switched != best.switched || cable.has_rdma() != best.has_rdma() ||
           (measured && cable.bytes_per_second_best < kWorthIt * fastest);
  });
}

// Depth-first search for a Hamiltonian cycle.
class RingSearch {
 public:
  RingSearch(std::size_t count, const Cables& cables, bool switched) : neighbours_(count) {
    for (const auto& [pair, between] : cables.all()) {
      if (switched || !between.front().switched) neighbours_[pair.first].push_back(pair.second);
    }
  }

  bool Find(std::vector<std::size_t>& row) {
    std::vector<bool> used(neighbours_.size(), false);
    std::vector<std::size_t> tried(1, 0);
    row.assign(1, 0);
    used[0] = true;
    for (std::size_t tries = 0; !row.empty() && tries < kRingTriesMax; ++tries) {
      const std::vector<std::size_t>& around = neighbours_[row.back()];
      if (row.size() == neighbours_.size() &&
          std::ranges::find(around, std::size_t{0}) != around.end()) {
        return true;
      }
      std::size_t& next = tried.back();
      while (next < around.size() && used[around[next]]) ++next;
      if (next == around.size()) {
        used[row.back()] = false;
        row.pop_back();
        tried.pop_back();
        continue;
      }
      const std::size_t taken = around[next++];
      used[taken] = true;
      row.push_back(taken);
      tried.push_back(0);
    }
    return false;
  }

 private:
  std::vector<std::vector<std::size_t>> neighbours_;
};

}  // namespace

const std::vector<FabricCable>& Cables::Between(std::size_t a, std::size_t b) const {
  static const std::vector<FabricCable> kNone;
  const auto found = all_.find({a, b});
  return found == all_.end() ? kNone : found->second;
}

Cables FindCables(const Fabric& fabric, const std::vector<std::string>& ids) {
  Cables cables;
  for (const auto& [ends, cable] : CableFinder(fabric, ids).Find()) {
    const std::size_t from = std::get<0>(ends);
    const std::size_t to = std::get<2>(ends);
    cables.all_[{from, to}].push_back(cable);
    FabricCable turned = cable;
    std::swap(turned.own, turned.other);
    cables.all_[{to, from}].push_back(std::move(turned));
  }
  for (auto& [pair, between] : cables.all_) KeepTheBest(between);
  return cables;
}

std::vector<InterfaceAddress> AddressesOf(const Fabric& fabric, const std::string& node_name) {
  std::vector<InterfaceAddress> addresses;
  for (const v1::NodeCheckup& checkup : fabric.checkups.nodes()) {
    if (checkup.name() != node_name) continue;
    for (const v1::InterfaceCheckup& interface : checkup.interfaces()) {
      if (!interface.running() || interface.loopback()) continue;
      for (const std::string& text : interface.addresses()) {
        const auto four = Ipv4(text);
        if (!four || *four == 0 || IsLoopback(*four) || IsSelfAssigned(*four)) continue;
        addresses.push_back({interface.name(), text});
      }
    }
  }
  return addresses;
}

bool AreInOneNetwork(const std::string& ipv4, const std::string& other) {
  const auto one = Ipv4(ipv4);
  const auto two = Ipv4(other);
  return one && two && *one >> 8 == *two >> 8;
}

bool IsClosedRing(const std::vector<std::size_t>& order, const Cables& cables) {
  if (order.size() < 2) return true;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (!cables.Joins(order[i], order[(i + 1) % order.size()])) return false;
  }
  return true;
}

std::vector<std::size_t> RingOrder(std::size_t count, const Cables& cables, bool& closed) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  closed = IsClosedRing(order, cables);
  if (closed || count < 3) return order;
  // A ring of cables is better than one through a switch.
  for (const bool switched : {false, true}) {
    std::vector<std::size_t> row;
    if (!RingSearch(count, cables, switched).Find(row)) continue;
    closed = true;
    return row;
  }
  return order;
}

}  // namespace mlxcomm::ctl
