// Handles are closed only while no call is in progress, and no call begins afterwards.
#include "client/mlx/process_end.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <optional>
#include <thread>
#include <vector>

#include "client/mlx/operation_error.h"

namespace mlxcomm::graph::process_end_test {
namespace {

bool MayUse() {
  try {
    const GroupUse use;
    return true;
  } catch (const OperationError& error) {
    EXPECT_EQ(error.details().code, MLXCOMM_CANCELLED);
    return false;
  }
}

// Groups remain closed, so this runs in its own process.
[[noreturn]] void CloseBetweenCalls() {
  EXPECT_FALSE(ProcessHasEnded());
  std::optional<GroupUse> first(std::in_place);
  EXPECT_FALSE(CloseGroups());
  {
    const GroupUse second;
    first.reset();
    EXPECT_FALSE(CloseGroups());
  }
  EXPECT_TRUE(MayUse()) << "what could not be closed is as it was";

  std::atomic<bool> closed{false};
  std::atomic<int> used_when_closed{0};
  std::vector<std::thread> users;
  for (int i = 0; i < 4; ++i) {
    users.emplace_back([&] {
      while (true) {
        try {
          const GroupUse use;
          if (closed) ++used_when_closed;
        } catch (const OperationError&) {
          return;
        }
      }
    });
  }
  while (!CloseGroups()) std::this_thread::yield();
  closed = true;
  for (std::thread& user : users) user.join();
  EXPECT_EQ(used_when_closed, 0);
  EXPECT_FALSE(MayUse());
  NoteProcessHasEnded();
  EXPECT_TRUE(ProcessHasEnded());
  std::_Exit(testing::Test::HasFailure() ? 1 : 0);
}

TEST(GroupUseTest, ClosesGroupsBetweenCallsForGood) {
  EXPECT_EXIT(CloseBetweenCalls(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace mlxcomm::graph::process_end_test
