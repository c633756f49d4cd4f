// Segments that two processes share by a descriptor.
#include "daemon/platform/shared_memory.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace mlxcomm::platform::shared_memory_test {
namespace {

TEST(SharedMemoryTest, GivesWholePagesOfZeros) {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  for (const std::uint64_t bytes : {std::uint64_t{1}, page - 1, page, page + 1}) {
    const absl::StatusOr<SharedSegment> segment = SharedSegment::Create("test", bytes);
    ASSERT_TRUE(segment.ok()) << segment.status();
    EXPECT_EQ(segment->bytes(), bytes > page ? 2 * page : page);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(segment->data()) % page, 0u);
    for (std::uint64_t i = 0; i < segment->bytes(); ++i) {
      ASSERT_EQ(segment->data()[i], std::byte{0});
    }
  }
}

// Why: a side that could shrink it could make the other side fault.
TEST(SharedMemoryTest, NeverChangesItsSize) {
  const absl::StatusOr<SharedSegment> segment = SharedSegment::Create("test", 1 << 16);
  ASSERT_TRUE(segment.ok()) << segment.status();
  for (const off_t bytes : {0, 4096, 1 << 20}) {
    EXPECT_NE(::ftruncate(segment->descriptor(), bytes), 0) << bytes;
  }
  segment->data()[(1 << 16) - 1] = std::byte{1};
}

TEST(SharedMemoryTest, CostsNothingUntilItIsTouched) {
  const absl::StatusOr<SharedSegment> segment =
      SharedSegment::Create("test", std::uint64_t{64} << 30);
  ASSERT_TRUE(segment.ok()) << segment.status();
  segment->data()[std::uint64_t{63} << 30] = std::byte{1};
  struct stat facts{};
  ASSERT_EQ(::fstat(segment->descriptor(), &facts), 0);
  EXPECT_LT(facts.st_blocks, (std::int64_t{4} << 20) / 512);
}

TEST(SharedMemoryTest, RefusesInvalidSizes) {
  EXPECT_EQ(SharedSegment::Create("test", 0).status().code(), absl::StatusCode::kResourceExhausted);
  for (const std::uint64_t bytes : {~std::uint64_t{0}, std::uint64_t{1} << 63}) {
    EXPECT_EQ(SharedSegment::Create("test", bytes).status().code(),
              absl::StatusCode::kResourceExhausted);
  }
}

}  // namespace
}  // namespace mlxcomm::platform::shared_memory_test
