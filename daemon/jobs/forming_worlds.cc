#include "daemon/jobs/forming_worlds.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/types/plain_text.h"

namespace mlxcomm::jobs {

void FormingWorlds::Add(std::uint64_t group, const std::string& name,
                        const std::vector<FormedMember>& members,
                        absl::FunctionRef<bool(const NodeId&)> is_reachable, std::uint64_t now_ns) {
  World world;
  world.name = name;
  world.members = members;
  world.way_deadline_ns = now_ns + std::min(way_timeout_ns_, kNever - 1 - now_ns);
  for (std::uint32_t rank = 0; rank < members.size(); ++rank) {
    const NodeId& node = members[rank].node;
    if (members[rank].deadline_ns < members[world.first_late].deadline_ns) world.first_late = rank;
    const bool is_known = std::ranges::any_of(
        world.nodes, [&](std::uint32_t first) { return members[first].node == node; });
    if (node == self_ || is_known) continue;
    world.nodes.push_back(rank);
    if (world.coordinator() == self_) world.not_joined.push_back(rank);
    if (!is_reachable(node)) world.wayless.push_back(rank);
  }
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
  outbox_.emplace_back(GroupFailed{group, failure});
}

bool FormingWorlds::World::Strike(const NodeId& node, std::vector<std::uint32_t>& awaited) const {
  return std::erase_if(awaited, [&](std::uint32_t rank) { return members[rank].node == node; }) > 0;
}

void FormingWorlds::OnNodeUp(const NodeId& node) {
  for (auto world = worlds_.begin(); world != worlds_.end();) {
    const auto current = world++;  // It may be finished.
    if (current->second.Strike(node, current->second.wayless)) Advance(current);
  }
}

void FormingWorlds::OnJoined(const NodeId& node, std::uint64_t group) {
  const auto found = worlds_.find(group);
  if (found == worlds_.end() || found->second.coordinator() != self_) return;
  if (found->second.Strike(node, found->second.not_joined)) Advance(found);
}

void FormingWorlds::OnReady(const NodeId& node, std::uint64_t group) {
  const auto found = worlds_.find(group);
  // A well-behaved coordinator sends it only after this node has joined.
  if (found == worlds_.end() || node == self_ || found->second.coordinator() != node ||
      !found->second.wayless.empty()) {
    return;
  }
  Finish(found);
}

void FormingWorlds::Advance(Worlds::iterator world) {
  const World& found = world->second;
  if (!found.wayless.empty()) return;
  v1::PeerMessage message;
  if (found.coordinator() != self_) {
    message.mutable_world_joined()->set_group(world->first);
    outbox_.emplace_back(SendTo{found.coordinator(), message});
    return;
  }
  if (!found.not_joined.empty()) return;
  message.mutable_world_ready()->set_group(world->first);
  for (const std::uint32_t rank : found.nodes) {
    outbox_.emplace_back(SendTo{found.members[rank].node, message});
  }
  Finish(world);
}

void FormingWorlds::Finish(Worlds::iterator world) {
  const std::uint64_t group = world->first;
  worlds_.erase(world);
  outbox_.emplace_back(WorldReady{group});
}

std::string FormingWorlds::Remove(std::uint64_t group) {
  const auto removed = worlds_.extract(group);
  if (removed.empty() || removed.mapped().not_joined.empty()) return {};
  return absl::StrCat("; ", DescribeMissing(removed.mapped()));
}

// Only rank 0's node knows which nodes have joined.
std::string FormingWorlds::DescribeMissing(const World& world) {
  std::vector<std::string> nodes;
  for (const std::uint32_t rank : world.not_joined) {
    nodes.push_back(absl::StrCat("node ", world.members[rank].node_name, " (rank ", rank, ")"));
  }
  return absl::StrCat("still to join: ", ShortList(nodes, ", ", 300),
                      ". Check their daemons (mlxcommctl status)");
}

Failure FormingWorlds::Unready(const World& world, FailureCode code, std::uint64_t after_ns) const {
  const std::vector<std::uint32_t>& awaited =
      world.wayless.empty() ? world.not_joined : world.wayless;
  const std::uint32_t rank = awaited.empty() ? 0 : awaited.front();
  const std::string& node = world.members[rank].node_name;
  std::string what = DescribeMissing(world);
  if (!world.wayless.empty()) {
    what = absl::StrCat("node ", self_name_, " has no route to node ", node, " (rank ", rank,
                        "): connect the two, directly or through other nodes (peers { connect } ",
                        "in the configuration)");
  } else if (awaited.empty()) {
    what = absl::StrCat("node ", node, " (rank 0) has not reported that all nodes have joined: ",
                        "the errors of its ranks name the missing ones");
  }
  const double seconds = static_cast<double>(after_ns) / 1e9;
  return {code, static_cast<std::int32_t>(rank),
          absl::StrCat("job ", world.name, ": after ", seconds, " s ", what)};
}

// When the first local process gives up, or the wait for a route ends.
std::uint64_t FormingWorlds::DeadlineOf(const World& world) {
  const std::uint64_t way_ns = world.wayless.empty() ? kNever : world.way_deadline_ns;
  return std::min(world.members[world.first_late].deadline_ns, way_ns);
}

void FormingWorlds::OnTime(std::uint64_t now_ns) {
  const auto is_due = [now_ns](const auto& entry) { return DeadlineOf(entry.second) <= now_ns; };
  for (auto due = std::ranges::find_if(worlds_, is_due); due != worlds_.end();
       due = std::ranges::find_if(worlds_, is_due)) {
    const auto over = worlds_.extract(due);
    const World& world = over.mapped();
    const FormedMember& late = world.members[world.first_late];
    if (late.deadline_ns <= now_ns) {
      outbox_.emplace_back(
          RankLate{late.session, Unready(world, FailureCode::kDeadlineExceeded, late.timeout_ns)});
    } else {
      outbox_.emplace_back(
          GroupFailed{over.key(), Unready(world, FailureCode::kUnavailable, way_timeout_ns_)});
    }
  }
}

std::uint64_t FormingWorlds::NextDeadline() const {
  std::uint64_t next = kNever;
  for (const auto& [group, world] : worlds_) next = std::min(next, DeadlineOf(world));
  return next;
}

}  // namespace mlxcomm::jobs
