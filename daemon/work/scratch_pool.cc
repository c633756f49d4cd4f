#include "daemon/work/scratch_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>

#include "daemon/platform/machine.h"

namespace mlxcomm {

ScratchPool::ScratchPool(std::uint64_t limit_bytes)
    : limit_(limit_bytes != 0 ? limit_bytes : platform::PhysicalMemoryBytes() / 4) {
  leaving_.reserve(kLeavingUsual);
}

ScratchPool::~ScratchPool() {
  for (const auto& [memory, log2] : taken_) ::munmap(memory, std::size_t{1} << log2);
  for (std::size_t log2 = 0; log2 < shelves_.size(); ++log2) {
    for (std::byte* const memory : shelves_[log2].free) ::munmap(memory, std::size_t{1} << log2);
  }
  for (const Span& span : leaving_) ::munmap(span.memory, span.bytes);
}

std::byte* ScratchPool::Take(std::uint64_t bytes) {
  if (bytes > std::uint64_t{1} << kLargestLog2) return nullptr;
  const auto needed =
      static_cast<std::uint32_t>(std::bit_width(std::max<std::uint64_t>(bytes, 1) - 1));
  const std::uint32_t log2 = std::max(needed, kSmallestLog2);
  const std::uint64_t size = std::uint64_t{1} << log2;
  if (size > limit_ || used_ > limit_ - size) return nullptr;
  std::byte* memory = nullptr;
  if (Shelf& shelf = shelves_[log2]; !shelf.free.empty()) {
    memory = shelf.free.back();
    shelf.free.pop_back();
    shelf.unused = std::min(shelf.unused, shelf.free.size());
    kept_ -= size;
  } else {
    void* const mapped =
        ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) return nullptr;
    memory = static_cast<std::byte*>(mapped);
  }
  used_ += size;
  taken_.emplace(memory, log2);
  return memory;
}

void ScratchPool::Return(std::byte* memory) {
  const auto found = taken_.find(memory);
  const std::uint32_t log2 = found->second;
  const std::uint64_t size = std::uint64_t{1} << log2;
  taken_.erase(found);
  used_ -= size;
  if (kept_ + size > kKeptBytes) {
    ::munmap(memory, size);
    return;
  }
  kept_ += size;
  shelves_[log2].free.push_back(memory);
  if (check_ns_ == kNever) check_ns_ = 0;
  due_ns_ = std::min(due_ns_, check_ns_);
}

void ScratchPool::ExpectNoMore() {
  for (std::size_t log2 = 0; log2 < shelves_.size(); ++log2) {
    StartLeaving(log2, shelves_[log2].free.size());
  }
  if (!leaving_.empty()) due_ns_ = 0;
}

void ScratchPool::OnTime(std::uint64_t now_ns) {
  if (now_ns < due_ns_) return;
  if (check_ns_ <= now_ns) {
    for (std::size_t log2 = 0; log2 < shelves_.size(); ++log2) {
      Shelf& shelf = shelves_[log2];
      StartLeaving(log2, shelf.unused);
      shelf.unused = shelf.free.size();
    }
    check_ns_ = now_ns + kUnusedNs;
  }
  UnmapSlice();
  if (kept_ == 0) check_ns_ = kNever;
  due_ns_ = leaving_.empty() ? check_ns_ : std::min(check_ns_, now_ns + kSliceEveryNs);
}

void ScratchPool::StartLeaving(std::size_t log2, std::size_t count) {
  Shelf& shelf = shelves_[log2];
  const auto end = shelf.free.begin() + static_cast<std::ptrdiff_t>(count);
  for (auto memory = shelf.free.begin(); memory != end; ++memory) {
    leaving_.push_back({*memory, std::uint64_t{1} << log2});
  }
  shelf.free.erase(shelf.free.begin(), end);
  shelf.unused = std::min(shelf.unused, shelf.free.size());
}

void ScratchPool::UnmapSlice() {
  for (std::uint64_t left = kSliceBytes; left > 0 && !leaving_.empty();) {
    Span& span = leaving_.back();
    const std::uint64_t bytes = std::min(left, span.bytes);
    span.bytes -= bytes;
    ::munmap(span.memory + span.bytes, bytes);
    kept_ -= bytes;
    left -= bytes;
    if (span.bytes == 0) leaving_.pop_back();
  }
}

}  // namespace mlxcomm
