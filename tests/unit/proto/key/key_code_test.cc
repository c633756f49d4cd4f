#include "proto/key/key_code.h"

#include <gmock/gmock.h>

#include <string>

namespace mlxcomm::key_code_test {
namespace {

using testing::HasSubstr;
using testing::Not;

ClusterKey SomeKey() {
  ClusterKey::Bytes bytes;
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(7 * i + 3);
  return ClusterKey(bytes);
}

std::string WhyNot(const std::string& code) {
  return std::string(ReadKeyCode(code).status().message());
}

TEST(KeyCodeTest, ReadsWhatItWrites) {
  for (const std::string name : {"", "studio", "a:b, with a colon"}) {
    const std::string code = WriteKeyCode({name, SomeKey()});
    const absl::StatusOr<NamedKey> read = ReadKeyCode(code);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->cluster, name);
    EXPECT_TRUE(read->key == SomeKey());
  }
}

// Why: a code is read aloud and typed.
TEST(KeyCodeTest, AcceptsTypedCodes) {
  std::string code = WriteKeyCode({"", SomeKey()});
  EXPECT_EQ(code.size(), 14u * 4 + 13);
  std::string typed = "  ";
  for (const char c : code) {
    if (c == '-') continue;
    typed += c == '0' ? 'o' : c == '1' ? 'l' : static_cast<char>(std::tolower(c));
    typed += ' ';
  }
  const absl::StatusOr<NamedKey> read = ReadKeyCode(typed + "\n");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(read->key == SomeKey());
}

// How: replaces each character of the code, then swaps neighbours.
TEST(KeyCodeTest, DetectsATypingError) {
  const std::string code = WriteKeyCode({"studio", SomeKey()});
  for (std::size_t i = 0; i < code.size(); ++i) {
    if (code[i] == '-' || code[i] == ':') continue;
    std::string wrong = code;
    wrong[i] = code[i] == 'Z' ? 'X' : 'Z';
    EXPECT_THAT(WhyNot(wrong), HasSubstr("checksum does not match")) << i;
    if (i + 1 == code.size() || code[i] == code[i + 1] || code[i + 1] == '-' || i < 7) continue;
    std::string swapped = code;
    std::swap(swapped[i], swapped[i + 1]);
    EXPECT_THAT(WhyNot(swapped), HasSubstr("checksum does not match")) << i;
  }
}

// Why: a mistyped code is nearly the key, and must not get into logs.
TEST(KeyCodeTest, ReportsAnErrorWithoutTheCode) {
  const std::string code = WriteKeyCode({"", SomeKey()});
  EXPECT_THAT(WhyNot(code.substr(0, 20)), HasSubstr("expected 56"));
  EXPECT_THAT(WhyNot(code + "-0000"), HasSubstr("has 60 characters"));
  EXPECT_THAT(WhyNot(""), HasSubstr("has 0 characters"));
  std::string strange = code;
  strange[5] = '!';
  EXPECT_THAT(WhyNot(strange), HasSubstr("at position 5"));
  EXPECT_THAT(WhyNot(strange), Not(HasSubstr(code.substr(10))));
  EXPECT_THAT(WhyNot("\x01:" + code), HasSubstr("not a valid cluster name"));
}

TEST(KeyCodeTest, AcceptsHexadecimalDigits) {
  std::string digits;
  AppendHex(SomeKey(), digits);
  const absl::StatusOr<NamedKey> read = ReadKeyCode(digits + "\n");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(read->key == SomeKey());
}

TEST(KeyCodeTest, ChecksClusterNames) {
  EXPECT_TRUE(IsClusterName("studio 2"));
  EXPECT_FALSE(IsClusterName(""));
  EXPECT_FALSE(IsClusterName(" studio"));
  EXPECT_FALSE(IsClusterName("two\nlines"));
  EXPECT_FALSE(IsClusterName(std::string(64, 'x')));
}

}  // namespace
}  // namespace mlxcomm::key_code_test
