#include "daemon/fabric/circuit/router.h"

#include <algorithm>
#include <optional>
#include <vector>

#include <spdlog/spdlog.h>

namespace mlxcomm::fabric {

bool Router::Report(const NodeId& neighbour, const Advertisement& advertisement) {
  const std::vector<std::byte> payload = Encode(advertisement);
  return port_.SendToNeighbour(neighbour,
                               {.type = wire::FrameType::kTopology,
                                .payload_bytes = static_cast<std::uint32_t>(payload.size())},
                               payload.data());
}

void Router::Flood(const Advertisement& advertisement, const NodeId* but) {
  for (auto& [node, all_due] : neighbours_) {
    if (but != nullptr && node == *but) continue;
    if (!Report(node, advertisement)) all_due = true;
  }
}

void Router::SendWholeTable(const NodeId& neighbour) {
  bool reported = true;
  for (const Advertisement* const advertisement : table_.All()) {
    reported = reported && Report(neighbour, *advertisement);
  }
  neighbours_[neighbour] = !reported;
}

void Router::NeighboursChanged() {
  std::vector<NodeId> nodes;
  for (const auto& [node, all_due] : neighbours_) nodes.push_back(node);
  table_.SetNeighbours(std::move(nodes));
  Flood(table_.Own(), nullptr);
}

void Router::OnNeighbourUp(const NodeId& node) {
  neighbours_[node] = false;
  NeighboursChanged();
  SendWholeTable(node);
}

void Router::OnNeighbourGone(const NodeId& node, bool reset, const std::string& why,
                             std::uint64_t now_ns) {
  neighbours_.erase(node);
  NeighboursChanged();
  circuits_.OnNeighbourGone(node, reset, why, now_ns);
}

// Frames may arrive after the sender has ceased to be a neighbour (its channel continues over a
// circuit). Its advertisements still count, but its circuits have ended.
void Router::OnRouting(const NodeId& neighbour, const wire::FrameHeader& header,
                       std::span<const std::byte> payload, std::uint64_t now_ns) {
  if (header.type == wire::FrameType::kTopology) return OnAdvertisement(neighbour, payload);
  const link::Link* const link = port_.FindLink(neighbour);
  if (link == nullptr || !link->is_neighbour() || !neighbours_.contains(neighbour)) return;
  circuits_.OnFrame(neighbour, header, payload, now_ns);
}

void Router::OnAdvertisement(const NodeId& neighbour, std::span<const std::byte> payload) {
  const std::optional<Advertisement> reported = Decode(payload);
  if (!reported.has_value()) {
    return spdlog::error("node {} sent a malformed list of its neighbours",
                         table_.NameOf(neighbour));
  }
  switch (table_.Take(*reported)) {
    case RouteTable::Verdict::kNewer: return Flood(*reported, &neighbour);
    case RouteTable::Verdict::kOwn: return Flood(table_.Own(), nullptr);
    case RouteTable::Verdict::kOlder:
      if (const auto found = neighbours_.find(neighbour);
          found != neighbours_.end() && !Report(neighbour, *table_.Find(reported->origin))) {
        found->second = true;
      }
      return;
    case RouteTable::Verdict::kRefused:
    case RouteTable::Verdict::kKnown: return;
  }
}

// The graph may have changed while the circuit was opening.
void Router::CheckForShorter(const NodeId& node, Attempt& attempt, std::uint64_t now_ns) const {
  const std::size_t nodes = table_.RouteTo(node).size();
  if (nodes == 0 || nodes >= attempt.route_nodes) {
    attempt.shorter_since_ns = kNever;
  } else if (attempt.shorter_since_ns == kNever) {
    attempt.shorter_since_ns = now_ns;
  }
}

void Router::OnCircuitEvent(const CircuitEvent& event, std::uint64_t now_ns) {
  next_check_ns_ = 0;
  const auto found = attempts_.find(event.node);
  if (found == attempts_.end()) return;
  Attempt& attempt = found->second;
  if (event.route_nodes > 0) {
    attempt.route_nodes = event.route_nodes;
    attempt.shorter_since_ns = kNever;
    attempt.detail.clear();
    return CheckForShorter(event.node, attempt, now_ns);
  }
  if (attempt.detail != event.why) {
    attempt.detail = event.why;
    spdlog::info("route to {}: {}", table_.NameOf(event.node), event.why);
  }
  if (now_ns - attempt.opened_ns >= kSteadyNs) {
    attempt.pause_ns = options_.reconnect_delay_min_ns;
    attempt.next_ns = now_ns;
  }
}

void Router::Turn(std::uint64_t now_ns) {
  for (const CircuitEvent& event : circuits_.TakeEvents()) OnCircuitEvent(event, now_ns);
  if (table_.changed()) OnRoutesChanged(now_ns);
  if (now_ns >= next_check_ns_) CheckAll(now_ns);
}

void Router::OnRoutesChanged(std::uint64_t now_ns) {
  table_.FindRoutes(now_ns);
  std::erase_if(attempts_, [this, opened = circuits_.Opened()](const auto& entry) {
    return table_.RouteTo(entry.first).empty() && !opened.contains(entry.first);
  });
  for (auto& [node, attempt] : attempts_) {
    CheckForShorter(node, attempt, now_ns);
    attempt.pause_ns = options_.reconnect_delay_min_ns;
    attempt.next_ns = std::min(attempt.next_ns, now_ns + attempt.pause_ns);
  }
  next_check_ns_ = 0;
}

void Router::CheckAll(std::uint64_t now_ns) {
  next_check_ns_ = kNever;
  table_.ForgetUnreachable(now_ns);
  for (const auto& [node, all_due] : neighbours_) {
    if (!all_due) continue;
    SendWholeTable(node);
    if (all_due) next_check_ns_ = now_ns + kReportAgainNs;
  }
  circuits_.OnTime(now_ns);
  const absl::flat_hash_set<NodeId> opened = circuits_.Opened();
  for (const NodeId& node : table_.Reachable()) {
    if (!(options_.self.id < node)) continue;  // The other node opens the circuit.
    const link::Link* const link = port_.FindLink(node);
    if (link != nullptr && link->is_neighbour()) continue;
    const auto [entry, is_new] = attempts_.try_emplace(node);
    Attempt& attempt = entry->second;
    if (is_new) {
      attempt.pause_ns = options_.reconnect_delay_min_ns;
      attempt.next_ns = now_ns + kSettleNs;
    }
    if (circuits_.IsOpening(node)) continue;
    std::uint64_t due = attempt.next_ns;
    if (opened.contains(node)) {
      if (attempt.shorter_since_ns == kNever) continue;
      due = std::max(due, attempt.shorter_since_ns + kHoldDownNs);
    }
    if (now_ns >= due) {
      Reach(node, attempt, now_ns);
      due = attempt.next_ns;
    }
    if (!circuits_.IsOpening(node)) next_check_ns_ = std::min(next_check_ns_, due);
  }
  next_check_ns_ = std::min(next_check_ns_, circuits_.deadline_ns());
  next_check_ns_ = std::max(next_check_ns_, now_ns + kCheckPauseNs);
}

void Router::Reach(const NodeId& node, Attempt& attempt, std::uint64_t now_ns) {
  attempt.next_ns = now_ns + attempt.pause_ns;
  attempt.pause_ns = std::min(2 * attempt.pause_ns, options_.reconnect_delay_max_ns);
  attempt.opened_ns = now_ns;
  const std::vector<NodeId> route = table_.RouteTo(node);
  // A route of two nodes: the direct connection has just ended.
  if (route.size() < 3) return;
  circuits_.Open(route, now_ns + options_.greeting_timeout_ns, now_ns);
}

}  // namespace mlxcomm::fabric
