// The message about a bug of ours names it, even in a build with NDEBUG.
#include "proto/types/invariant.h"

#include <gtest/gtest.h>

namespace mlxcomm {
namespace {

TEST(InvariantDeathTest, NamesConditionAndPlace) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  MLXCOMM_INVARIANT(1 + 1 == 2);
  EXPECT_DEATH(MLXCOMM_INVARIANT(1 + 1 == 3),
               "mlxcomm: bug: expected 1 \\+ 1 == 3, at .*invariant_test.cc:");
}

}  // namespace
}  // namespace mlxcomm
