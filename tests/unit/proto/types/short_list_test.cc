// Why: a message with many calls once ended in the middle of one, and its remedy was lost.
#include "proto/types/plain_text.h"

#include <gtest/gtest.h>

namespace mlxcomm::short_list_test {
namespace {

TEST(ShortListTest, IsTheWholeListWhereThatFits) {
  EXPECT_EQ(ShortList({}, "; ", 100), "");
  EXPECT_EQ(ShortList({"one"}, "; ", 3), "one");
  EXPECT_EQ(ShortList({"one", "two"}, "; ", 60), "one; two");
}

TEST(ShortListTest, CountsWhatDoesNotFit) {
  const std::vector<std::string> items(9, "twelve bytes");
  EXPECT_EQ(ShortList(items, "; ", 64), "twelve bytes; twelve bytes; twelve bytes; and 6 more");
}

TEST(ShortListTest, IsNeverLonger) {
  for (std::size_t count = 1; count < 40; ++count) {
    for (std::size_t bytes = 40; bytes < 300; ++bytes) {
      const std::vector<std::string> items(count, std::string(count * 5, 'a'));
      EXPECT_LE(ShortList(items, "; ", bytes).size(), bytes) << count;
    }
  }
}

// Why: of calls that differ, one alone shows nothing.
TEST(ShortListTest, ShowsTwoOfLongItems) {
  const std::string list =
      ShortList({std::string(500, 'a'), std::string(500, 'b'), std::string(20, 'c')}, "; ", 200);
  EXPECT_NE(list.find("a...; b"), std::string::npos) << list;
  EXPECT_TRUE(list.ends_with("b...; and 1 more")) << list;
}

TEST(ShortListTest, CutsBetweenLetters) {
  EXPECT_EQ(Shortened("caf\u00e9s", 6), "caf\u00e9s");
  EXPECT_EQ(Shortened("caf\u00e9 au lait", 7), "caf...");
  EXPECT_EQ(Shortened("caf\u00e9 au lait", 8), "caf\u00e9...");
}

}  // namespace
}  // namespace mlxcomm::short_list_test
