#include "proto/types/plain_text.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace mlxcomm::plain_text_test
