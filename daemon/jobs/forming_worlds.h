// The worlds that exist on this node, but are not yet known to be ready on all nodes.
//
//   WorldFormed ─▶ the group exists here ─there is a route to each of its nodes─▶ WorldJoined
//        ─rank 0's node has it from all, and has its own routes─▶ WorldReady ─▶ processes begin
//
// Sans-I/O: calls in, requests out (outbox.h); time is an argument. Owner: Jobs. Thread: the
// loop's. Memory: an entry for each world that is forming; at most as many as groups.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "daemon/jobs/outbox.h"
#include "proto/types/failure.h"
#include "proto/types/node_id.h"

namespace mlxcomm::jobs {

class FormingWorlds {
 public:
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};

  // `way_timeout_ns` limits the wait for a route to a node.
  FormingWorlds(const NodeId& self, std::string self_name, std::uint64_t way_timeout_ns,
                Outbox& outbox)
      : self_(self),
        self_name_(std::move(self_name)),
        way_timeout_ns_(way_timeout_ns),
        outbox_(outbox) {}

  // The group has been made here. `members` is in order of rank; `is_reachable` reports whether a
  // route leads to a node.
  void Add(std::uint64_t group, const std::string& name, const std::vector<FormedMember>& members,
           absl::FunctionRef<bool(const NodeId&)> is_reachable, std::uint64_t now_ns);
  // Call it when the world has failed or has no rank left here. Returns a text that names the nodes
  // that had not joined, as far as this one knows.
  std::string Remove(std::uint64_t group);
  // A local rank has left the group in an orderly way.
  void OnLeft(std::uint64_t group, std::uint32_t rank);

  void OnNodeUp(const NodeId& node);
  void OnJoined(const NodeId& node, std::uint64_t group);
  void OnReady(const NodeId& node, std::uint64_t group);

  void OnTime(std::uint64_t now_ns);
  std::uint64_t NextDeadline() const;
  std::size_t world_count() const { return worlds_.size(); }

 private:
  struct World {
    std::string name;
    std::vector<FormedMember> members;  // Indexed by rank.
    std::uint64_t way_deadline_ns = 0;
    std::uint32_t first_late = 0;  // The local rank whose deadline comes first.
    // Other nodes, each by its first rank: all of them, those without a route, and those that have
    // not joined (coordinator only).
    std::vector<std::uint32_t> nodes;
    std::vector<std::uint32_t> wayless;
    std::vector<std::uint32_t> not_joined;

    const NodeId& coordinator() const { return members[0].node; }  // The node of rank 0.
    // Removes the node. True if it was in the list.
    bool Strike(const NodeId& node, std::vector<std::uint32_t>& awaited) const;
  };
  using Worlds = std::map<std::uint64_t, World>;  // Keyed by group.

  // Takes the next step once all routes exist, or all nodes have joined.
  void Advance(Worlds::iterator world);
  void Finish(Worlds::iterator world);
  static std::uint64_t DeadlineOf(const World& world);
  static std::string DescribeMissing(const World& world);
  // Names what the world waits for.
  Failure Unready(const World& world, FailureCode code, std::uint64_t after_ns) const;

  NodeId self_;
  std::string self_name_;
  std::uint64_t way_timeout_ns_;
  Outbox& outbox_;
  Worlds worlds_;
};

}  // namespace mlxcomm::jobs
