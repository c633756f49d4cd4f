#include "client/ctl/cli/text.h"

#include <gtest/gtest.h>

namespace mlxcomm::ctl::text_test {
namespace {

TEST(ExpectedOneOfTest, NamesTheNearestFirst) {
  EXPECT_EQ(ExpectedOneOf("rign", "ring, tree"),
            "; did you mean \"ring\"? Expected one of ring, tree");
  EXPECT_EQ(ExpectedOneOf("star", "ring, tree"), ": expected one of ring, tree");
}

TEST(NameOrderTest, SortsNumbersByValue) {
  const auto is_before = [](const std::string& a, const std::string& b) {
    return NumbersPadded(a) < NumbersPadded(b) && !(NumbersPadded(b) < NumbersPadded(a));
  };
  EXPECT_TRUE(is_before("mac-9", "mac-10"));
  EXPECT_TRUE(is_before("mac-2-rack-10", "mac-10-rack-9"));
  EXPECT_TRUE(is_before("mac", "mac-1"));
  EXPECT_TRUE(is_before("mac-10", "mini-1"));
  EXPECT_EQ(NumbersPadded(""), "");
}

}  // namespace
}  // namespace mlxcomm::ctl::text_test
