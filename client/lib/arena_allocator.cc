#include "client/lib/arena_allocator.h"

#include <sys/mman.h>

#include <algorithm>

namespace mlxcomm::client {

ArenaAllocator::ArenaAllocator(std::byte* data, std::uint64_t bytes, std::uint64_t page)
    : data_(data), bytes_(bytes / page * page), page_(page) {
  if (bytes_ > 0) ranges_[0].bytes = bytes_;
}

std::optional<std::uint64_t> ArenaAllocator::Allocate(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (bytes > bytes_) return std::nullopt;
  bytes = std::max(page_, (bytes + page_ - 1) / page_ * page_);
  // The warmest range that is not much too large, else the smallest that fits.
  auto best = ranges_.end();
  for (auto range = ranges_.begin(); range != ranges_.end(); ++range) {
    if (range->second.used || range->second.bytes < bytes) continue;
    if (best == ranges_.end()) {
      best = range;
      continue;
    }
    const bool warmer = range->second.warm && range->second.bytes <= 2 * bytes &&
                        (!best->second.warm || best->second.bytes > 2 * bytes ||
                         range->second.freed_at > best->second.freed_at);
    const bool best_is_warm = best->second.warm && best->second.bytes <= 2 * bytes;
    const bool tighter = !best_is_warm && range->second.bytes < best->second.bytes;
    if (warmer || tighter) best = range;
  }
  if (best == ranges_.end()) return std::nullopt;
  Range& range = best->second;
  if (range.bytes > bytes) {
    Range rest = range;
    rest.bytes -= bytes;
    ranges_.emplace(best->first + bytes, rest);
    range.bytes = bytes;
  }
  if (range.warm) warm_ -= bytes;
  range.used = true;
  range.freed = false;
  range.pins = 0;
  used_ += bytes;
  return best->first;
}

ArenaAllocator::Ranges::iterator ArenaAllocator::Containing(std::uint64_t offset) {
  auto range = ranges_.upper_bound(offset);
  if (range == ranges_.begin()) return ranges_.end();
  --range;
  return range->second.used ? range : ranges_.end();
}

bool ArenaAllocator::Free(std::uint64_t offset) {
  const std::lock_guard lock(mutex_);
  const auto range = ranges_.find(offset);
  if (range == ranges_.end() || !range->second.used || range->second.freed) return false;
  if (range->second.pins > 0) {
    range->second.freed = true;
  } else {
    Release(range);
  }
  return true;
}

void ArenaAllocator::Pin(std::uint64_t offset) {
  const std::lock_guard lock(mutex_);
  const auto range = Containing(offset);
  if (range != ranges_.end()) ++range->second.pins;
}

void ArenaAllocator::Unpin(std::uint64_t offset) {
  const std::lock_guard lock(mutex_);
  const auto range = Containing(offset);
  if (range == ranges_.end() || range->second.pins == 0) return;
  if (--range->second.pins == 0 && range->second.freed) Release(range);
}

void ArenaAllocator::Release(Ranges::iterator range) {
  used_ -= range->second.bytes;
  const bool keep_warm = warm_ + range->second.bytes <= kWarmBytes;
  if (!keep_warm) GiveBack(range->first, range->second.bytes);
  if (keep_warm) warm_ += range->second.bytes;
  range->second.used = false;
  range->second.freed = false;
  range->second.warm = keep_warm;
  range->second.freed_at = ++clock_;
  // Neighbours of the same warmth merge.
  const auto next = std::next(range);
  if (next != ranges_.end() && !next->second.used && next->second.warm == range->second.warm) {
    range->second.bytes += next->second.bytes;
    ranges_.erase(next);
  }
  if (range != ranges_.begin()) {
    const auto before = std::prev(range);
    if (!before->second.used && before->second.warm == range->second.warm) {
      before->second.bytes += range->second.bytes;
      before->second.freed_at = range->second.freed_at;
      ranges_.erase(range);
    }
  }
}

void ArenaAllocator::GiveBack(std::uint64_t offset, std::uint64_t bytes) {
  if (data_ == nullptr) return;
#if defined(MADV_REMOVE)
  ::madvise(data_ + offset, bytes, MADV_REMOVE);  // Frees the shared pages themselves.
#elif defined(MADV_FREE)
  ::madvise(data_ + offset, bytes, MADV_FREE);
#endif
}

std::uint64_t ArenaAllocator::used_bytes() const {
  const std::lock_guard lock(mutex_);
  return used_;
}

std::uint64_t ArenaAllocator::largest_free_bytes() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t largest = 0;
  for (const auto& [offset, range] : ranges_) {
    if (!range.used) largest = std::max(largest, range.bytes);
  }
  return largest;
}

}  // namespace mlxcomm::client
