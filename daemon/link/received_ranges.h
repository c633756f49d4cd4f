// The bytes of a posted receive that have arrived. Each may arrive once, in any order.
//
// One rail delivers in order, so there is usually one range. With several, each frame under way on
// a slower rail leaves a gap: at worst every other frame of the channel's window. More gaps are a
// violation.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "proto/wire/frame.h"

namespace mlxcomm::link {

class ReceivedRanges {
 public:
  static constexpr std::size_t kRangesKept = 16;
  static constexpr std::size_t kRangesMax = wire::kWindow + 1;

  // Returns false if some of it has already arrived or there would be too many gaps.
  // `bytes` > 0, and offset + bytes does not wrap.
  bool Accepts(std::uint64_t offset, std::uint64_t bytes) const {
    const std::uint64_t end = offset + bytes;
    const std::size_t at = After(offset);
    if (at > 0 && ranges_[at - 1].end > offset) return false;
    if (at < ranges_.size() && ranges_[at].begin < end) return false;
    const bool joins = (at > 0 && ranges_[at - 1].end == offset) ||
                       (at < ranges_.size() && ranges_[at].begin == end);
    return joins || ranges_.size() < kRangesMax;
  }
  bool Add(std::uint64_t offset, std::uint64_t bytes) {
    if (!Accepts(offset, bytes)) return false;
    bytes_ += bytes;
    const std::uint64_t end = offset + bytes;
    const std::size_t at = After(offset);
    const bool joins_before = at > 0 && ranges_[at - 1].end == offset;
    const bool joins_after = at < ranges_.size() && ranges_[at].begin == end;
    if (joins_before && joins_after) {
      ranges_[at - 1].end = ranges_[at].end;
      ranges_.erase(ranges_.begin() + static_cast<std::ptrdiff_t>(at));
    } else if (joins_before) {
      ranges_[at - 1].end = end;
    } else if (joins_after) {
      ranges_[at].begin = offset;
    } else {
      ranges_.insert(ranges_.begin() + static_cast<std::ptrdiff_t>(at), Range{offset, end});
    }
    return true;
  }
  std::uint64_t bytes() const { return bytes_; }

 private:
  struct Range {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };
  std::size_t After(std::uint64_t offset) const {
    const auto behind = std::ranges::upper_bound(ranges_, offset, {}, &Range::begin);
    return static_cast<std::size_t>(behind - ranges_.begin());
  }
  absl::InlinedVector<Range, kRangesKept> ranges_;  // Sorted, not adjacent.
  std::uint64_t bytes_ = 0;
};

}  // namespace mlxcomm::link
