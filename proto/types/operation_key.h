// Identifies an operation, the same on all its nodes.
//
// Collectives are numbered in their group. Sends and receives are numbered for each (source,
// destination, tag), and the n-th send matches the n-th receive.
#pragma once

#include <compare>
#include <cstdint>
#include <utility>

namespace mlxcomm {

inline constexpr std::uint32_t kEveryRank = 0xffffffff;

struct OperationKey {
  std::uint64_t group = 0;
  std::uint64_t number = 0;
  std::uint32_t source_rank = kEveryRank;  // kEveryRank: a collective.
  std::uint32_t destination_rank = kEveryRank;
  std::uint32_t tag = 0;

  bool point_to_point() const { return source_rank != kEveryRank; }
  friend auto operator<=>(const OperationKey&, const OperationKey&) = default;

  template <typename H>
  friend H AbslHashValue(H state, const OperationKey& key) {
    return H::combine(std::move(state), key.group, key.number, key.source_rank,
                      key.destination_rank, key.tag);
  }
};

}  // namespace mlxcomm
