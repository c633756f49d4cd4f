// Facts of the machine and of this process.
#include "daemon/platform/machine.h"

#include <gmock/gmock.h>

#include <cstring>
#include <memory>

#include "daemon/platform/shared_memory.h"
#include "proto/queue/scheduling_policy.h"

namespace mlxcomm::platform::machine_test {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

TEST(MachineTest, HasMemoryAndAName) {
  EXPECT_GT(PhysicalMemoryBytes(), 64 * kMiB);
  EXPECT_GT(OwnMemoryBytes(), 0u);
  EXPECT_LT(OwnMemoryBytes(), PhysicalMemoryBytes());
  EXPECT_GE(LastLevelCacheBytes(), 64u * 1024);
  EXPECT_LE(LastLevelCacheBytes(), PhysicalMemoryBytes());
  EXPECT_THAT(HostName(), testing::Not(testing::IsEmpty()));
  EXPECT_THAT(HostName(), testing::Not(testing::HasSubstr(".")));
}

// Why: two working threads need two cores; neither must stay bound to one.
TEST(MachineTest, LeavesACoreAndMayUseAllOfThemAfterwards) {
  const std::uint32_t cores = queue::UsableCores();
  const std::uint32_t left = CurrentCore();
  LeaveCore(left);
  EXPECT_EQ(queue::UsableCores(), cores);
  LeaveCore(kAnyCore);  // No effect.
  EXPECT_EQ(queue::UsableCores(), cores);
}

TEST(MachineTest, NamesPlacesForFiles) {
  EXPECT_THAT(DefaultSocketPath(), testing::StartsWith("/"));
  EXPECT_THAT(DefaultSocketPath(), testing::EndsWith("/mlxcommd.sock"));
  EXPECT_THAT(DefaultSocketPath(), testing::Not(testing::HasSubstr("//")));
  EXPECT_THAT(DefaultStateDirectory(), testing::EndsWith("/mlxcommd"));
}

#if defined(__linux__)
#if !defined(__SANITIZE_THREAD__)  // It keeps private memory for shared pages.
// Why: status shows the daemon's own memory, without clients' arenas.
TEST(MachineTest, CountsPrivateMemoryOnly) {
  const std::uint64_t before = OwnMemoryBytes();
  absl::StatusOr<SharedSegment> shared = SharedSegment::Create("test", 64 * kMiB);
  ASSERT_TRUE(shared.ok()) << shared.status();
  std::memset(shared->data(), 1, shared->bytes());
  EXPECT_LT(OwnMemoryBytes(), before + 32 * kMiB);
  const auto own = std::make_unique<std::byte[]>(64 * kMiB);
  std::memset(own.get(), 1, 64 * kMiB);
  EXPECT_EQ(own[kMiB], std::byte{1});
  EXPECT_GT(OwnMemoryBytes(), before + 60 * kMiB);
}
#endif
#endif

}  // namespace
}  // namespace mlxcomm::platform::machine_test
