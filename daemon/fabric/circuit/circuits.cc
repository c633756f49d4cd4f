#include "daemon/fabric/circuit/circuits.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>

#include <spdlog/spdlog.h>

#include "absl/strings/str_cat.h"
#include "daemon/rail/text_field.h"
#include "proto/types/plain_text.h"

namespace mlxcomm::fabric {
namespace {

// Returns the route that an opening names, or nothing if it is malformed.
std::vector<NodeId> RouteIn(const wire::CircuitOpening& opening,
                            std::span<const std::byte> payload) {
  const std::uint32_t count = opening.node_count;
  if (count < 3 || count > wire::kRouteNodesMax || opening.reserved != 0 ||
      payload.size() != sizeof opening + count * sizeof(wire::NodeIdBytes)) {
    return {};
  }
  std::vector<NodeId> route(count);
  std::ranges::copy(payload.subspan(sizeof opening),
                    std::as_writable_bytes(std::span(route)).begin());
  std::vector<NodeId> sorted = route;
  std::ranges::sort(sorted);
  const bool no_loop = std::ranges::adjacent_find(sorted) == sorted.end();
  return no_loop ? route : std::vector<NodeId>();
}

std::vector<std::byte> OpeningOf(const wire::Introduction& own, const std::vector<NodeId>& route) {
  wire::CircuitOpening opening{};
  opening.introduction = own;
  opening.node_count = static_cast<std::uint32_t>(route.size());
  std::vector<std::byte> payload(sizeof opening);
  std::memcpy(payload.data(), &opening, sizeof opening);
  const std::span<const std::byte> ids = std::as_bytes(std::span(route));
  payload.insert(payload.end(), ids.begin(), ids.end());
  return payload;
}

wire::FrameHeader Header(wire::FrameType type, std::uint64_t circuit, std::size_t bytes) {
  return {.type = type, .payload_bytes = static_cast<std::uint32_t>(bytes), .group = circuit};
}

constexpr char kTooManyFar[] = "the limit of nodes that are linked through others is reached";

// The reason to report if the frame names no known one.
LinkReason OfEnd(wire::CircuitEnd end) {
  return end == wire::CircuitEnd::kReset ? LinkReason::kPeerStopped : LinkReason::kWayEnded;
}

}  // namespace

std::string Circuits::Through(const std::vector<NodeId>& route) const {
  std::string text;
  for (std::size_t i = 1; i + 1 < route.size(); ++i) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", name_of_(route[i]));
  }
  return text;
}

void Circuits::LogViolation(const NodeId& neighbour, const char* what) {
  spdlog::error("node {} sent {}", name_of_(neighbour), what);
}

bool Circuits::MayCross(const NodeId& neighbour) const {
  std::size_t crossing = 0;
  for (const auto& [id, circuit] : circuits_) {
    if (circuit.sides[0].node == neighbour || circuit.sides[1].node == neighbour) ++crossing;
  }
  return crossing < kCircuitsPerNeighbourMax;
}

absl::flat_hash_set<NodeId> Circuits::Opened() const {
  absl::flat_hash_set<NodeId> nodes;
  for (const auto& [id, circuit] : circuits_) {
    if (circuit.place == Place::kOpener) nodes.insert(circuit.destination);
  }
  return nodes;
}

bool Circuits::Open(const std::vector<NodeId>& route, std::uint64_t deadline_ns,
                    std::uint64_t now_ns) {
  now_ns_ = now_ns;
  const NodeId& to = route.back();
  if (links_.IsJoining(to) || IsOpening(to)) return false;
  if (circuits_.size() >= kCircuitsMax || !MayCross(route[1])) return false;
  link::Link* const link = links_.LinkTo(to);
  if (link == nullptr) {
    events_.push_back({to, 0, kTooManyFar});
    return false;
  }
  if (link->is_neighbour()) return false;
  Circuit circuit;
  circuit.place = Place::kOpening;
  circuit.sides = {Side{self_}, Side{route[1]}};
  circuit.opener = self_;
  circuit.destination = route.back();
  circuit.standing = link->standing();
  circuit.deadline_ns = deadline_ns;
  circuit.through = Through(route);
  circuit.route_nodes = route.size();
  const std::vector<std::byte> payload = OpeningOf(links_.OwnIntroduction(circuit.standing), route);
  const std::uint64_t id = random_();
  if (circuits_.contains(id)) return false;
  if (!links_.SendToNeighbour(route[1], Header(wire::FrameType::kCircuitOpen, id, payload.size()),
                              payload.data())) {
    return false;
  }
  opening_.insert(circuit.destination);
  circuits_[id] = std::move(circuit);
  return true;
}

std::vector<std::uint64_t> Circuits::Sorted() const {
  std::vector<std::uint64_t> ids;
  ids.reserve(circuits_.size());
  for (const auto& [id, circuit] : circuits_) ids.push_back(id);
  std::ranges::sort(ids);
  return ids;
}

void Circuits::OnFrame(const NodeId& neighbour, const wire::FrameHeader& header,
                       std::span<const std::byte> payload, std::uint64_t now_ns) {
  now_ns_ = now_ns;
  if (header.type == wire::FrameType::kCircuitOpen) {
    return OnOpen(neighbour, header, payload, now_ns);
  }
  const auto found = circuits_.find(header.group);
  if (found == circuits_.end()) {
    // The peer may not have seen why the circuit closed.
    if (header.type == wire::FrameType::kCircuitClosed) return;
    return SendClosed(neighbour, header.group, wire::CircuitEnd::kCut,
                      absl::StrCat("node ", name_of_(self_), " has closed it"));
  }
  Circuit& circuit = found->second;
  std::size_t from = 0;
  if (circuit.place != Place::kDestination && circuit.sides[1].node == neighbour) from = 1;
  if (circuit.sides[from].node != neighbour) {
    return LogViolation(neighbour, "a frame of a circuit that does not pass through it");
  }
  if (header.type == wire::FrameType::kCircuitClosed) {
    const auto text =
        std::string_view(reinterpret_cast<const char*>(payload.data()), payload.size());
    const std::string why = MakePrintable(text);
    const auto end = static_cast<wire::CircuitEnd>(header.step);
    const LinkReason reason = LinkReasonOf(header.tag, OfEnd(end));
    if (circuit.place == Place::kBetween) {
      SendClosed(circuit.sides[1 - from].node, header.group, end, why, reason);
    }
    const bool reset = end == wire::CircuitEnd::kReset;
    return End(header.group, {why, reset ? rail::DownCause::kReset : rail::DownCause::kCut, reason},
               now_ns);
  }
  switch (circuit.place) {
    case Place::kBetween: return Forward(header.group, 1 - from, header, payload);
    case Place::kOpening:
      if (header.type == wire::FrameType::kCircuitOpened) return OnOpened(header, payload, now_ns);
      [[fallthrough]];
    case Place::kOpener:
    case Place::kDestination: return Arrive(circuit, header, payload, now_ns);
  }
}

void Circuits::OnOpen(const NodeId& neighbour, const wire::FrameHeader& header,
                      std::span<const std::byte> payload, std::uint64_t now_ns) {
  wire::CircuitOpening opening;
  std::memcpy(&opening, payload.data(), sizeof opening);
  const std::vector<NodeId> route = RouteIn(opening, payload);
  const auto self = std::ranges::find(route, self_);
  const std::uint64_t id = header.group;
  const auto refuse = [&](const std::string& why) {
    SendClosed(neighbour, id, wire::CircuitEnd::kCut, why);
  };
  if (self == route.begin() || self == route.end() || *(self - 1) != neighbour || id == 0) {
    LogViolation(neighbour, "a request for a circuit on an invalid route");
    return refuse("the route is invalid");
  }
  // A coincidence, or an attempt to take it over: the existing circuit keeps the number.
  if (circuits_.contains(id)) return refuse("its number is in use, try again");
  if (circuits_.size() >= kCircuitsMax || !MayCross(neighbour)) {
    return refuse(absl::StrCat("node ", name_of_(self_), " has too many circuits"));
  }
  if (self + 1 == route.end()) return Accept(id, opening.introduction, neighbour, route, now_ns);
  const NodeId& next = *(self + 1);
  if (!MayCross(next) || !links_.SendToNeighbour(next, header, payload.data())) {
    return refuse(absl::StrCat("node ", name_of_(self_), " has no link to node ", name_of_(next),
                               ", or too many circuits over it"));
  }
  Circuit& circuit = circuits_[id];
  circuit.sides = {Side{neighbour}, Side{next}};
  circuit.opener = route.front();
  circuit.destination = route.back();
}

// Replaces an older circuit. The opener may not know of a connection that exists or is being made.
void Circuits::Accept(std::uint64_t id, const wire::Introduction& opener, const NodeId& neighbour,
                      const std::vector<NodeId>& route, std::uint64_t now_ns) {
  const NodeId peer = route.front();
  const bool may_be = peer < self_ && opener.session != 0 && !links_.IsJoining(peer);
  if (const std::string fault = FaultOfVersions(opener); may_be && !fault.empty())
    return SendClosed(neighbour, id, wire::CircuitEnd::kCut, fault, LinkReason::kVersionTooFar);
  link::Link* const link = may_be ? links_.LinkTo(peer) : nullptr;
  if (may_be && link == nullptr) {
    return SendClosed(neighbour, id, wire::CircuitEnd::kCut,
                      absl::StrCat("node ", name_of_(self_), ": ", kTooManyFar),
                      LinkReason::kTooMany);
  }
  if (link == nullptr || link->is_neighbour()) {
    return SendClosed(neighbour, id, wire::CircuitEnd::kCut, "the nodes have a direct link");
  }
  const link::Link::Standing standing = link->AnswerTo(opener);
  const wire::Introduction own = links_.OwnIntroduction(standing);
  if (!links_.SendToNeighbour(neighbour, Header(wire::FrameType::kCircuitOpened, id, sizeof own),
                              reinterpret_cast<const std::byte*>(&own))) {
    return;  // The neighbour is gone, and the circuit with it.
  }
  std::vector<NodeId> back(route.rbegin(), route.rend());
  Circuit& circuit = circuits_[id];
  circuit.place = Place::kDestination;
  circuit.sides = {Side{neighbour}, Side{self_}};
  circuit.opener = peer;
  circuit.destination = self_;
  circuit.through = Through(back);
  circuit.route_nodes = route.size();
  const absl::Status added = AddRail(id, *link, opener, standing, now_ns);
  // The rejected rail has closed the circuit.
  if (!added.ok()) spdlog::info("route to {}: {}", name_of_(peer), std::string(added.message()));
}

void Circuits::OnOpened(const wire::FrameHeader& header, std::span<const std::byte> payload,
                        std::uint64_t now_ns) {
  wire::Introduction theirs;
  std::memcpy(&theirs, payload.data(), sizeof theirs);
  Circuit& circuit = circuits_.at(header.group);
  circuit.place = Place::kOpener;
  circuit.deadline_ns = kNever;
  const NodeId peer = circuit.destination;
  const std::size_t route_nodes = circuit.route_nodes;
  const link::Link::Standing standing = circuit.standing;
  link::Link* const link = links_.LinkTo(peer);  // While the node still counts as opening.
  opening_.erase(peer);
  absl::Status added = absl::AbortedError("a connection to it is being made");
  if (theirs.session == 0) {
    added = absl::InvalidArgumentError("its introduction names no session");
  } else if (const std::string fault = FaultOfVersions(theirs); !fault.empty()) {
    added = absl::FailedPreconditionError(fault);
  } else if (link == nullptr) {
    added = absl::ResourceExhaustedError(kTooManyFar);
  } else if (!links_.IsJoining(peer)) {
    added = AddRail(header.group, *link, theirs, standing, now_ns);
  }
  if (!added.ok()) {
    return CloseCircuit(header.group, wire::CircuitEnd::kCut, std::string(added.message()));
  }
  events_.push_back({peer, route_nodes, {}});
}

// Returns an empty text if both ends speak a common version.
std::string Circuits::FaultOfVersions(const wire::Introduction& theirs) const {
  const wire::VersionRange own = wire::SpokenVersions();
  if (wire::CommonVersion(own, theirs.versions).has_value()) return {};
  return absl::StrCat("node ", MakePrintable(rail::TextOf(theirs.node_name)),
                      " speaks protocol version ", wire::TextOf(theirs.versions), ", and node ",
                      name_of_(self_), " version ", wire::TextOf(own),
                      ": upgrade the older of the two");
}

// A rail that the link rejects closes its circuit; so does the rail that this one replaces.
absl::Status Circuits::AddRail(std::uint64_t id, link::Link& link, const wire::Introduction& theirs,
                               const link::Link::Standing& standing, std::uint64_t now_ns) {
  Circuit& circuit = circuits_.at(id);
  const link::NodeIdentity peer{
      .id = circuit.OtherEnd(),
      .name = MakePrintable(rail::TextOf(theirs.node_name)),
      .software_version = MakePrintable(rail::TextOf(theirs.software_version)),
      .incarnation = theirs.incarnation};
  auto rail =
      std::make_unique<CircuitRail>(*this, id, circuit.through, peer.name, theirs.versions, now_ns);
  circuit.rail = rail.get();
  spdlog::info("route to {} through {}", peer.name, circuit.through);
  return link.AddRail(std::move(rail), rail::RailPath::OfCircuit(id), peer, theirs, standing,
                      now_ns);
}

// Data frames and the credits and grants that control them.
bool Circuits::IsOfAnOperation(std::span<const std::byte> piece) {
  const auto type = static_cast<wire::FrameType>(piece[offsetof(wire::FrameHeader, type)]);
  return type >= wire::FrameType::kEager && type <= wire::FrameType::kCancelled;
}

void Circuits::Forward(std::uint64_t id, std::size_t to, const wire::FrameHeader& header,
                       std::span<const std::byte> payload) {
  Circuit& circuit = circuits_.at(id);
  Side& side = circuit.sides[to];
  Side& back = circuit.sides[1 - to];
  if (header.type == wire::FrameType::kCircuitFrame) {
    if (IsOfAnOperation(payload)) operations_passed_ns_ = now_ns_;
    ++side.frames;
    side.bytes += payload.size();
    if (side.frames > wire::kCircuitFramesMax + CircuitRail::kSpareFrames ||
        side.bytes > wire::kCircuitBytesMax + CircuitRail::kSpareFrames * sizeof header) {
      return EndBroken(id, "more frames were sent than the window allows");
    }
  } else if (header.type == wire::FrameType::kCircuitCredit) {
    if (header.number == 0 || header.number > back.frames || header.offset > back.bytes) {
      return EndBroken(id, "a credit for nothing, or for more than was sent");
    }
    back.frames -= header.number;
    back.bytes -= header.offset;
  } else if (to != 0 || std::exchange(circuit.opened, true)) {
    return EndBroken(id, "it was accepted twice");
  }
  if (!links_.SendToNeighbour(side.node, header, payload.data())) {
    EndBroken(id, absl::StrCat("node ", name_of_(side.node), " accepts no more frames"));
  }
}

Circuits::Circuit Circuits::Take(std::uint64_t id) {
  Circuit circuit = std::move(circuits_.extract(id).mapped());
  if (circuit.place == Place::kOpening) opening_.erase(circuit.destination);
  return circuit;
}

void Circuits::EndBroken(std::uint64_t id, const std::string& why) {
  const Circuit circuit = Take(id);
  const std::string text = absl::StrCat("node ", name_of_(self_), ": ", why);
  for (const Side& side : circuit.sides) SendClosed(side.node, id, wire::CircuitEnd::kCut, text);
}

// `payload` is valid only during this call, so the link is polled at once.
void Circuits::Arrive(Circuit& circuit, const wire::FrameHeader& header,
                      std::span<const std::byte> payload, std::uint64_t now_ns) {
  link::Link* const link = links_.FindLink(circuit.OtherEnd());
  if (circuit.rail != nullptr && header.type == wire::FrameType::kCircuitFrame) {
    circuit.rail->OnPiece(header, payload, now_ns);
  } else if (circuit.rail != nullptr && header.type == wire::FrameType::kCircuitCredit) {
    circuit.rail->OnCredit(header.number, header.offset, now_ns);
  } else {
    return;  // Unexpected, or the circuit is not open yet.
  }
  link->Poll(now_ns);
}

void Circuits::OnNeighbourGone(const NodeId& neighbour, bool reset, const std::string& why,
                               std::uint64_t now_ns) {
  now_ns_ = now_ns;
  const std::string text = absl::StrCat("node ", name_of_(self_), " lost its link to node ",
                                        name_of_(neighbour), ": ", why);
  for (const std::uint64_t id : Sorted()) {
    const auto found = circuits_.find(id);
    if (found == circuits_.end()) continue;
    const Circuit& circuit = found->second;
    if (circuit.sides[0].node != neighbour && circuit.sides[1].node != neighbour) continue;
    if (circuit.place == Place::kBetween) {
      // Only an end can be gone for good: another route may lead around a node in between.
      const bool end_gone = neighbour == circuit.opener || neighbour == circuit.destination;
      const std::size_t other = circuit.sides[0].node == neighbour ? 1 : 0;
      SendClosed(circuit.sides[other].node, id,
                 reset && end_gone ? wire::CircuitEnd::kReset : wire::CircuitEnd::kCut, text,
                 LinkReason::kWayLostLink);
    }
    End(id, {text, rail::DownCause::kCut, LinkReason::kWayLostLink}, now_ns);
  }
}

// Removes the circuit and notifies the link at its end at once.
void Circuits::End(std::uint64_t id, const rail::RailEnd& end, std::uint64_t now_ns) {
  const Circuit circuit = Take(id);
  if (circuit.place == Place::kBetween) return;
  if (circuit.rail != nullptr) {
    // The cause comes first: a job's error message has limited room.
    circuit.rail->OnClosed(
        end.cause, absl::StrCat(end.why, ", on the route through ", circuit.through), end.reason);
    links_.FindLink(circuit.OtherEnd())->Poll(now_ns);
  }
  events_.push_back({circuit.OtherEnd(), 0, end.why});
}

void Circuits::OnTime(std::uint64_t now_ns) {
  now_ns_ = now_ns;
  if (opening_.empty()) return;
  std::vector<std::uint64_t> late;
  for (const auto& [id, circuit] : circuits_) {
    if (circuit.deadline_ns <= now_ns) late.push_back(id);
  }
  std::ranges::sort(late);
  for (const std::uint64_t id : late) CloseCircuit(id, wire::CircuitEnd::kCut, "no answer in time");
}

std::uint64_t Circuits::deadline_ns() const {
  std::uint64_t next = kNever;
  if (opening_.empty()) return next;
  for (const auto& [id, circuit] : circuits_) next = std::min(next, circuit.deadline_ns);
  return next;
}

bool Circuits::SendOnCircuit(std::uint64_t id, const wire::FrameHeader& outer,
                             const std::byte* payload) {
  const auto found = circuits_.find(id);
  if (found == circuits_.end()) return false;
  const Circuit& circuit = found->second;
  const std::size_t out = circuit.place == Place::kDestination ? 0 : 1;
  return links_.SendToNeighbour(circuit.sides[out].node, outer, payload);
}

void Circuits::CloseCircuit(std::uint64_t id, wire::CircuitEnd end, const std::string& why) {
  if (!circuits_.contains(id)) return;
  const Circuit circuit = Take(id);
  const std::size_t out = circuit.place == Place::kDestination ? 0 : 1;
  SendClosed(circuit.sides[out].node, id, end, why, OfEnd(end));
  events_.push_back({circuit.OtherEnd(), 0, why});
}

void Circuits::SendClosed(const NodeId& neighbour, std::uint64_t id, wire::CircuitEnd end,
                          const std::string& why, LinkReason reason) {
  const std::string_view text = std::string_view(why).substr(0, wire::kCircuitTextBytesMax);
  wire::FrameHeader header = Header(wire::FrameType::kCircuitClosed, id, text.size());
  header.step = static_cast<std::uint16_t>(end);
  header.tag = static_cast<std::uint32_t>(reason);
  // If this fails, the connection is gone and the circuit with it, or the ends' heartbeats will
  // time out.
  links_.SendToNeighbour(neighbour, header, reinterpret_cast<const std::byte*>(text.data()));
}

}  // namespace mlxcomm::fabric
