#include "proto/types/plain_text.h"

#include <gtest/gtest.h>

#include <string>

namespace mlxcomm::utf8_test {
namespace {

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

}  // namespace
}  // namespace mlxcomm::utf8_test
