// Each rank's block in an all_gather's result: of equal length, or as in the table of counts.
#pragma once

#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "daemon/collective/plan.h"

namespace mlxcomm::collective {

class Blocks {
 public:
  explicit Blocks(const PlanRequest& request)
      : element_bytes_(DataTypeBytes(request.signature.type)),
        bytes_(request.signature.count * element_bytes_) {
    if (CountsPerRank(request.signature.kind) != 1) return;
    std::uint64_t offset = 0;
    for (const std::uint64_t count : request.counts.front()) {
      offsets_.push_back(offset);
      offset += count * element_bytes_;
    }
    offsets_.push_back(offset);
  }

  std::uint64_t OffsetOf(std::uint32_t rank) const {
    return offsets_.empty() ? rank * bytes_ : offsets_[rank];
  }
  std::uint64_t BytesOf(std::uint32_t rank) const {
    return offsets_.empty() ? bytes_ : offsets_[rank + 1] - offsets_[rank];
  }
  std::uint64_t ElementsOf(std::uint32_t rank) const { return BytesOf(rank) / element_bytes_; }
  std::uint64_t element_bytes() const { return element_bytes_; }

 private:
  std::uint64_t element_bytes_;
  std::uint64_t bytes_;  // Per block, if blocks are equal.
  absl::InlinedVector<std::uint64_t, 65> offsets_;
};

}  // namespace mlxcomm::collective
