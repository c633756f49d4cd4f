#include "daemon/fabric/router.h"

#include <algorithm>
#include <optional>
#include <vector>

#include <spdlog/spdlog.h>

#include "daemon/platform/machine.h"

namespace mlxcomm::fabric {

Router::Router(const FabricOptions& options, RouterPort& port)
    : options_(options),
      port_(port),
      table_(options.self.id, options.self.incarnation, options.self.name),
      circuits_(options.self.id, *this) {}

bool Router::SendToNeighbour(const NodeId& neighbour, const wire::FrameHeader& header,
                             const std::byte* payload) {
  Link* const link = port_.FindLink(neighbour);
  return link != nullptr && link->is_neighbour() && link->Send(header, payload, 0).ok();
}

bool Router::Tell(const NodeId& neighbour, const Advertisement& advertisement) {
  const std::vector<std::byte> payload = Encode(advertisement);
  wire::FrameHeader header;
  header.type = wire::FrameType::kTopology;
  header.payload_bytes = static_cast<std::uint32_t>(payload.size());
  return SendToNeighbour(neighbour, header, payload.data());
}

void Router::Flood(const Advertisement& advertisement, const NodeId* but) {
  for (auto& [node, all_due] : neighbours_) {
    if (but != nullptr && node == *but) continue;
    if (!Tell(node, advertisement)) all_due = true;
  }
}

void Router::TellWholeTable(const NodeId& neighbour) {
  bool told = true;
  for (const Advertisement* const advertisement : table_.All()) {
    told = told && Tell(neighbour, *advertisement);
  }
  neighbours_[neighbour] = !told;
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
  TellWholeTable(node);
}

void Router::OnNeighbourGone(const NodeId& node, bool reset, const std::string& why) {
  neighbours_.erase(node);
  NeighboursChanged();
  circuits_.OnNeighbourGone(node, reset, why, platform::MonotonicNow());
}

void Router::OnRouting(const NodeId& neighbour, const wire::FrameHeader& header,
                       std::span<const std::byte> payload) {
  if (header.type == wire::FrameType::kTopology) return OnAdvertisement(neighbour, payload);
  circuits_.OnFrame(neighbour, header, payload, platform::MonotonicNow());
}

void Router::OnAdvertisement(const NodeId& neighbour, std::span<const std::byte> payload) {
  const std::optional<Advertisement> told = Decode(payload);
  if (!told.has_value()) {
    ++violations_;
    return spdlog::error("node {} tells of neighbours in a way that breaks a bound",
                         table_.NameOf(neighbour));
  }
  switch (table_.Take(*told)) {
    case RouteTable::Verdict::kNewer: return Flood(*told, &neighbour);
    case RouteTable::Verdict::kOwn: return Flood(table_.Own(), nullptr);
    case RouteTable::Verdict::kOlder:
      if (!Tell(neighbour, *table_.Find(told->origin))) neighbours_[neighbour] = true;
      return;
    case RouteTable::Verdict::kRefused: ++violations_; return;
    case RouteTable::Verdict::kKnown: return;
  }
}

void Router::OnCircuitEnded(const NodeId& node, const std::string& why) {
  const auto found = attempts_.find(node);
  if (found != attempts_.end()) {
    Attempt& attempt = found->second;
    attempt.opening_or_open = false;
    if (attempt.detail != why) {
      attempt.detail = why;
      spdlog::info("way to {}: {}", table_.NameOf(node), why);
    }
    const std::uint64_t now = platform::MonotonicNow();
    if (now - attempt.opened_ns >= kSteadyNs) {
      attempt.pause_ns = options_.reconnect_delay_min_ns;
      attempt.next_ns = now;
    }
  }
  next_look_ns_ = 0;
  port_.OnDeadlineChanged();
}

void Router::Turn(std::uint64_t now_ns) {
  if (table_.changed()) OnWaysChanged(now_ns);
  if (now_ns >= next_look_ns_) Look(now_ns);
}

// Whoever could not be reached may be reached now.
void Router::OnWaysChanged(std::uint64_t now_ns) {
  table_.FindWays(now_ns);
  std::erase_if(attempts_, [this](const auto& entry) {
    return table_.WayTo(entry.first).empty();
  });
  for (auto& [node, attempt] : attempts_) {
    attempt.pause_ns = options_.reconnect_delay_min_ns;
    attempt.next_ns = std::min(attempt.next_ns, now_ns + attempt.pause_ns);
  }
  next_look_ns_ = 0;
}

void Router::Look(std::uint64_t now_ns) {
  next_look_ns_ = kNever;
  table_.ForgetUnreachable(now_ns);
  for (const auto& [node, all_due] : neighbours_) {
    if (!all_due) continue;
    TellWholeTable(node);
    if (all_due) next_look_ns_ = now_ns + kTellAgainNs;
  }
  circuits_.OnTime(now_ns);
  for (const NodeId& node : table_.Reachable()) {
    if (!(options_.self.id < node)) continue;  // It reaches us.
    const Link* const link = port_.FindLink(node);
    if (link != nullptr && link->has_rail()) continue;
    const auto [entry, is_new] = attempts_.try_emplace(node);
    Attempt& attempt = entry->second;
    if (is_new) {
      attempt.pause_ns = options_.reconnect_delay_min_ns;
      attempt.next_ns = now_ns + kSettleNs;
    }
    if (attempt.opening_or_open) continue;
    if (now_ns >= attempt.next_ns) Reach(node, attempt, now_ns);
    if (!attempt.opening_or_open) next_look_ns_ = std::min(next_look_ns_, attempt.next_ns);
  }
  next_look_ns_ = std::min(next_look_ns_, circuits_.deadline_ns());
  next_look_ns_ = std::max(next_look_ns_, now_ns + kLookAgainNs);
  port_.OnDeadlineChanged();
}

void Router::Reach(const NodeId& node, Attempt& attempt, std::uint64_t now_ns) {
  attempt.next_ns = now_ns + attempt.pause_ns;
  attempt.pause_ns = std::min(2 * attempt.pause_ns, options_.reconnect_delay_max_ns);
  attempt.opened_ns = now_ns;
  const std::vector<NodeId> way = table_.WayTo(node);
  // Two nodes: its connection has gone just now.
  if (way.size() < 3) return;
  attempt.opening_or_open = circuits_.Open(way, now_ns + options_.greeting_timeout_ns);
}

}  // namespace mlxcomm::fabric
