// Machines are upgraded one after the other, so consecutive releases must find a common version; a
// daemon without one must be refused, whatever it claims.
#include "proto/wire/versions.h"

#include <gtest/gtest.h>

namespace mlxcomm::wire {
namespace {

TEST(VersionsTest, TwoSpeakTheNewestCommonVersion) {
  EXPECT_EQ(CommonVersion({7, 7}, {7, 7}), 7);
  EXPECT_EQ(CommonVersion({7, 7}, {7, 8}), 7);  // Upgraded one after the other.
  EXPECT_EQ(CommonVersion({7, 8}, {7, 7}), 7);
  EXPECT_EQ(CommonVersion({7, 8}, {8, 9}), 8);
  EXPECT_EQ(CommonVersion({7, 9}, {8, 8}), 8);
}

TEST(VersionsTest, IncompatibleReleasesHaveNone) {
  EXPECT_EQ(CommonVersion({7, 7}, {8, 9}), std::nullopt);
  EXPECT_EQ(CommonVersion({8, 9}, {7, 7}), std::nullopt);
}

TEST(VersionsTest, ARangeOfOneIsWrittenAsANumber) {
  EXPECT_EQ(TextOf({7, 7}), "7");
  EXPECT_EQ(TextOf({7, 8}), "7 to 8");
}

}  // namespace
}  // namespace mlxcomm::wire
