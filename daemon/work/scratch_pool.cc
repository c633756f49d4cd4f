#include "daemon/work/scratch_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>

#include "daemon/platform/machine.h"

namespace mlxcomm {

ScratchPool::ScratchPool(std::uint64_t limit_bytes)
    : limit_(limit_bytes != 0 ? limit_bytes : platform::PhysicalMemoryBytes() / 4) {}

ScratchPool::~ScratchPool() {
  for (const auto& [memory, log2] : taken_) ::munmap(memory, std::size_t{1} << log2);
  FreeKept();
}

std::byte* ScratchPool::Take(std::uint64_t bytes) {
  if (bytes > std::uint64_t{1} << kLargestLog2) return nullptr;
  const auto needed =
      static_cast<std::uint32_t>(std::bit_width(std::max<std::uint64_t>(bytes, 1) - 1));
  const std::uint32_t log2 = std::max(needed, kSmallestLog2);
  const std::uint64_t size = std::uint64_t{1} << log2;
  if (size > limit_ || used_ > limit_ - size) return nullptr;
  std::byte* memory = nullptr;
  if (!free_[log2].empty()) {
    memory = free_[log2].back();
    free_[log2].pop_back();
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
  free_[log2].push_back(memory);
}

void ScratchPool::FreeKept() {
  for (std::size_t log2 = 0; log2 < free_.size(); ++log2) {
    for (std::byte* const memory : free_[log2]) ::munmap(memory, std::size_t{1} << log2);
    free_[log2].clear();
  }
  kept_ = 0;
}

}  // namespace mlxcomm
