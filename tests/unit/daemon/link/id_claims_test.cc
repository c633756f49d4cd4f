// A restarted daemon is accepted, and a second machine with the same node id is not.
#include "daemon/link/id_claims.h"

#include <gtest/gtest.h>

namespace mlxcomm::link::id_claims_test {
namespace {

using Answer = IdClaims::Answer;

constexpr std::uint64_t kA = 11, kB = 12, kC = 13;

TEST(IdClaimsTest, TakesARestartedDaemonIfTheFormerOneHasNoConnection) {
  IdClaims claims;
  claims.OnTaken(kA);
  EXPECT_EQ(claims.Judge(kB, {kA, 0}, "b", 10), Answer::kTaken);
  EXPECT_EQ(claims.Judge(kB, {0, 0}, "b", 11), Answer::kTaken);
  EXPECT_EQ(claims.seen_ns(), 0u);
}

TEST(IdClaimsTest, RefusesADaemonWhileTheOtherIsHeard) {
  IdClaims claims;
  claims.OnTaken(kA);
  EXPECT_EQ(claims.Judge(kB, {kA, 9}, "b", 10), Answer::kWaits);
  EXPECT_EQ(claims.Judge(kB, {kA, 9}, "b", 20), Answer::kWaits);  // Nothing was received since.
  EXPECT_EQ(claims.seen_ns(), 0u);
  EXPECT_EQ(claims.Judge(kB, {kA, 25}, "b", 30), Answer::kRefused);
  EXPECT_EQ(claims.seen_ns(), 30u);
  EXPECT_EQ(claims.address(), "b");
  EXPECT_EQ(claims.Judge(kA, {kA, 25}, "a", 31), Answer::kTaken);  // Another cable.
}

// Why: its connections may have ended unseen, if its machine lost power.
TEST(IdClaimsTest, TakesADaemonThatWaitedUntilTheOtherWasSilent) {
  IdClaims claims;
  claims.OnTaken(kA);
  EXPECT_EQ(claims.Judge(kB, {kA, 9}, "b", 10), Answer::kWaits);
  EXPECT_EQ(claims.Judge(kB, {kA, 0}, "b", 20), Answer::kTaken);
  EXPECT_EQ(claims.seen_ns(), 0u);
}

TEST(IdClaimsTest, RefusesADaemonThatReturnsAfterAnother) {
  IdClaims claims;
  for (const std::uint64_t incarnation : {kA, kB}) claims.OnTaken(incarnation);
  EXPECT_EQ(claims.Judge(kA, {kB, 9}, "a", 10), Answer::kRefused);
  EXPECT_EQ(claims.Judge(kA, {kB, 0}, "a", 11), Answer::kRefused);  // Its cable may come back.
  EXPECT_EQ(claims.Judge(kC, {kB, 0}, "b", 12), Answer::kTaken);    // B was restarted.
}

// No job needs a lost link.
TEST(IdClaimsTest, TakesADaemonThatReturnsToALostLinkAndReportsTheConflict) {
  IdClaims claims;
  for (const std::uint64_t incarnation : {kA, kB}) claims.OnTaken(incarnation);
  EXPECT_EQ(claims.Judge(kA, {0, 0}, "a", 10), Answer::kTaken);
  EXPECT_EQ(claims.seen_ns(), 10u);
  claims.OnTaken(kA);
  EXPECT_EQ(claims.Judge(kB, {kA, 9}, "b", 20), Answer::kRefused);
}

TEST(IdClaimsTest, ReportsAConflictOnceAMinute) {
  IdClaims claims;
  for (const std::uint64_t incarnation : {kA, kB}) claims.OnTaken(incarnation);
  EXPECT_FALSE(claims.ShouldReport(5));
  int reported = 0;
  for (std::uint64_t ms = 10; ms <= 120'000; ms += 10) {
    claims.Judge(kA, {kB, 9}, "a", ms * 1'000'000);
    reported += claims.ShouldReport(ms * 1'000'000);
  }
  EXPECT_EQ(reported, 2);
}

}  // namespace
}  // namespace mlxcomm::link::id_claims_test
