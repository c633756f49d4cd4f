#include "daemon/collective/group_layout.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace mlxcomm::collective {

GroupLayout::GroupLayout(std::vector<Member> members, const NodeId& self)
    : members_(std::move(members)) {
  local_index_.assign(members_.size(), -1);
  for (std::uint32_t rank = 0; rank < members_.size(); ++rank) {
    int index = IndexOf(members_[rank].node);
    if (index < 0) {
      index = static_cast<int>(nodes_.size());
      nodes_.push_back(members_[rank].node);
      ranks_on_.emplace_back();
    }
    node_of_.push_back(static_cast<std::uint16_t>(index));
    ranks_on_[static_cast<std::size_t>(index)].push_back(rank);
    if (members_[rank].node == self) {
      local_index_[rank] = static_cast<int>(local_ranks_.size());
      local_ranks_.push_back(rank);
    }
  }
  const int own = IndexOf(self);
  self_ = own < 0 ? node_count() : static_cast<std::uint16_t>(own);
}

int GroupLayout::IndexOf(const NodeId& node) const {
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i] == node) return static_cast<int>(i);
  }
  return -1;
}

std::string GroupLayout::Describe(std::uint32_t rank) const {
  return absl::StrCat("rank ", rank, " (", members_[rank].node_name, ", pid ", members_[rank].pid,
                      ")");
}

}  // namespace mlxcomm::collective
