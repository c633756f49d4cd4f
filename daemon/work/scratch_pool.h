// The daemon's own memory for operations, in powers of two. Returned memory stays mapped
// (README.md).
//
//   Take ──▶ taken ──Return──▶ kept ──unused for kUnusedNs, or ExpectNoMore──▶ leaving ──▶ (system)
//              ▲                 │
//              └──────Take───────┘
//
// Memory leaves in slices, because unmapping a lot takes milliseconds, and the loop has payload to
// move.
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
  // Kept memory leaves after one to two of these intervals without use.
  static constexpr std::uint64_t kUnusedNs = 10'000'000'000;
  static constexpr std::uint64_t kSliceBytes = 2 * 1024 * 1024;
  static constexpr std::uint64_t kSliceEveryNs = 5'000'000;
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};

  // 0 means a quarter of the machine's memory.
  explicit ScratchPool(std::uint64_t limit_bytes);
  ~ScratchPool() override;
  ScratchPool(const ScratchPool&) = delete;
  ScratchPool& operator=(const ScratchPool&) = delete;

  std::byte* Take(std::uint64_t bytes) override;
  void Return(std::byte* memory) override;
  std::uint64_t used_bytes() const override { return used_; }
  std::uint64_t limit_bytes() const override { return limit_; }
  std::uint64_t kept_bytes() const { return kept_; }  // Includes memory that leaves.

  // No operation is expected soon: all kept memory leaves.
  void ExpectNoMore();
  void OnTime(std::uint64_t now_ns);
  std::uint64_t NextDeadline() const { return due_ns_; }

 private:
  // Free memory of one size. The last returned is taken first, so the longest unused is at the
  // front.
  struct Shelf {
    std::vector<std::byte*> free;
    std::size_t unused = 0;  // This many at the front were not taken since the last check.
  };
  struct Span {
    std::byte* memory = nullptr;
    std::uint64_t bytes = 0;
  };

  void StartLeaving(std::size_t log2, std::size_t count);
  void UnmapSlice();

  static constexpr std::uint32_t kSmallestLog2 = 16;
  static constexpr std::uint32_t kLargestLog2 = 46;
  // Reserved, because operations may run while memory leaves.
  static constexpr std::size_t kLeavingUsual = 64;

  std::uint64_t limit_;
  std::uint64_t used_ = 0;
  std::uint64_t kept_ = 0;
  std::array<Shelf, kLargestLog2 + 1> shelves_;           // Indexed by the size's log2.
  absl::flat_hash_map<std::byte*, std::uint32_t> taken_;  // Its size.
  std::vector<Span> leaving_;
  std::uint64_t check_ns_ = kNever;  // The next check for unused memory; 0: at the next OnTime.
  std::uint64_t due_ns_ = kNever;
};

}  // namespace mlxcomm
