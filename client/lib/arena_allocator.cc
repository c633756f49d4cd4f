#include "client/lib/arena_allocator.h"

#include <sys/mman.h>

#include <algorithm>
#include <iterator>

namespace mlxcomm::client {

ArenaAllocator::ArenaAllocator(std::byte* data, std::uint64_t bytes, std::uint64_t page,
                               queue::ArenaPages* pages, std::uint64_t warm_bytes)
    : data_(data), bytes_(bytes / page * page), page_(page), pages_(pages), warm_max_(warm_bytes) {
  if (bytes_ > 0) ranges_[0].bytes = bytes_;
}

std::optional<std::uint64_t> ArenaAllocator::Allocate(std::uint64_t bytes) {
  std::unique_lock lock(mutex_);
  if (bytes > bytes_) return std::nullopt;
  bytes = std::max(page_, (bytes + page_ - 1) / page_ * page_);
  auto best = ranges_.end();
  for (;;) {
    best = FindFree(bytes);
    if (best == ranges_.end()) best = JoinFree(bytes);
    if (best != ranges_.end()) break;
    if (giving_back_ == 0) return std::nullopt;
    given_back_.wait(lock);  // These ranges are free, but their pages are still being given back.
  }
  SplitAfter(best, bytes);
  Range& range = best->second;
  if (range.warm) warm_ -= bytes;
  range.used = true;
  range.freed = false;
  range.pins = 0;
  used_ += bytes;
  return best->first;
}

// The warmest range that is not much too large, otherwise the smallest that fits.
ArenaAllocator::Ranges::iterator ArenaAllocator::FindFree(std::uint64_t bytes) {
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
  return best;
}

// Joins the first run of free neighbours that is large enough into one cold range of
// exactly `bytes`; what is left of the last one stays as warm as it was.
ArenaAllocator::Ranges::iterator ArenaAllocator::JoinFree(std::uint64_t bytes) {
  auto first = ranges_.end();
  std::uint64_t run = 0;
  for (auto range = ranges_.begin(); range != ranges_.end(); ++range) {
    if (range->second.used) {
      run = 0;
      continue;
    }
    if (run == 0) first = range;
    run += range->second.bytes;
    if (run < bytes) continue;
    SplitAfter(range, range->second.bytes - (run - bytes));
    for (auto part = first; part != std::next(range); ++part) {
      if (part->second.warm) warm_ -= part->second.bytes;
    }
    ranges_.erase(std::next(first), std::next(range));
    first->second.bytes = bytes;
    first->second.warm = false;
    return first;
  }
  return ranges_.end();
}

void ArenaAllocator::SplitAfter(Ranges::iterator range, std::uint64_t bytes) {
  if (range->second.bytes == bytes) return;
  Range rest = range->second;
  rest.bytes -= bytes;
  ranges_.emplace(range->first + bytes, rest);
  range->second.bytes = bytes;
}

ArenaAllocator::Ranges::iterator ArenaAllocator::Containing(std::uint64_t offset) {
  auto range = ranges_.upper_bound(offset);
  if (range == ranges_.begin()) return ranges_.end();
  --range;
  return range->second.used ? range : ranges_.end();
}

std::optional<ArenaAllocator::Part> ArenaAllocator::Retire(std::uint64_t offset, Pins& pins) {
  const std::lock_guard lock(mutex_);
  const auto range = ranges_.find(offset);
  if (range == ranges_.end() || !range->second.used || range->second.freed) return std::nullopt;
  range->second.freed = true;
  ++range->second.pins;
  pins.ranges_[pins.count_++] = range;
  return Part{range->first, range->second.bytes};
}

const ArenaAllocator::Part* ArenaAllocator::Pin(std::span<const Part> parts, Pins& pins) {
  const std::lock_guard lock(mutex_);
  for (const Part& part : parts) {
    const auto range = FindPinnable(part);
    if (range == ranges_.end()) {  // None of those pinned so far has been freed since.
      while (pins.count_ > 0) --pins.ranges_[--pins.count_]->second.pins;
      return &part;
    }
    ++range->second.pins;
    pins.ranges_[pins.count_++] = range;
  }
  return nullptr;
}

ArenaAllocator::Ranges::iterator ArenaAllocator::FindPinnable(const Part& part) {
  const auto range = Containing(part.offset);
  if (range == ranges_.end() || range->second.freed) return ranges_.end();
  const std::uint64_t before = part.offset - range->first;
  if (before >= range->second.bytes) return ranges_.end();
  return part.bytes <= range->second.bytes - before ? range : ranges_.end();
}

void ArenaAllocator::Unpin(Pins& pins) {
  if (pins.count_ == 0) return;
  std::unique_lock lock(mutex_);
  Pins last;  // Each once, though an operation may have pinned it several times.
  while (pins.count_ > 0) {
    const auto range = pins.ranges_[--pins.count_];
    if (--range->second.pins == 0 && range->second.freed) last.ranges_[last.count_++] = range;
  }
  while (last.count_ > 0) Release(lock, last.ranges_[--last.count_]);
}

void ArenaAllocator::Release(std::unique_lock<std::mutex>& lock, Ranges::iterator range) {
  used_ -= range->second.bytes;
  const bool fits = range->second.bytes <= warm_max_ && warm_ <= warm_max_ - range->second.bytes;
  const bool keep_warm = fits || !GiveBack(lock, range);
  if (keep_warm) warm_ += range->second.bytes;
  range->second.used = false;
  range->second.freed = false;
  range->second.warm = keep_warm;
  range->second.freed_at = ++clock_;
  Merge(range);
  if (warm_ > warm_max_) GiveBackTooMuch(lock);
}

// Free neighbours of the same warmth are merged.
void ArenaAllocator::Merge(Ranges::iterator range) {
  const auto next = std::next(range);
  if (next != ranges_.end() && !next->second.used && next->second.warm == range->second.warm) {
    range->second.bytes += next->second.bytes;
    ranges_.erase(next);
  }
  if (range == ranges_.begin()) return;
  const auto before = std::prev(range);
  if (before->second.used || before->second.warm != range->second.warm) return;
  before->second.bytes += range->second.bytes;
  before->second.freed_at = range->second.freed_at;
  ranges_.erase(range);
}

// Releases pages that were kept for a device, once it no longer needs them, coldest first.
void ArenaAllocator::GiveBackTooMuch(std::unique_lock<std::mutex>& lock) {
  while (warm_ > warm_max_) {
    auto coldest = ranges_.end();
    for (auto range = ranges_.begin(); range != ranges_.end(); ++range) {
      if (!range->second.warm || range->second.used) continue;
      if (coldest == ranges_.end() || range->second.freed_at < coldest->second.freed_at)
        coldest = range;
    }
    if (coldest == ranges_.end()) return;
    warm_ -= coldest->second.bytes;
    const bool has_gone = GiveBack(lock, coldest);
    coldest->second.warm = !has_gone;
    if (!has_gone) warm_ += coldest->second.bytes;
    Merge(coldest);
    if (!has_gone) return;
  }
}

// False if a device has pages of the arena, so they stay. Without the mutex, because releasing
// gigabytes takes a long time; until then the range counts as used and freed, so no other thread
// takes or joins it. Afterwards it is neither.
bool ArenaAllocator::GiveBack(std::unique_lock<std::mutex>& lock, Ranges::iterator range) {
  const std::uint64_t offset = range->first;
  const std::uint64_t bytes = range->second.bytes;
  range->second.used = true;
  range->second.freed = true;
  ++giving_back_;
  lock.unlock();
  const bool has_gone = GiveBackPages(offset, bytes);
  lock.lock();
  --giving_back_;
  range->second.used = false;
  range->second.freed = false;
  given_back_.notify_all();  // Waiting threads continue once the caller has freed the range.
  return has_gone;
}

bool ArenaAllocator::GiveBackPages(std::uint64_t offset, std::uint64_t bytes) {
  if (data_ == nullptr) return true;
  const std::lock_guard one_at_a_time(giving_back_mutex_);  // `giving_back` belongs to one thread.
  if (pages_ != nullptr) {
    pages_->giving_back.store(1, std::memory_order_seq_cst);
    if (pages_->registered.load(std::memory_order_seq_cst) != 0) {
      pages_->giving_back.store(0, std::memory_order_relaxed);
      return false;
    }
  }
#if defined(MADV_REMOVE)
  ::madvise(data_ + offset, bytes, MADV_REMOVE);  // Frees the shared pages themselves.
#elif defined(MADV_FREE)
  ::madvise(data_ + offset, bytes, MADV_FREE);
#endif
  if (pages_ != nullptr) pages_->giving_back.store(0, std::memory_order_release);
  return true;
}

std::uint64_t ArenaAllocator::used_bytes() const {
  const std::lock_guard lock(mutex_);
  return used_;
}

std::uint64_t ArenaAllocator::largest_free_bytes() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t largest = 0;
  std::uint64_t run = 0;
  for (const auto& [offset, range] : ranges_) {
    run = range.used ? 0 : run + range.bytes;
    largest = std::max(largest, run);
  }
  return largest;
}

}  // namespace mlxcomm::client
