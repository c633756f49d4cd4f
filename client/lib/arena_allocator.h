// Hands out page-aligned ranges of the arena. The daemon does not know about them.
//
// Free ranges are kept in order of address, so neighbours merge; the range freed last is used
// first, because its pages are warm. Beyond kWarmBytes of free memory the pages of a freed range go
// back to the system (the address space stays), unless a device has pages of the arena; the surplus
// is then released when a later range is freed. Warm and cold neighbours stay separate, and are
// joined only for a request that fits into neither.
//
//   [used, pinned][warm][cold            ][used][cold    ]
//                  '------------------'  one range for a request larger than each
//
// A range that an operation uses is pinned: freeing only marks it, and the last unpin frees it.
//
// Owner: Connection. Thread: any; one mutex, not held while pages go back. Memory: a map entry for
// each range.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>

#include "proto/queue/layout.h"

namespace mlxcomm::client {

// The remedy if no range is large enough. A client that requests no size gets the largest that the
// daemon allows.
inline constexpr const char kArenaRemedy[] =
    "Free buffers, or ask for a larger arena (arena_bytes, when connecting). If this is the "
    "largest that "
    "the daemon gives, raise clients { arena_bytes_max } in its configuration.";

class ArenaAllocator {
  struct Range {
    std::uint64_t bytes = 0;
    std::uint64_t freed_at = 0;  // Free ranges: a counter, higher is warmer.
    std::uint32_t pins = 0;
    bool used = false;
    bool freed = false;  // Used and pinned: the last unpin frees it.
    bool warm = false;   // Free ranges: may have pages.
  };
  using Ranges = std::map<std::uint64_t, Range>;

 public:
  static constexpr std::uint64_t kWarmBytes = std::uint64_t{2} << 30;

  // `page` bytes is the granularity. `data` may be nullptr in tests: then nothing is given back to
  // the system. `pages` decides whether pages may be released; nullptr means always. `warm_bytes`
  // of free memory are kept in any case.
  ArenaAllocator(std::byte* data, std::uint64_t bytes, std::uint64_t page,
                 queue::ArenaPages* pages = nullptr, std::uint64_t warm_bytes = kWarmBytes);

  // Offset of a range of at least `bytes`; nullopt if no range is large enough. Waits for pages
  // that another thread is releasing, if only these are missing.
  std::optional<std::uint64_t> Allocate(std::uint64_t bytes);
  struct Part {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
  };
  // Holds what one operation has pinned: its input, its output and a table. A pinned range stays
  // where it is, so unpinning needs no search.
  class Pins {
   public:
    static constexpr std::size_t kMost = 3;
    std::size_t count() const { return count_; }
    // The whole range of the i-th part.
    Part range(std::size_t i) const { return {ranges_[i]->first, ranges_[i]->second.bytes}; }

   private:
    friend class ArenaAllocator;
    std::array<Ranges::iterator, kMost> ranges_;
    std::size_t count_ = 0;
  };
  // Pins each of at most Pins::kMost parts. Returns nullptr, or the first part that is not inside
  // one allocated range that is not freed; then nothing is pinned. `pins` must be empty.
  [[nodiscard]] const Part* Pin(std::span<const Part> parts, Pins& pins);
  // Leaves them empty. Memory that this frees may go back to the system, which takes the caller's
  // time and delays no other thread.
  void Unpin(Pins& pins);

  // Marks a range as freed and pins it, so that unpinning frees it. Returns the whole range, or
  // nullopt if none starts there. `pins` must be empty.
  std::optional<Part> Retire(std::uint64_t offset, Pins& pins);

  std::uint64_t used_bytes() const;
  std::uint64_t largest_free_bytes() const;
  std::uint64_t total_bytes() const { return bytes_; }

 private:
  Ranges::iterator Containing(std::uint64_t offset);
  Ranges::iterator FindPinnable(const Part& part);
  Ranges::iterator FindFree(std::uint64_t bytes);
  Ranges::iterator JoinFree(std::uint64_t bytes);
  void SplitAfter(Ranges::iterator range, std::uint64_t bytes);
  void Release(std::unique_lock<std::mutex>& lock, Ranges::iterator range);
  void Merge(Ranges::iterator range);
  void GiveBackTooMuch(std::unique_lock<std::mutex>& lock);
  [[nodiscard]] bool GiveBack(std::unique_lock<std::mutex>& lock, Ranges::iterator range);
  [[nodiscard]] bool GiveBackPages(std::uint64_t offset, std::uint64_t bytes);

  std::byte* data_;
  std::uint64_t bytes_;
  std::uint64_t page_;
  queue::ArenaPages* const pages_;
  const std::uint64_t warm_max_;
  mutable std::mutex mutex_;
  std::mutex giving_back_mutex_;  // Never held with a mutex that operations need.
  std::condition_variable given_back_;
  int giving_back_ = 0;  // Threads that are releasing pages.
  Ranges ranges_;        // The whole arena, by offset.
  std::uint64_t used_ = 0;
  std::uint64_t warm_ = 0;
  std::uint64_t clock_ = 0;
};

}  // namespace mlxcomm::client
