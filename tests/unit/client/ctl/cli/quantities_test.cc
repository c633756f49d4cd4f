// Figures as people write and read them.
#include "client/ctl/cli/quantities.h"

#include <cstdint>
#include <optional>

#include <gtest/gtest.h>

namespace mlxcomm::ctl::quantities_test {
namespace {

constexpr std::uint64_t kKi = 1024;

TEST(QuantitiesTest, ReadsSizesInPowersOf1024) {
  EXPECT_EQ(ParseBytes("0"), 0u);
  EXPECT_EQ(ParseBytes("512"), 512u);
  EXPECT_EQ(ParseBytes("512B"), 512u);
  EXPECT_EQ(ParseBytes("512K"), 512 * kKi);
  EXPECT_EQ(ParseBytes("64M"), 64 * kKi * kKi);
  EXPECT_EQ(ParseBytes("64MiB"), 64 * kKi * kKi);
  EXPECT_EQ(ParseBytes("1.5G"), 3 * kKi * kKi * kKi / 2);
  EXPECT_EQ(ParseBytes("0.25T"), kKi * kKi * kKi * kKi / 4);
  EXPECT_EQ(ParseBytes("2.000K"), 2 * kKi);
}

// Why: half a byte, or a size that wrapped round, would be taken as intended.
TEST(QuantitiesTest, RefusesAmbiguousSizes) {
  for (const char* const text :
       {"", "M", "-1", "+1", "1.", ".5M", "1.5", "0.3K", "64MB", "64 M", "64m", "1e6", "0x10",
        "1.5.5G", "64M ", "99999999999999999999", "8388608T", "0.0000000001G", "nan"}) {
    EXPECT_EQ(ParseBytes(text), std::nullopt) << text;
  }
  EXPECT_EQ(ParseBytes("4194304T"), std::uint64_t{1} << 62);
}

TEST(QuantitiesTest, ReadsTimesInPowersOf1000) {
  EXPECT_EQ(ParseDuration("30us"), 30'000u);
  EXPECT_EQ(ParseDuration("1.5ms"), 1'500'000u);
  EXPECT_EQ(ParseDuration("2s"), 2'000'000'000u);
  EXPECT_EQ(ParseDuration("10m"), 600'000'000'000u);
  EXPECT_EQ(ParseDuration("10min"), 600'000'000'000u);
  EXPECT_EQ(ParseDuration("1.5h"), 5'400'000'000'000u);
  EXPECT_EQ(ParseDuration("30"), std::nullopt);
  EXPECT_EQ(ParseDuration("0.5ns"), std::nullopt);
}

// Why: the page of mlxcommctl web is tested with the same file.
TEST(QuantitiesTest, ShowsTheSameAsThePage) {
  const auto rate = [](double value) { return HumanRate(value); };
  const auto rate_now = [](double value) { return RateNow(value); };
  const auto bytes = [](double value) { return HumanBytes(value); };
  const auto nanoseconds = [](double value) {
    return HumanNanoseconds(static_cast<std::uint64_t>(value));
  };
  const auto milliseconds = [](double value) {
    return HumanTime(static_cast<std::uint64_t>(value));
  };
#define MLXCOMM_SHOWN(kind, figure, text) EXPECT_EQ(kind(figure), text) << #kind " of " #figure;
#include "tests/unit/client/ctl/cli/shown_quantities.def"
#undef MLXCOMM_SHOWN
}

}  // namespace
}  // namespace mlxcomm::ctl::quantities_test
