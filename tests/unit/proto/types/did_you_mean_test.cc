#include "proto/types/did_you_mean.h"

#include <gtest/gtest.h>

namespace mlxcomm::did_you_mean_test {
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

// Why: in other programs "help" and "version" are words.
TEST(DidYouMeanTest, FindsAnOptionWithoutItsDashes) {
  EXPECT_EQ(DidYouMean("json", kNames), "; did you mean \"--json\"?");
  EXPECT_EQ(DidYouMean("wach", kNames), "; did you mean \"--watch\"?");
  EXPECT_EQ(DidYouMean("help", {"bench", "--help"}), "; did you mean \"--help\"?");
}

TEST(DidYouMeanTest, SuggestsNothingIfNoNameIsSimilar) {
  for (const char* const word : {"", "x", "service", "pong!", "-", "--", "--verbose"}) {
    EXPECT_EQ(DidYouMean(word, kNames), "") << word;
  }
  EXPECT_EQ(DidYouMean(std::string(100'000, 's'), kNames), "");
  EXPECT_EQ(DidYouMean("status", {}), "");
}

}  // namespace
}  // namespace mlxcomm::did_you_mean_test
