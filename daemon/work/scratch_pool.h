// The daemon's own memory for operations: sizes are rounded up to powers of two and returned memory is kept
// warm, so that a program that repeats its operations causes page faults only the first time.
//
//   Take ──▶ taken ──Return──▶ kept ──unused for kUnusedNs, or ExpectNoMore──▶ leaving ──▶ (system)
//              ▲                 │
//              └──────Take───────┘
//
// What leaves goes in slices, for giving much back takes milliseconds, and the loop has payload to move.
//
// Owner: Daemon. Thread: the loop's. Memory: anonymous mappings, at most the limit in use and at most
// kKeptBytes kept for later or leaving.
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
  // What is kept goes after so long to twice as long without use.
  static constexpr std::uint64_t kUnusedNs = 10'000'000'000;
  static constexpr std::uint64_t kSliceBytes = 2 * 1024 * 1024;
  static constexpr std::uint64_t kSliceEveryNs = 5'000'000;
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};

  // limit_bytes 0: a quarter of the machine's memory.
  explicit ScratchPool(std::uint64_t limit_bytes);
  ~ScratchPool() override;
  ScratchPool(const ScratchPool&) = delete;
  ScratchPool& operator=(const ScratchPool&) = delete;

  std::byte* Take(std::uint64_t bytes) override;
  void Return(std::byte* memory) override;
  std::uint64_t used_bytes() const override { return used_; }
  std::uint64_t limit_bytes() const override { return limit_; }
  std::uint64_t kept_bytes() const { return kept_; }  // What leaves is a part of it.

  // No operation is to come soon: all that is kept leaves, without waiting.
  void ExpectNoMore();
  // Gives back what is due by now.
  void OnTime(std::uint64_t now_ns);
  std::uint64_t NextDeadline() const { return due_ns_; }

 private:
  // Free memory of one size. The last that was returned is the next to be taken, so what has lain longest
  // comes first.
  struct Shelf {
    std::vector<std::byte*> free;
    std::size_t unused =
        0;  // The number of the first that have not been taken since the last look.
  };
  struct Span {
    std::byte* memory = nullptr;
    std::uint64_t bytes = 0;
  };

  void LetGo(std::size_t log2, std::size_t count);
  void GiveBackSlice();

  static constexpr std::uint32_t kSmallestLog2 = 16;
  static constexpr std::uint32_t kLargestLog2 = 46;
  // Operations may go on meanwhile, so the list of what leaves does not grow from nothing.
  static constexpr std::size_t kLeavingUsual = 64;

  std::uint64_t limit_;
  std::uint64_t used_ = 0;
  std::uint64_t kept_ = 0;
  std::array<Shelf, kLargestLog2 + 1> shelves_;           // By size.
  absl::flat_hash_map<std::byte*, std::uint32_t> taken_;  // Its size.
  std::vector<Span> leaving_;
  std::uint64_t look_ns_ = kNever;  // When unused memory is looked for; 0: from the next time on.
  std::uint64_t due_ns_ = kNever;
};

}  // namespace mlxcomm
