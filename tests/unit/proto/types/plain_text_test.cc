#include "proto/types/plain_text.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace mlxcomm::plain_text_test {
namespace {

TEST(PlainTextTest, LeavesNamesAsTheyAre) {
  EXPECT_EQ(MakePrintable(""), "");
  EXPECT_EQ(MakePrintable("node-0.local"), "node-0.local");
  EXPECT_EQ(MakePrintable("J\xc3\xbcrgens Mac \xe2\x80\x93 \xe6\x9d\xb1 \xf0\x9f\x8d\x8f"),
            "J\xc3\xbcrgens Mac \xe2\x80\x93 \xe6\x9d\xb1 \xf0\x9f\x8d\x8f");
}

// Why: names go to the log and to terminals; a line end or an escape sequence could forge lines.
TEST(PlainTextTest, ReplacesControlCharacters) {
  EXPECT_EQ(MakePrintable("a\nb\x1b[2Jc\x7f"), "a?b?[2Jc?");
  EXPECT_EQ(MakePrintable("\xc2\x9b"), "??");
}

// Why: one invalid byte makes a whole status message unreadable.
TEST(PlainTextTest, ReplacesInvalidUtf8) {
  EXPECT_EQ(MakePrintable("a\xff z"), "a? z");
  EXPECT_EQ(MakePrintable("cut \xe2\x80"), "cut ??");
  EXPECT_EQ(MakePrintable("overlong \xc0\xaf \xe0\x80\xaf"), "overlong ?? ???");
  EXPECT_EQ(MakePrintable("surrogate \xed\xa0\x80"), "surrogate ???");
  EXPECT_EQ(MakePrintable("beyond \xf4\x90\x80\x80"), "beyond ????");
}

// Why: a name for a job, a group or a node is refused if it is not plain text.
TEST(PlainTextTest, IsPlainIfNothingIsReplaced) {
  for (const char* const plain : {"", "train/rows 1", "J\xc3\xbcrgens Mac", "\xc2\xa0"}) {
    EXPECT_TRUE(IsPlainText(plain)) << plain;
    EXPECT_EQ(MakePrintable(plain), plain);
  }
  for (const char* const other : {"a\n", "\x7f", "\xc2\x9b[2J", "\xff", "cut \xe2\x80"}) {
    EXPECT_FALSE(IsPlainText(other)) << other;
  }
}

TEST(Utf8Test, KeepsValidText) {
  EXPECT_EQ(Utf8Prefix("", 10), "");
  EXPECT_EQ(Utf8Prefix("train.py", 10), "train.py");
  EXPECT_EQ(Utf8Prefix("caf\u00e9", 5), "caf\u00e9");
  EXPECT_EQ(Utf8Prefix("\u20ac\U0001F600", 7), "\u20ac\U0001F600");
}

TEST(Utf8Test, TruncatesBetweenCharactersOnly) {
  EXPECT_EQ(Utf8Prefix("abc", 2), "ab");
  EXPECT_EQ(Utf8Prefix("caf\u00e9", 4), "caf");
  EXPECT_EQ(Utf8Prefix("\U0001F600", 3), "");
  EXPECT_EQ(Utf8Prefix("a", 0), "");
}

// Why: protobuf rejects these, and one of them in a name would make a whole status reply
// unreadable.
TEST(Utf8Test, EndsBeforeAnInvalidCharacter) {
  for (const std::string bad :
       {"\x80", "\xc3", "\xc0\x80", "\xc1\xbf", "\xe0\x80\x80", "\xe2\x82", "\xed\xa0\x80",
        "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xc3\x28"}) {
    EXPECT_EQ(Utf8Prefix("ok" + bad + "x", 100), "ok") << testing::PrintToString(bad);
  }
}

// Why: a message with many calls ended in the middle of one, and its remedy was lost.
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
}  // namespace mlxcomm::plain_text_test
