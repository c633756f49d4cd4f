#include "daemon/cluster/forming_worlds.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace mlxcomm::cluster {

void FormingWorlds::Add(std::uint64_t group, const std::string& name,
                        const std::vector<FormedMember>& members, std::uint64_t now_ns) {
  World world;
  world.name = name;
  world.coordinator = members[0].node;
  world.way_deadline_ns = now_ns + std::min(timeouts_.way_ns, kNever - 1 - now_ns);
  world.join_deadline_ns = now_ns + std::min(timeouts_.join_ns, kNever - 1 - now_ns);
  for (std::uint32_t rank = 0; rank < members.size(); ++rank) {
    const FormedMember& member = members[rank];
    if (member.node == self_) continue;
    if (std::ranges::find(world.nodes, member.node) != world.nodes.end()) {
      continue;
    }
    world.nodes.push_back(member.node);
    const Awaited awaited{member.node, member.node_name, rank};
    if (world.coordinator == self_) world.not_joined.push_back(awaited);
    if (!port_.IsReachable(member.node)) world.wayless.push_back(awaited);
  }
  world.coordinator_name = members[0].node_name;
  const auto [added, is_new] = worlds_.insert_or_assign(group, std::move(world));
  if (added->second.wayless.empty()) Advance(added);
}

void FormingWorlds::OnLeft(std::uint64_t group, std::uint32_t rank) {
  const auto found = worlds_.find(group);
  if (found == worlds_.end()) return;
  const Failure failure{
      FailureCode::kRankLost, static_cast<std::int32_t>(rank),
      absl::StrCat("rank ", rank, " on node ", self_name_, " of group ", found->second.name,
                   " is lost: it gave up while the job was forming")};
  worlds_.erase(found);
  port_.FailGroup(group, failure);
}

void FormingWorlds::OnNodeUp(const NodeId& node) {
  for (auto world = worlds_.begin(); world != worlds_.end();) {
    const auto current = world++;  // It may be finished.
    const std::size_t come = std::erase_if(
        current->second.wayless, [&node](const Awaited& awaited) { return awaited.node == node; });
    if (come > 0 && current->second.wayless.empty()) Advance(current);
  }
}

void FormingWorlds::OnJoined(const NodeId& node, std::uint64_t group) {
  const auto found = worlds_.find(group);
  if (found == worlds_.end() || found->second.coordinator != self_) return;
  const std::size_t joined = std::erase_if(
      found->second.not_joined, [&node](const Awaited& awaited) { return awaited.node == node; });
  if (joined > 0) Advance(found);
}

void FormingWorlds::OnReady(const NodeId& node, std::uint64_t group) {
  const auto found = worlds_.find(group);
  // Not before this node has joined: no well-behaved coordinator says so.
  if (found == worlds_.end() || node == self_ || found->second.coordinator != node ||
      !found->second.wayless.empty()) {
    return;
  }
  Finish(found);
}

void FormingWorlds::Advance(Worlds::iterator world) {
  const World& found = world->second;
  if (!found.wayless.empty()) return;
  if (found.coordinator != self_) return SendStep(found.coordinator, world->first, /*ready=*/false);
  if (!found.not_joined.empty()) return;
  for (const NodeId& node : found.nodes) SendStep(node, world->first, /*ready=*/true);
  Finish(world);
}

void FormingWorlds::Finish(Worlds::iterator world) {
  const std::uint64_t group = world->first;
  worlds_.erase(world);
  port_.OnWorldReady(group);
}

void FormingWorlds::SendStep(const NodeId& node, std::uint64_t group, bool ready) {
  v1::PeerMessage message;
  if (ready) {
    message.mutable_world_ready()->set_group(group);
  } else {
    message.mutable_world_joined()->set_group(group);
  }
  port_.SendToNode(node, message);
}

Failure FormingWorlds::NoWay(const World& world) const {
  const Awaited& first = world.wayless.front();
  return {
      FailureCode::kUnavailable, static_cast<std::int32_t>(first.rank),
      absl::StrCat("node ", self_name_, " has found no way to node ", first.name, ", where rank ",
                   first.rank, " is, within ", static_cast<double>(timeouts_.way_ns) / 1e9,
                   " s: connect the two, directly or through other nodes (peers { connect } "
                   "in the configuration)")};
}

// Only the node of rank 0 knows who has joined.
Failure FormingWorlds::NotJoined(const World& world) const {
  const std::string within =
      absl::StrCat(" within ", static_cast<double>(timeouts_.join_ns) / 1e9, " s: look at ");
  if (world.coordinator != self_) {
    return {FailureCode::kUnavailable, 0,
            absl::StrCat("node ", world.coordinator_name,
                         ", where rank 0 is, has not said that "
                         "every node has joined group ",
                         world.name, within, "its daemon (mlxcommctl status)")};
  }
  constexpr std::size_t kNamed = 16;
  std::string nodes;
  for (std::size_t i = 0; i < std::min(world.not_joined.size(), kNamed); ++i) {
    absl::StrAppend(&nodes, nodes.empty() ? "" : ", ", world.not_joined[i].name, " (rank ",
                    world.not_joined[i].rank, ")");
  }
  if (world.not_joined.size() > kNamed) {
    absl::StrAppend(&nodes, " and ", world.not_joined.size() - kNamed, " more");
  }
  const bool one = world.not_joined.size() == 1;
  return {FailureCode::kUnavailable, static_cast<std::int32_t>(world.not_joined.front().rank),
          absl::StrCat(one ? "node " : "nodes ", nodes, one ? " has" : " have",
                       " not joined group ", world.name, within,
                       one ? "its daemon" : "their daemons", " (mlxcommctl status)")};
}

void FormingWorlds::OnTime(std::uint64_t now_ns) {
  for (auto world = worlds_.begin(); world != worlds_.end();) {
    const auto current = world++;
    const World& forming = current->second;
    const bool no_way = !forming.wayless.empty() && forming.way_deadline_ns <= now_ns;
    if (!no_way && forming.join_deadline_ns > now_ns) continue;
    const Failure failure = no_way ? NoWay(forming) : NotJoined(forming);
    const std::uint64_t group = current->first;
    worlds_.erase(current);
    port_.FailGroup(group, failure);
  }
}

std::uint64_t FormingWorlds::NextDeadline() const {
  std::uint64_t next = kNever;
  for (const auto& [group, world] : worlds_) {
    if (!world.wayless.empty()) next = std::min(next, world.way_deadline_ns);
    next = std::min(next, world.join_deadline_ns);
  }
  return next;
}

}  // namespace mlxcomm::cluster
