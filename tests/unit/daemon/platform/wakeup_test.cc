// A bell that wakes a thread from poll.
#include "daemon/platform/wakeup.h"

#include <gtest/gtest.h>
#include <poll.h>

namespace mlxcomm::platform::wakeup_test {
namespace {

bool IsReadable(const Wakeup& wakeup, int timeout_ms) {
  pollfd waited{wakeup.descriptor(), POLLIN, 0};
  return ::poll(&waited, 1, timeout_ms) == 1;
}

TEST(WakeupTest, WakesOnceHoweverOftenItRings) {
  Wakeup wakeup;
  EXPECT_FALSE(IsReadable(wakeup, 0));
  for (int i = 0; i < 100'000; ++i) wakeup.Ring();  // More than a pipe holds.
  EXPECT_TRUE(IsReadable(wakeup, 0));
  wakeup.Drain();
  EXPECT_FALSE(IsReadable(wakeup, 0));
  wakeup.Drain();  // Empty: does not block.
}

}  // namespace
}  // namespace mlxcomm::platform::wakeup_test
