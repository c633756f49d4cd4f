// The daemon's own memory for operations, in powers of two. Returned memory stays mapped
// (README.md).
//
//   Take ──▶ taken ──Return──▶ kept ──FreeKept──▶ (system)
//              ▲                 │
//              └──────Take───────┘
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/collective/scratch_memory.h"

namespace mlxcomm {

class ScratchPool final : public collective::ScratchMemory {
 public:
  static constexpr std::uint64_t kKeptBytes = 256 * 1024 * 1024;

  // 0 means a quarter of the machine's memory.
  explicit ScratchPool(std::uint64_t limit_bytes);
  ~ScratchPool() override;
  ScratchPool(const ScratchPool&) = delete;
  ScratchPool& operator=(const ScratchPool&) = delete;

  std::byte* Take(std::uint64_t bytes) override;
  void Return(std::byte* memory) override;
  std::uint64_t used_bytes() const override { return used_; }
  std::uint64_t limit_bytes() const override { return limit_; }
  std::uint64_t kept_bytes() const { return kept_; }
  // Returns all kept memory to the system. Takes milliseconds, so call it when no payload moves.
  void FreeKept();

 private:
  static constexpr std::uint32_t kSmallestLog2 = 16;
  static constexpr std::uint32_t kLargestLog2 = 46;

  std::uint64_t limit_;
  std::uint64_t used_ = 0;
  std::uint64_t kept_ = 0;
  // Indexed by the size's log2. The last returned is taken first.
  std::array<std::vector<std::byte*>, kLargestLog2 + 1> free_;
  absl::flat_hash_map<std::byte*, std::uint32_t> taken_;  // Its size.
};

}  // namespace mlxcomm
