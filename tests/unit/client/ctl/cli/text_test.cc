#include "client/ctl/cli/text.h"

#include <gtest/gtest.h>

namespace mlxcomm::ctl::text_test {
namespace {

const std::vector<std::string> kNames = {"status", "topology", "doctor",
                                         "ping",   "--json",   "--watch"};

TEST(DidYouMeanTest, FindsTheNearestName) {
  const std::string status = "; did you mean \"status\"?";
  for (const char* const word : {"statu", "satus", "sttaus", "statuss", "stat", "st", "statsu"}) {
    EXPECT_EQ(DidYouMean(word, kNames), status) << word;
  }
  EXPECT_EQ(DidYouMean("docter", kNames), "; did you mean \"doctor\"?");
  EXPECT_EQ(DidYouMean("--jsn", kNames), "; did you mean \"--json\"?");
}

// Why: other programs have "help" and "version" as words.
TEST(DidYouMeanTest, FindsAnOptionWithoutItsDashes) {
  EXPECT_EQ(DidYouMean("json", kNames), "; did you mean \"--json\"?");
  EXPECT_EQ(DidYouMean("wach", kNames), "; did you mean \"--watch\"?");
  EXPECT_EQ(DidYouMean("help", {"bench", "--help"}), "; did you mean \"--help\"?");
}

TEST(DidYouMeanTest, NamesTheNearestBeforeAll) {
  EXPECT_EQ(ExpectedOneOf("rign", "ring, tree"),
            "; did you mean \"ring\"? Expected one of ring, tree");
  EXPECT_EQ(ExpectedOneOf("star", "ring, tree"), ": expected one of ring, tree");
}

TEST(DidYouMeanTest, SaysNothingWhereNoneIsNear) {
  for (const char* const word : {"", "x", "service", "pong!", "-", "--", "--verbose"}) {
    EXPECT_EQ(DidYouMean(word, kNames), "") << word;
  }
  EXPECT_EQ(DidYouMean(std::string(100'000, 's'), kNames), "");
  EXPECT_EQ(DidYouMean("status", {}), "");
}

TEST(NameOrderTest, TakesNumbersAsNumbers) {
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
