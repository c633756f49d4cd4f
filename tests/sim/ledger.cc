#include "tests/sim/ledger.h"

#include <numeric>

namespace mlxcomm::sim {

Ledger::Ledger(Schedule& schedule, std::size_t hosts, std::uint64_t settles_ns,
               std::uint64_t lost_after_ns)
    : schedule_(schedule),
      settles_ns_(settles_ns),
      lost_after_ns_(lost_after_ns),
      hosts_(hosts),
      island_(hosts, 0),
      apart_since_(hosts * hosts, kNever),
      lost_until_(hosts * hosts, 0) {}

std::size_t Ledger::AddEdge(Edge edge) {
  edges_.emplace_back();
  ends_.push_back(edge);
  Count();
  return edges_.size() - 1;
}

void Ledger::SetEdge(std::size_t edge, bool up) { Change(edges_[edge], up); }

void Ledger::SetHost(std::size_t host, bool up) {
  HostItem& changed = hosts_[host];
  if (changed.item.up && !up) changed.stopped_since_ns = schedule_.now_ns();
  if (up && changed.off_until_ns == kNever) changed.off_until_ns = schedule_.now_ns();
  if (!changed.item.up && up) changed.stopped_ns += schedule_.now_ns() - changed.stopped_since_ns;
  Change(changed.item, up);
}

void Ledger::OnHostOff(std::size_t host) {
  hosts_[host].off_until_ns = kNever;
  SetHost(host, false);
}

void Ledger::Change(Item& item, bool up) {
  const std::uint64_t change = ++item.change;
  item.up = up;
  if (!up) {
    item.counts = false;
    return Count();
  }
  schedule_.After(settles_ns_, [this, &item, change] {
    if (item.change != change) return;
    item.counts = true;
    Count();
  });
}

// Finds the islands again, and the times since which hosts are apart.
void Ledger::Count() {
  std::iota(island_.begin(), island_.end(), std::size_t{0});
  const auto root = [this](std::size_t host) {
    while (island_[host] != host) host = island_[host] = island_[island_[host]];
    return host;
  };
  for (std::size_t i = 0; i < edges_.size(); ++i) {
    const Edge& edge = ends_[i];
    if (!edges_[i].counts || !hosts_[edge.a].item.counts || !hosts_[edge.b].item.counts) continue;
    island_[root(edge.a)] = root(edge.b);
  }
  for (std::size_t host = 0; host < hosts_.size(); ++host) island_[host] = root(host);
  for (std::size_t a = 0; a < hosts_.size(); ++a) {
    for (std::size_t b = 0; b < hosts_.size(); ++b) {
      std::uint64_t& since = apart_since_[Pair(a, b)];
      const bool apart = a != b && island_[a] != island_[b];
      if (apart && since == kNever) since = schedule_.now_ns();
      if (apart || since == kNever) continue;
      if (schedule_.now_ns() - since > lost_after_ns_) lost_until_[Pair(a, b)] = schedule_.now_ns();
      since = kNever;
    }
  }
}

bool Ledger::AreJoined(std::size_t a, std::size_t b) const {
  return a == b || island_[a] == island_[b];
}

bool Ledger::MayBeLost(std::size_t a, std::size_t b, std::uint64_t since_ns) const {
  if (hosts_[a].off_until_ns > since_ns || hosts_[b].off_until_ns > since_ns ||
      lost_until_[Pair(a, b)] > since_ns) {
    return true;
  }
  const std::uint64_t since = apart_since_[Pair(a, b)];
  return since != kNever && schedule_.now_ns() - since > lost_after_ns_;
}

}  // namespace mlxcomm::sim
