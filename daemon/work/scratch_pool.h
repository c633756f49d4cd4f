// The daemon's own memory for operations: sizes are rounded up to powers of two and returned memory is kept
// warm, so that a program that repeats its operations causes page faults only the first time.
//
// Owner: Daemon. Thread: the loop's. Memory: anonymous mappings, at most the limit in use and at most
// kKeptBytes kept for later.
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

  // limit_bytes 0: a quarter of the machine's memory.
  explicit ScratchPool(std::uint64_t limit_bytes);
  ~ScratchPool() override;
  ScratchPool(const ScratchPool&) = delete;
  ScratchPool& operator=(const ScratchPool&) = delete;

  std::byte* Take(std::uint64_t bytes) override;
  void Return(std::byte* memory) override;
  std::uint64_t used_bytes() const override { return used_; }
  std::uint64_t limit_bytes() const override { return limit_; }
  std::uint64_t kept_bytes() const { return kept_; }

 private:
  static constexpr std::uint32_t kSmallestLog2 = 16;
  static constexpr std::uint32_t kLargestLog2 = 46;

  std::uint64_t limit_;
  std::uint64_t used_ = 0;
  std::uint64_t kept_ = 0;
  std::array<std::vector<std::byte*>, kLargestLog2 + 1> free_;  // By size.
  absl::flat_hash_map<std::byte*, std::uint32_t> taken_;        // Its size.
};

}  // namespace mlxcomm
