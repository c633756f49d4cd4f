// Each kind of copy copies every byte and changes no other.
#include "client/mlx/copy_in.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace mlxcomm::graph::copy_in_test {
namespace {

constexpr std::size_t kMargin = 64;
constexpr std::byte kUntouched{0xee};

std::vector<std::byte> Numbers(std::size_t bytes) {
  std::vector<std::byte> numbers(bytes);
  std::uint32_t state = 1;
  for (std::byte& number : numbers) {
    state = state * 1664525 + 1013904223;
    number = static_cast<std::byte>(state >> 24);
  }
  return numbers;
}

// Copies to an address with this offset in a cache line.
void ExpectCopied(std::size_t bytes, std::size_t behind) {
  const std::vector<std::byte> from = Numbers(bytes + 1);
  std::vector<std::byte> memory(bytes + 4 * kMargin, kUntouched);
  const auto begin = reinterpret_cast<std::uintptr_t>(memory.data());
  const std::size_t first = kMargin + (kMargin - begin % kMargin) % kMargin + behind;
  std::byte* const to = memory.data() + first;
  CopyIn(to, from.data() + 1, bytes);  // A source need not be aligned at all.
  EXPECT_TRUE(std::equal(to, to + bytes, from.data() + 1)) << bytes << " bytes, " << behind;
  const auto is_untouched = [](std::byte one) { return one == kUntouched; };
  EXPECT_TRUE(std::all_of(memory.data(), to, is_untouched));
  EXPECT_TRUE(std::all_of(to + bytes, memory.data() + memory.size(), is_untouched));
}

TEST(CopyInTest, CopiesSmallInputsThroughTheCaches) {
  for (const std::size_t bytes : {0u, 1u, 63u, 64u, 4097u}) ExpectCopied(bytes, 0);
}

TEST(CopyInTest, CopiesLargeInputsPastTheCachesWithTheirRest) {
  for (const std::size_t more : {0u, 1u, 63u, 64u, 65u}) ExpectCopied(kStreamBytes + more, 0);
}

TEST(CopyInTest, CopiesToUnalignedAddresses) { ExpectCopied(kStreamBytes + 100, 4); }

}  // namespace
}  // namespace mlxcomm::graph::copy_in_test
