// Why: a message with many calls ended in the middle of one, and its remedy was lost.
#include "proto/types/plain_text.h"

#include <gtest/gtest.h>

namespace mlxcomm::short_list_test {
namespace {

TEST(ShortListTest, IsTheWholeListIfItFits) {
  EXPECT_EQ(ShortList({}, "; ", 100), "");
  EXPECT_EQ(ShortList({"one"}, "; ", 3), "one");
  EXPECT_EQ(ShortList({"one", "two"}, "; ", 60), "one; two");
}

TEST(ShortListTest, CountsItemsThatDoNotFit) {
  const std::vector<std::string> items(9, "twelve bytes");
  EXPECT_EQ(ShortList(items, "; ", 64), "twelve bytes; twelve bytes; twelve bytes; and 6 more");
}

TEST(ShortListTest, IsNeverTooLong) {
  for (std::size_t count = 1; count < 40; ++count) {
    for (std::size_t bytes = 40; bytes < 300; ++bytes) {
      const std::vector<std::string> items(count, std::string(count * 5, 'a'));
      EXPECT_LE(ShortList(items, "; ", bytes).size(), bytes) << count;
    }
  }
}

// Why: a difference between calls needs two of them.
TEST(ShortListTest, ShowsTwoLongItems) {
  const std::string list =
      ShortList({std::string(500, 'a'), std::string(500, 'b'), std::string(20, 'c')}, "; ", 200);
  EXPECT_NE(list.find("a...; b"), std::string::npos) << list;
  EXPECT_TRUE(list.ends_with("b...; and 1 more")) << list;
}

TEST(ShortListTest, TruncatesBetweenCharacters) {
  EXPECT_EQ(Shortened("caf\u00e9s", 6), "caf\u00e9s");
  EXPECT_EQ(Shortened("caf\u00e9 au lait", 7), "caf...");
  EXPECT_EQ(Shortened("caf\u00e9 au lait", 8), "caf\u00e9...");
}

}  // namespace
}  // namespace mlxcomm::short_list_test
