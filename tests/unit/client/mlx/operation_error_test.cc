// Failures are found by text, because MLX and mlx-c pass on only the text.
#include "client/mlx/operation_error.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace mlxcomm::graph::operation_error_test {
namespace {

FailureDetails Lost(int rank, const std::string& message) {
  FailureDetails details;
  details.code = MLXCOMM_RANK_LOST;
  details.rank = rank;
  details.message = message;
  return details;
}

TEST(OperationErrorTest, IsFoundByItsText) {
  const OperationError error(Lost(3, "rank 3 is lost"));
  EXPECT_STREQ(error.what(), "RANK_LOST: rank 3 is lost");
  EXPECT_EQ(FindRecentFailure("MLX error: RANK_LOST: rank 3 is lost at array.cpp:352")->rank, 3);
  EXPECT_FALSE(FindRecentFailure("RANK_LOST: rank 3"));
  EXPECT_FALSE(FindRecentFailure(""));
}

// Why: two groups may have failures with the same text, but different ranks.
TEST(OperationErrorTest, FindsTheLatestOfTwoEqualTexts) {
  const OperationError earlier(Lost(1, "twice"));
  const OperationError later(Lost(2, "twice"));
  EXPECT_EQ(FindRecentFailure("RANK_LOST: twice, it says")->rank, 2);
}

TEST(OperationErrorTest, RemembersSixtyFour) {
  for (int i = 0; i < 65; ++i) {
    const OperationError error(Lost(i, "number " + std::to_string(i) + "."));
  }
  EXPECT_FALSE(FindRecentFailure("RANK_LOST: number 0."));
  EXPECT_EQ(FindRecentFailure("RANK_LOST: number 1.")->rank, 1);
  EXPECT_EQ(FindRecentFailure("RANK_LOST: number 64.")->rank, 64);
}

// Doubling cannot be switched off, so this runs in its own process.
[[noreturn]] void ThrowWithDoubledSigns(const std::string& message) {
  DoublePercentSigns();
  const OperationError error(Lost(4, message));
  std::string printed(200, '\0');
  const char* const format = error.what();
  constexpr int kUnused = 0;  // A format without an argument is what compilers warn of.
  const int length = std::snprintf(printed.data(), printed.size(), format, kUnused);
  printed.resize(static_cast<std::size_t>(length));
  EXPECT_EQ(printed, "RANK_LOST: " + message);
  EXPECT_EQ(error.details().message, message);
  EXPECT_EQ(FindRecentFailure(printed)->rank, 4);
  std::_Exit(testing::Test::HasFailure() ? 1 : 0);
}

// Why: mlx-c prints what() as a format, and it contains another process's text.
TEST(OperationErrorTest, DoublesPercentSignsIfTheTextIsAFormat) {
  const std::string message = "%n100%% of %s%";
  EXPECT_EQ(OperationError(Lost(1, message)).what(), "RANK_LOST: " + message);
  EXPECT_EXIT(ThrowWithDoubledSigns(message), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace mlxcomm::graph::operation_error_test
