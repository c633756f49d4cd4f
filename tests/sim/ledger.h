// The real faults of hosts and cables, so that a failure can be judged: which hosts may be lost to
// which others.
//
// Two hosts may be lost to each other if one of them went off, or if there was no route between
// them for longer than `lost_after`. A cable counts for a route only once it has been up for
// `settles`: connections must be made over it first. So the ledger answers "may", and never for a
// pair that had to stay linked.
//
// Owner: World. Thread: one. Memory: a number for each pair of hosts.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/sim/schedule.h"

namespace mlxcomm::sim {

class Ledger {
 public:
  struct Edge {
    std::size_t a = 0;
    std::size_t b = 0;
  };

  Ledger(Schedule& schedule, std::size_t hosts, std::uint64_t settles_ns,
         std::uint64_t lost_after_ns);
  std::size_t AddEdge(Edge edge);

  // A cable, or a host that is stopped or off, comes and goes.
  void SetEdge(std::size_t edge, bool up);
  void SetHost(std::size_t host, bool up);
  void OnHostOff(std::size_t host);

  bool AreJoined(std::size_t a, std::size_t b) const;
  // At any time from `since_ns` on.
  bool MayBeLost(std::size_t a, std::size_t b, std::uint64_t since_ns) const;
  // How long this host was stopped in total: no process there could notice a deadline.
  std::uint64_t stopped_ns(std::size_t host) const { return hosts_[host].stopped_ns; }

 private:
  struct Item {
    bool up = true;
    bool counts = true;        // It is up and has been for long enough.
    std::uint64_t change = 0;  // Invalidates what was scheduled before.
  };
  struct HostItem {
    Item item;
    std::uint64_t off_until_ns = 0;  // It was off before.
    std::uint64_t stopped_ns = 0;
    std::uint64_t stopped_since_ns = 0;
  };
  void Change(Item& item, bool up);
  void Count();
  std::size_t Pair(std::size_t a, std::size_t b) const { return a * hosts_.size() + b; }

  Schedule& schedule_;
  std::uint64_t settles_ns_;
  std::uint64_t lost_after_ns_;
  std::vector<HostItem> hosts_;
  std::vector<Item> edges_;
  std::vector<Edge> ends_;
  std::vector<std::size_t> island_;         // By host, at the last count.
  std::vector<std::uint64_t> apart_since_;  // By pair; kNever means together.
  std::vector<std::uint64_t> lost_until_;   // By pair: they may have been lost before.
};

}  // namespace mlxcomm::sim
