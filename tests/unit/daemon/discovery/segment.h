// Several Discoveries on simulated cables and switches, in virtual time: all others on the same
// segment hear what one says, a little later, in some order, and not all of it.
//
// Owner: the test. Thread: its own. Memory: what is under way.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/discovery/discovery.h"
#include "tests/unit/daemon/discovery/hellos.h"

namespace mlxcomm::discovery {

inline constexpr std::uint64_t kMs = 1'000'000;

class SimulatedNode final : private DiscoveryPort {
 public:
  SimulatedNode(std::uint16_t number, std::uint64_t incarnation, std::uint8_t key,
                std::mt19937_64& random)
      : number_(number), discovery_(OptionsOf(number, incarnation, key, random), *this) {}

  Discovery& discovery() { return discovery_; }
  const std::set<std::string>& dialed() const { return dialed_; }
  void Up(const std::string& interface, std::uint8_t address, std::uint64_t now) {
    discovery_.OnInterfaceUp({interface, AddressOf(number_, address), 7470}, now);
  }
  std::size_t heard(std::uint64_t now) const {
    std::size_t count = 0;
    for (const Discovery::Neighbour* one : discovery_.Neighbours()) count += !one->IsLost(now);
    return count;
  }
  // The hellos that it has sent: the interface and the bytes.
  std::vector<std::pair<std::string, std::vector<std::uint8_t>>> said;

 private:
  static DiscoveryOptions OptionsOf(std::uint16_t number, std::uint64_t incarnation,
                                    std::uint8_t key, std::mt19937_64& random) {
    // The options have a plain function: one generator for all.
    generator = &random;
    DiscoveryOptions options;
    options.self = {NodeOf(number), "node-" + std::to_string(number), "test", incarnation};
    options.cluster = "lab";
    options.keys = {KeyOf(key)};
    options.random = [] { return (*generator)() | 1; };
    return options;
  }
  void SendHello(const std::string& interface, const wire::DiscoveryHello& hello) override {
    const auto* const first = reinterpret_cast<const std::uint8_t*>(&hello);
    said.emplace_back(interface, std::vector<std::uint8_t>(first, first + sizeof hello));
  }
  void Dial(const std::string& address) override { dialed_.insert(address); }
  void StopDialing(const std::string& address) override { dialed_.erase(address); }

  static inline std::mt19937_64* generator = nullptr;
  std::uint16_t number_;
  std::set<std::string> dialed_;
  Discovery discovery_;
};

class Segments {
 public:
  explicit Segments(std::uint64_t seed, double loss = 0) : random_(seed), loss_(loss) {}

  SimulatedNode& Add(std::uint16_t number, std::uint8_t key = 1) {
    const std::uint64_t incarnation = random_() | 1;
    auto& node = nodes_[number];
    node = std::make_unique<SimulatedNode>(number, incarnation, key, random_);
    return *node;
  }
  void End(std::uint16_t number) { nodes_.erase(number); }
  SimulatedNode& node(std::uint16_t number) { return *nodes_.at(number); }

  // From now on its interface is on that segment.
  void Plug(std::uint16_t number, const std::string& interface, int segment,
            std::uint8_t address = 0) {
    places_[segment][{number, interface}] = AddressOf(number, address);
    node(number).Up(interface, address, now_);
    Collect();
  }
  void Unplug(std::uint16_t number, const std::string& interface) {
    for (auto& [segment, on_it] : places_) on_it.erase({number, interface});
    if (nodes_.contains(number)) node(number).discovery().OnInterfaceDown(interface);
  }

  void RunFor(std::uint64_t duration_ns) {
    const std::uint64_t end = now_ + duration_ns;
    for (;;) {
      std::uint64_t next = end;
      for (const auto& [number, node] : nodes_) {
        next = std::min(next, node->discovery().deadline_ns());
      }
      if (!under_way_.empty()) next = std::min(next, under_way_.begin()->first);
      now_ = std::max(now_, next);
      if (now_ >= end) break;
      while (!under_way_.empty() && under_way_.begin()->first <= now_) Deliver();
      for (const auto& [number, node] : nodes_) node->discovery().OnTime(now_);
      Collect();
    }
  }
  std::uint64_t now() const { return now_; }
  std::uint64_t said() const { return said_; }
  // The last hello of that node on that interface.
  const std::vector<std::uint8_t>& last_said(std::uint16_t number) const {
    return last_said_.at(number);
  }

 private:
  struct Datagram {
    std::uint16_t to = 0;
    std::string interface;
    wire::AddressBytes from{};
    std::vector<std::uint8_t> bytes;
  };

  void Deliver() {
    const Datagram datagram = std::move(under_way_.begin()->second);
    under_way_.erase(under_way_.begin());
    const auto found = nodes_.find(datagram.to);
    if (found == nodes_.end()) return;
    found->second->discovery().OnDatagram(datagram.interface, datagram.from, datagram.bytes, now_);
    Collect();
  }
  void Collect() {
    for (const auto& [number, node] : nodes_) {
      for (auto& [interface, bytes] : node->said) {
        ++said_;
        last_said_[number] = bytes;
        Spread(number, interface, bytes);
      }
      node->said.clear();
    }
  }
  void Spread(std::uint16_t number, const std::string& interface,
              const std::vector<std::uint8_t>& bytes) {
    for (const auto& [segment, on_it] : places_) {
      const auto from = on_it.find({number, interface});
      if (from == on_it.end()) continue;
      for (const auto& [to, address] : on_it) {
        const bool lost = std::uniform_real_distribution<>(0, 1)(random_) < loss_;
        if (to == from->first || lost) continue;
        const std::uint64_t delay = 20'000 + random_() % 500'000;
        under_way_.emplace(now_ + delay, Datagram{to.first, to.second, from->second, bytes});
      }
    }
  }

  std::mt19937_64 random_;
  double loss_;
  std::uint64_t now_ = 1'000'000 * kMs;
  std::uint64_t said_ = 0;
  std::map<std::uint16_t, std::unique_ptr<SimulatedNode>> nodes_;
  std::map<int, std::map<std::pair<std::uint16_t, std::string>, wire::AddressBytes>> places_;
  std::multimap<std::uint64_t, Datagram> under_way_;
  std::map<std::uint16_t, std::vector<std::uint8_t>> last_said_;
};

}  // namespace mlxcomm::discovery
