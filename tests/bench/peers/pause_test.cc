// All ranks come to the same moment, whatever their clocks read when they get it.
#include "tests/bench/peers/pause.h"

#include <gtest/gtest.h>

namespace mlxcomm::bench {
namespace {

constexpr double kPause = 0.01;
constexpr double kTelling = 0.002;
constexpr double kAround = Pause::kTickSeconds * Pause::kTicks;  // Then ticks repeat.

// Includes moments between which ticks repeat.
constexpr double kNows[] = {0, 1234.567, 7 * kAround - 0.005, 7 * kAround - 0.0125};

TEST(PauseTest, AMomentIsAPauseAwayOnceAllHaveBeenToldOfIt) {
  const Pause pause(kPause);
  for (const double now : kNows) {
    const std::optional<double> moment =
        Pause::MomentOf(pause.NextTick(now, kTelling), now + kTelling);
    ASSERT_TRUE(moment) << now;
    EXPECT_GE(*moment - now, kTelling + kPause - 1e-9);
    EXPECT_LE(*moment - now, kTelling + kPause + Pause::kTickSeconds);
  }
}

TEST(PauseTest, AllComeToTheSameMoment) {
  const Pause pause(kPause);
  for (const double now : kNows) {
    const std::uint32_t tick = pause.NextTick(now, kTelling);
    const std::optional<double> first = Pause::MomentOf(tick, now);
    for (const double later : {1e-6, 0.003, 0.0119}) {
      EXPECT_EQ(Pause::MomentOf(tick, now + later), first) << now << " and " << later;
    }
  }
}

TEST(PauseTest, KnowsOneThatHasPassed) {
  const Pause pause(kPause);
  for (const double now : kNows) {
    const std::uint32_t tick = pause.NextTick(now, kTelling);
    for (const double late : {0.0001, 0.1, kAround / 2, kAround - 2}) {
      EXPECT_FALSE(Pause::MomentOf(tick, now + kTelling + kPause + late)) << now << " and " << late;
    }
  }
}

TEST(PauseTest, EachTickIsAFloat) {
  EXPECT_EQ(static_cast<std::uint32_t>(static_cast<float>(Pause::kTicks - 1)), Pause::kTicks - 1);
}

}  // namespace
}  // namespace mlxcomm::bench
