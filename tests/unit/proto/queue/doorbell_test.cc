// The doorbell between a local process and the daemon, and the cost of endless ringing.
#include "proto/queue/doorbell.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "proto/queue/descriptor_passing.h"
#include "proto/queue/socket_options.h"

namespace mlxcomm::queue::doorbell_test {
namespace {

constexpr std::uint64_t kMinuteNs = 60'000'000'000;

class DoorbellTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(MakeDoorbellPair(ends)); }
  void TearDown() override {
    for (const int end : ends) {
      if (end >= 0) ::close(end);
    }
  }
  void CloseOther() {
    ::close(ends[1]);
    ends[1] = -1;
  }
  int ends[2] = {-1, -1};
};

TEST_F(DoorbellTest, IsSilentBeforeARingAndAfterItIsDrained) {
  EXPECT_EQ(DrainDoorbell(ends[0]), DoorbellState::kSilent);
  EXPECT_EQ(WaitForDoorbell(ends[0], 0), DoorbellState::kSilent);
  for (int i = 0; i < 3; ++i) RingDoorbell(ends[1]);
  EXPECT_EQ(WaitForDoorbell(ends[0], kMinuteNs), DoorbellState::kRung);
  EXPECT_EQ(DrainDoorbell(ends[0]), DoorbellState::kSilent);
}

TEST_F(DoorbellTest, ReportsThatTheOtherSideIsClosed) {
  RingDoorbell(ends[1]);
  CloseOther();
  EXPECT_EQ(DrainDoorbell(ends[0]), DoorbellState::kRung);
  EXPECT_EQ(WaitForDoorbell(ends[0], kMinuteNs), DoorbellState::kOtherSideGone);
  RingDoorbell(ends[0]);  // Without a receiver: no signal, no wait.
}

// Why: a fast writer would keep the reader reading forever.
TEST_F(DoorbellTest, ReadsALimitedPartOfAFlood) {
  const std::string flood(1 << 16, 'x');
  while (::send(ends[1], flood.data(), flood.size(), MSG_DONTWAIT) > 0) {
  }
  EXPECT_EQ(DrainDoorbell(ends[0]), DoorbellState::kRung);
  char byte;
  EXPECT_EQ(::recv(ends[0], &byte, 1, MSG_DONTWAIT | MSG_PEEK), 1) << "the rest is still there";
  while (DrainDoorbell(ends[0]) == DoorbellState::kRung) {
  }
  EXPECT_EQ(DrainDoorbell(ends[0]), DoorbellState::kSilent);
}

// Why: to discard a connection that lingers, the system waits; a client could stop the daemon so.
TEST_F(DoorbellTest, CanRefuseDescriptors) {
  const char byte = 1;
  ASSERT_TRUE(SendWithDescriptors(ends[1], &byte, 1, &ends[1], 1, 0));
  EXPECT_EQ(DrainDoorbell(ends[0]), DoorbellState::kRung);
  const int none = 0;
  if (::setsockopt(ends[0], SOL_SOCKET, 83, &none, sizeof none) != 0)
    GTEST_SKIP() << "SO_PASSRIGHTS is for Linux 6.16 and later";
  RefuseDescriptors(ends[0]);
  EXPECT_FALSE(SendWithDescriptors(ends[1], &byte, 1, &ends[1], 1, 0));
  EXPECT_EQ(errno, EPERM);
  RingDoorbell(ends[1]);
  EXPECT_EQ(DrainDoorbell(ends[0]), DoorbellState::kRung);
}

}  // namespace
}  // namespace mlxcomm::queue::doorbell_test
