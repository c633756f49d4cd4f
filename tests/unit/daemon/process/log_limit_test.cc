#include "daemon/process/log_limit.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace mlxcomm::log_limit_test {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;
const std::string kTail(100, 'x');

std::uint64_t Written(LogLimit& limit, const std::string& line, int times, std::uint64_t now_ns) {
  std::uint64_t written = 0;
  for (int i = 0; i < times; ++i) written += limit.Take(line, now_ns).writes ? line.size() : 0;
  return written;
}

TEST(LogLimitTest, LimitsBurstAndRate) {
  LogLimit limit;
  const std::string line = "library: " + kTail;
  const std::uint64_t at_once = Written(limit, line, 10'000, kSecond);
  EXPECT_GE(at_once, LogLimit::kBytesAtOnce);
  EXPECT_LT(at_once, LogLimit::kBytesAtOnce + line.size());
  std::uint64_t later = 0;
  for (int second = 2; second < 1002; ++second) {
    later += Written(limit, line, 100, static_cast<std::uint64_t>(second) * kSecond);
  }
  EXPECT_GT(later,
            1000 * LogLimit::kBytesPerSecond / 4);  // The reports of omitted lines take the rest.
  EXPECT_LE(later, 1000 * LogLimit::kBytesPerSecond + line.size());
}

TEST(LogLimitTest, ReportsHowManyLinesWereOmitted) {
  LogLimit limit;
  const std::string line = "library: " + kTail;
  std::uint64_t left_out = 0;
  while (left_out < 5) left_out += limit.Take(line, kSecond).writes ? 0 : 1;
  const LogLimit::Verdict verdict = limit.Take(line, 3 * kSecond);
  EXPECT_TRUE(verdict.writes);
  EXPECT_EQ(verdict.left_out, 5U);
  EXPECT_EQ(verdict.source, "library:");
  EXPECT_EQ(limit.Take(line, 100 * kSecond).left_out, 0U);
}

// Why: a source that floods the log must not crowd out others' lines.
TEST(LogLimitTest, LimitsEachUserAndNodeSeparately) {
  for (const std::string who : {"user ann", "node a-1"}) {
    const std::string other = who.substr(0, 5) + "bob";
    LogLimit limit;
    Written(limit, who + ": job x is formed", 10'000, kSecond);
    Written(limit, who + " sent what it should not", 10'000, kSecond);
    EXPECT_FALSE(limit.Take(who + ": job y is formed", kSecond).writes);
    EXPECT_TRUE(limit.Take(other + ": job x is formed", kSecond).writes);
    EXPECT_TRUE(limit.Take("group x has failed", kSecond).writes);
  }
}

// Why: the second word is not this program's: each could be a new one.
TEST(LogLimitTest, LimitsAllOtherLinesByTheirFirstWord) {
  LogLimit limit;
  std::uint64_t written = 0;
  for (int i = 0; i < 10'000; ++i) {
    written += Written(limit, "group g" + std::to_string(i) + " has failed " + kTail, 1, kSecond);
  }
  EXPECT_LT(written, LogLimit::kBytesAtOnce + 200);
}

TEST(LogLimitTest, SharesOneLimitBeyondItsSources) {
  LogLimit limit;
  std::uint64_t written = 0;
  const auto line = [](int user) { return "user " + std::to_string(user) + ": " + kTail; };
  for (int user = 0; user < 10'000; ++user) written += Written(limit, line(user), 1, kSecond);
  EXPECT_LT(written, LogLimit::kBytesAtOnce + (LogLimit::kSourcesMax + 2) * line(10'000).size());
  // Once they have been quiet for long enough, others get their places.
  Written(limit, line(20'000), 10'000, 1000 * kSecond);
  EXPECT_TRUE(limit.Take(line(20'001), 1000 * kSecond).writes);
}

TEST(LogLimitTest, AcceptsLinesOfAnyForm) {
  LogLimit limit;
  for (const char* line : {"", " ", "user", "user ", "user  x", "node:", "\xff"}) {
    EXPECT_TRUE(limit.Take(line, kSecond).writes) << line;
  }
}

}  // namespace
}  // namespace mlxcomm::log_limit_test
