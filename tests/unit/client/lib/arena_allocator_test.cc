#include "client/lib/arena_allocator.h"

#include <sys/mman.h>

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <random>
#include <thread>
#include <vector>

namespace mlxcomm::client::arena_allocator_test {
namespace {

bool Pin(ArenaAllocator& arena, ArenaAllocator::Pins& pins,
         const std::vector<ArenaAllocator::Part>& parts) {
  return arena.Pin(parts, pins) == nullptr;
}

// The way a connection frees a buffer.
bool Free(ArenaAllocator& arena, std::uint64_t offset) {
  ArenaAllocator::Pins last;
  if (!arena.Retire(offset, last).has_value()) return false;
  arena.Unpin(last);
  return true;
}

constexpr std::uint64_t kPage = 4096;

TEST(ArenaAllocatorTest, ReusesTheRangeThatWasFreedLast) {
  ArenaAllocator arena(nullptr, 64 * kPage, kPage);
  const auto a = *arena.Allocate(2 * kPage);
  const auto gap = *arena.Allocate(kPage);
  const auto b = *arena.Allocate(2 * kPage);
  const auto end = *arena.Allocate(kPage);
  Free(arena, a);
  Free(arena, b);
  EXPECT_EQ(*arena.Allocate(2 * kPage), b);
  EXPECT_EQ(*arena.Allocate(2 * kPage), a);
  Free(arena, gap);
  Free(arena, end);
}

// Why: an operation that ends in one step has no pins, so its buffer must be known as freed before
// it is.
TEST(ArenaAllocatorTest, FreesWhatIsRetiredOnceItIsUnpinned) {
  ArenaAllocator arena(nullptr, 4 * kPage, kPage);
  const auto range = *arena.Allocate(4 * kPage);
  ArenaAllocator::Pins used, last, none;
  ASSERT_TRUE(Pin(arena, used, {{range, 1}}));
  const auto retired = arena.Retire(range, last);
  ASSERT_TRUE(retired.has_value());
  EXPECT_EQ(retired->offset, range);
  EXPECT_EQ(retired->bytes, 4 * kPage);
  EXPECT_FALSE(arena.Retire(range, none).has_value()) << "it is freed once";
  EXPECT_FALSE(Pin(arena, none, {{range, 1}}));
  arena.Unpin(last);
  EXPECT_FALSE(arena.Allocate(kPage).has_value()) << "an operation still uses it";
  arena.Unpin(used);
  EXPECT_TRUE(arena.Allocate(kPage).has_value());
}

// Why: freed memory is warm, unused memory is cold, and the two do not merge. An arena that is not
// used at all must still give all of itself in one piece.
TEST(ArenaAllocatorTest, JoinsWarmAndColdNeighboursForWhatFitsIntoNeither) {
  ArenaAllocator arena(nullptr, 8 * kPage, kPage);
  const auto small = *arena.Allocate(3 * kPage);
  EXPECT_TRUE(Free(arena, small));
  EXPECT_EQ(arena.largest_free_bytes(), 8 * kPage);
  const auto most = arena.Allocate(7 * kPage);
  ASSERT_TRUE(most.has_value());
  EXPECT_EQ(arena.largest_free_bytes(), kPage);
  const auto rest = arena.Allocate(kPage);
  ASSERT_TRUE(rest.has_value());
  EXPECT_NE(*rest, *most);
  EXPECT_TRUE(Free(arena, *most));
  EXPECT_TRUE(Free(arena, *rest));
  EXPECT_TRUE(arena.Allocate(8 * kPage).has_value());
}

// Why: a pin that hits another range, or none, would protect the wrong memory, and its unpin would
// remove another operation's protection.
TEST(ArenaAllocatorTest, PinsOnlyWhatLiesInOneRangeThatIsAllocated) {
  ArenaAllocator arena(nullptr, 8 * kPage, kPage);
  ArenaAllocator::Pins pins;
  EXPECT_FALSE(Pin(arena, pins, {{0, 1}}));
  const auto a = *arena.Allocate(kPage);
  const auto b = *arena.Allocate(kPage);
  ASSERT_EQ(b, a + kPage);
  EXPECT_FALSE(Pin(arena, pins, {{a, 2 * kPage}}));  // Two buffers, one of which it would hold.
  EXPECT_FALSE(Pin(arena, pins, {{b + 10, kPage}}));
  EXPECT_FALSE(Pin(arena, pins, {{8 * kPage, 0}}));
  ASSERT_TRUE(Pin(arena, pins, {{a, kPage}}));
  EXPECT_TRUE(Free(arena, a));
  ArenaAllocator::Pins more;
  EXPECT_FALSE(Pin(arena, more, {{a, kPage}}));  // The caller has given it up.
  arena.Unpin(pins);
  EXPECT_FALSE(Pin(arena, more, {{a, kPage}}));
}

// Why: an operation has an input and an output; if it cannot have both, it must not keep one.
TEST(ArenaAllocatorTest, PinsAllPartsOrNone) {
  ArenaAllocator arena(nullptr, 8 * kPage, kPage);
  const auto input = *arena.Allocate(kPage);
  const auto output = *arena.Allocate(kPage);
  const std::array<ArenaAllocator::Part, 2> parts{{{input, kPage}, {output, kPage + 1}}};
  ArenaAllocator::Pins pins;
  EXPECT_EQ(arena.Pin(parts, pins), &parts[1]);
  EXPECT_EQ(pins.count(), 0u);
  EXPECT_TRUE(Free(arena, input));
  EXPECT_EQ(*arena.Allocate(kPage), input) << "nobody holds it";

  ASSERT_TRUE(Pin(arena, pins, {{input, kPage}, {output, kPage}, {input + 1, 1}}));
  EXPECT_TRUE(Free(arena, input));
  EXPECT_TRUE(Free(arena, output));
  EXPECT_EQ(arena.largest_free_bytes(), 6 * kPage);
  arena.Unpin(pins);
  EXPECT_EQ(arena.largest_free_bytes(), 8 * kPage);
  arena.Unpin(pins);  // They are empty.
}

#if defined(__linux__)
// Why: a device reads the pages that were registered with it, whatever is at their addresses later.
// How: pages that are released read as zero.
TEST(ArenaAllocatorTest, GivesBackWhatIsFreeUnlessADeviceMayHoldIt) {
  queue::ArenaPages words{};
  for (const bool stays : {false, true}) {
    words.registered = stays ? 1 : 0;
    void* const pages =
        ::mmap(nullptr, 8 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(pages, MAP_FAILED);
    auto* const data = static_cast<std::byte*>(pages);
    ArenaAllocator arena(data, 8 * kPage, kPage, &words, kPage);
    const std::uint64_t range = *arena.Allocate(2 * kPage);
    data[range] = std::byte{1};
    ASSERT_TRUE(Free(arena, range));
    EXPECT_EQ(data[range], stays ? std::byte{1} : std::byte{0});
    ::munmap(pages, 8 * kPage);
  }
}

// Why: a process that once sent much by RDMA would keep the maximum that it ever used.
// How: a range freed while a device has pages stays, and is released with the next range that is
// freed after it.
TEST(ArenaAllocatorTest, GivesBackWhatStayedForADeviceOnceItHasGone) {
  void* const pages =
      ::mmap(nullptr, 8 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  auto* const data = static_cast<std::byte*>(pages);
  queue::ArenaPages words{};
  ArenaAllocator arena(data, 8 * kPage, kPage, &words, kPage);
  const std::uint64_t large = *arena.Allocate(4 * kPage);
  const std::uint64_t between = *arena.Allocate(kPage);
  const std::uint64_t small = *arena.Allocate(kPage);
  data[large] = data[small] = std::byte{1};
  words.registered = 1;
  ASSERT_TRUE(Free(arena, large));
  EXPECT_EQ(data[large], std::byte{1});
  EXPECT_EQ(words.giving_back, 0u) << "it said that it gives back, and never that it does not";
  words.registered = 0;
  ASSERT_TRUE(Free(arena, small));
  EXPECT_EQ(data[large], std::byte{0});
  EXPECT_EQ(words.giving_back, 0u);
  ASSERT_TRUE(Free(arena, between));
  EXPECT_TRUE(arena.Allocate(8 * kPage).has_value()) << "what was given back is not joined";
  ::munmap(pages, 8 * kPage);
}

// Why: a thread that has freed everything may request it at once, although another thread is still
// releasing its pages.
TEST(ArenaAllocatorTest, WaitsForWhatIsBeingGivenBack) {
  constexpr std::uint64_t kBytes = std::uint64_t{32} << 20;
  void* const pages =
      ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  queue::ArenaPages words{};
  ArenaAllocator arena(static_cast<std::byte*>(pages), kBytes, kPage, &words, /*warm_bytes=*/kPage);
  for (int round = 0; round < 5; ++round) {
    const auto all = arena.Allocate(kBytes);
    ASSERT_TRUE(all.has_value());
    std::memset(static_cast<std::byte*>(pages) + *all, 1, kBytes);
    std::atomic<bool> has_ended = false;
    std::thread frees([&] {
      EXPECT_TRUE(Free(arena, *all));
      has_ended = true;
    });
    while (words.giving_back == 0 && !has_ended) std::this_thread::yield();
    const auto again = arena.Allocate(kBytes);
    frees.join();
    ASSERT_TRUE(again.has_value() && Free(arena, *again));
  }
  ::munmap(pages, kBytes);
}
#endif

// Why: releasing gigabytes takes a long time, and until then no other thread may take the range.
TEST(ArenaAllocatorTest, ThreadsThatFreeAtOnceGiveEachRangeBackOnce) {
  constexpr std::uint64_t kBytes = 64 * kPage;
  ArenaAllocator arena(nullptr, kBytes, kPage, nullptr, /*warm_bytes=*/kPage);
  std::vector<std::thread> threads;
  for (std::uint64_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&arena, thread] {
      for (std::uint64_t round = 0; round < 500; ++round) {
        const auto range = arena.Allocate((1 + (thread + round) % 4) * kPage);
        if (!range.has_value()) continue;  // Busy for others at the moment.
        EXPECT_TRUE(Free(arena, *range));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(arena.used_bytes(), 0u);
  EXPECT_EQ(arena.largest_free_bytes(), kBytes);
  EXPECT_TRUE(arena.Allocate(kBytes).has_value());
}

// Against a model: ranges never overlap, and all space comes back.
TEST(ArenaAllocatorTest, NeverHandsOutOverlappingRanges) {
  std::mt19937 random(3);
  ArenaAllocator arena(nullptr, 256 * kPage, kPage);
  std::map<std::uint64_t, std::uint64_t> held;
  for (int step = 0; step < 20'000; ++step) {
    if (random() % 2 == 0 && !held.empty()) {
      auto victim = held.begin();
      std::advance(victim, static_cast<std::ptrdiff_t>(random() % held.size()));
      ASSERT_TRUE(Free(arena, victim->first));
      held.erase(victim);
      continue;
    }
    const std::uint64_t bytes = 1 + random() % (20 * kPage);
    const auto range = arena.Allocate(bytes);
    if (!range.has_value()) continue;
    ASSERT_EQ(*range % kPage, 0u);
    const auto next = held.lower_bound(*range);
    if (next != held.end()) {
      ASSERT_LE(*range + bytes, next->first);
    }
    if (next != held.begin()) {
      ASSERT_LE(std::prev(next)->first + std::prev(next)->second, *range);
    }
    held[*range] = bytes;
  }
  for (const auto& [offset, bytes] : held) Free(arena, offset);
  EXPECT_EQ(arena.used_bytes(), 0u);
  EXPECT_EQ(arena.largest_free_bytes(), 256 * kPage);
}

}  // namespace
}  // namespace mlxcomm::client::arena_allocator_test
