// Machines are upgraded one after the other, so consecutive releases must find a common version; a
// daemon without one must be refused, whatever it claims.
#include "proto/wire/versions.h"

#include <gtest/gtest.h>

namespace mlxcomm::wire {
namespace {

TEST(VersionsTest, TheTableHasNoGapsAndSpokenVersionsAreItsEnds) {
  const std::span<const WireVersion> all = WireVersions();
  ASSERT_FALSE(all.empty());
  for (std::size_t i = 1; i < all.size(); ++i) EXPECT_EQ(all[i].number, all[i - 1].number + 1);
  EXPECT_EQ(SpokenVersions(), (VersionRange{all.front().number, all.back().number}));
}

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

TEST(VersionsTest, ARangeIsParsedAsItIsWritten) {
  for (const VersionRange& range :
       {VersionRange{7, 7}, VersionRange{7, 8}, VersionRange{1, 65535}}) {
    EXPECT_EQ(ParseVersionRange(TextOf(range)), range);
  }
  for (const char* const text :
       {"", "x", "7 to", "7 to ", "8 to 7", "0", "7 to 8 to 9", "65536", "-7", "7x"}) {
    EXPECT_EQ(ParseVersionRange(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace mlxcomm::wire
