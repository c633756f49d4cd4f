// A group's ranks and their nodes. The same on all nodes except for `self`: nodes are numbered by
// their lowest rank, which is also their order in the ring.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proto/types/node_id.h"

namespace mlxcomm::collective {

struct Member {
  NodeId node;
  std::string node_name;
  std::uint64_t pid = 0;
};

class GroupLayout {
 public:
  // `members` in order of rank, not empty; `self` is this node and need not be among them.
  GroupLayout(std::vector<Member> members, const NodeId& self);

  std::uint32_t rank_count() const { return static_cast<std::uint32_t>(members_.size()); }
  std::uint16_t node_count() const { return static_cast<std::uint16_t>(nodes_.size()); }
  // This node's position in the ring; node_count() if it has no rank.
  std::uint16_t self() const { return self_; }

  const Member& member(std::uint32_t rank) const { return members_[rank]; }
  std::uint16_t node_of(std::uint32_t rank) const { return node_of_[rank]; }
  const NodeId& node(std::uint16_t index) const { return nodes_[index]; }
  int IndexOf(const NodeId& node) const;

  const std::vector<std::uint32_t>& ranks_on(std::uint16_t index) const { return ranks_on_[index]; }
  const std::vector<std::uint32_t>& local_ranks() const { return local_ranks_; }
  // The index of `rank` in local_ranks(), or -1.
  int LocalIndexOf(std::uint32_t rank) const { return local_index_[rank]; }

  // "rank 3 (mac-studio-2, pid 8123)"
  std::string Describe(std::uint32_t rank) const;

 private:
  std::vector<Member> members_;
  std::vector<NodeId> nodes_;
  std::vector<std::uint16_t> node_of_;                // Indexed by rank.
  std::vector<std::vector<std::uint32_t>> ranks_on_;  // Indexed by node.
  std::vector<std::uint32_t> local_ranks_;
  std::vector<int> local_index_;  // Indexed by rank.
  std::uint16_t self_ = 0;
};

}  // namespace mlxcomm::collective
