// Which bytes of a posted receive have come: each may come once, in any order, with
// few gaps at a time.
//
// One rail delivers in order, so there is one range as a rule; several rails would
// leave a gap each.
//
// Owner: Link and TcpRail, one each for a receive. Thread: its owner's. Memory: fixed.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace mlxcomm::fabric {

class ReceivedRanges {
 public:
  static constexpr std::size_t kRangesMax = 8;

  // False: some of it has come already, or it would make too many gaps. `bytes` > 0,
  // and offset + bytes does not wrap.
  bool Accepts(std::uint64_t offset, std::uint64_t bytes) const {
    const std::uint64_t end = offset + bytes;
    const std::size_t at = After(offset);
    if (at > 0 && ranges_[at - 1].end > offset) return false;
    if (at < count_ && ranges_[at].begin < end) return false;
    const bool joins = (at > 0 && ranges_[at - 1].end == offset) ||
                       (at < count_ && ranges_[at].begin == end);
    return joins || count_ < kRangesMax;
  }
  // As Accepts, and remembers it.
  bool Add(std::uint64_t offset, std::uint64_t bytes) {
    if (!Accepts(offset, bytes)) return false;
    bytes_ += bytes;
    const std::uint64_t end = offset + bytes;
    const std::size_t at = After(offset);
    const bool joins_before = at > 0 && ranges_[at - 1].end == offset;
    const bool joins_after = at < count_ && ranges_[at].begin == end;
    if (joins_before && joins_after) {
      ranges_[at - 1].end = ranges_[at].end;
      std::copy(&ranges_[at] + 1, ranges_.data() + count_, &ranges_[at]);
      --count_;
    } else if (joins_before) {
      ranges_[at - 1].end = end;
    } else if (joins_after) {
      ranges_[at].begin = offset;
    } else {
      std::copy_backward(ranges_.data() + at, ranges_.data() + count_,
                         ranges_.data() + count_ + 1);
      ranges_[at] = {offset, end};
      ++count_;
    }
    return true;
  }
  std::uint64_t bytes() const { return bytes_; }

 private:
  struct Range {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };
  // The first range that begins behind `offset`.
  std::size_t After(std::uint64_t offset) const {
    std::size_t at = 0;
    while (at < count_ && ranges_[at].begin <= offset) ++at;
    return at;
  }
  std::array<Range, kRangesMax> ranges_;  // In order, apart from each other.
  std::size_t count_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace mlxcomm::fabric
