// The meter finds a rail's rate from acknowledgements, and lowers it only while the rail is busy.
#include "daemon/link/rail_meter.h"

#include <gtest/gtest.h>

#include <cmath>

namespace mlxcomm::link::rail_meter_test {
namespace {

constexpr std::uint64_t kChunk = 256 * 1024;
constexpr std::uint64_t kMs = 1'000'000;

class RailMeterTest : public testing::Test {
 protected:
  // For `ns`, acknowledges `bunch` chunks at a time, at this rate, with `left` bytes under way.
  void Busy(double rate, std::uint64_t ns, int bunch = 1, std::uint64_t left = 16 * kChunk) {
    const std::uint64_t end = now + ns;
    const auto gap = static_cast<std::uint64_t>(bunch * static_cast<double>(kChunk) * 1e9 / rate);
    const auto took = 20'000 + static_cast<std::uint64_t>(static_cast<double>(left) * 1e9 / rate);
    while (now < end) {
      now += gap;
      for (int i = 0; i < bunch; ++i) {
        meter.OnDelivered({kChunk, left, left, now - took}, now);
      }
    }
  }
  RailMeter meter;
  std::uint64_t now = 1'000 * kMs;
};

TEST_F(RailMeterTest, KnowsNothingAtFirst) {
  EXPECT_FALSE(meter.measured());
  EXPECT_EQ(meter.latency_ns(), 0u);
}

TEST_F(RailMeterTest, MeasuresFromAcknowledgements) {
  Busy(1e9, 100 * kMs);
  EXPECT_NEAR(meter.bytes_per_second(), 1e9, 2e7);
}

TEST_F(RailMeterTest, CountsTheBytesOfFullSpans) {
  Busy(1e9, 100 * kMs);
  const std::uint64_t busy = meter.busy_bytes();
  EXPECT_NEAR(static_cast<double>(busy), 1e8, 1e7);
  for (int i = 0; i < 1000; ++i) {  // Alone each time.
    meter.OnSent(0);
    now += kMs;
    meter.OnDelivered({kChunk, 0, 0, now - kMs / 2}, now);
  }
  EXPECT_LE(meter.busy_bytes(), busy + 32 * kChunk);
}

// Why: one acknowledgement covers a MiB or sixteen frames.
TEST_F(RailMeterTest, DoesNotMistakeBunchesForSpeed) {
  Busy(1e9, 200 * kMs, /*bunch=*/4);
  EXPECT_NEAR(meter.bytes_per_second(), 1e9, 1e8);
  EXPECT_LT(meter.bytes_per_second_best(), 1.1e9);
}

// Why: after a hole TCP delivers several frames at once, and more soon after; on a slow cable that
// is many times its rate for longer than a minimum span. How: 25 MB/s, in four frames at once and
// four more 6 ms later, then nothing for a while.
TEST_F(RailMeterTest, DoesNotMistakeBunchesInSuccessionForSpeed) {
  constexpr double kRate = 25e6;
  meter.OnSent(0);
  meter.OnDelivered({1000, 0, 0, now - 20'000}, now);
  const auto period = static_cast<std::uint64_t>(8 * static_cast<double>(kChunk) * 1e9 / kRate);
  for (int i = 0; i < 20; ++i) {
    for (const std::uint64_t gap : {6 * kMs, period - 6 * kMs}) {
      now += gap;
      for (int n = 0; n < 4; ++n) {
        meter.OnDelivered({kChunk, 8 * kChunk, 8 * kChunk, now - period}, now);
      }
    }
  }
  EXPECT_NEAR(meter.bytes_per_second(), kRate, 0.1 * kRate);
  EXPECT_LT(meter.bytes_per_second_best(), 1.1 * kRate);
}

// Why: a token bucket, or a buffer on the path, accepts a small frame at once.
TEST_F(RailMeterTest, DoesNotRaiseTheRateByASmallFrame) {
  Busy(1e8, 100 * kMs);
  const double before = meter.bytes_per_second();
  for (int i = 0; i < 100; ++i) {
    now += 5 * kMs;
    meter.OnSent(0);
    meter.OnDelivered({16 * 1024, 0, 0, now - 20'000}, now);
  }
  EXPECT_EQ(meter.bytes_per_second(), before);
}

TEST_F(RailMeterTest, FollowsTheRateDownAndUpWithinSomeSpans) {
  Busy(1e9, 100 * kMs);
  Busy(1e8, 200 * kMs);
  EXPECT_NEAR(meter.bytes_per_second(), 1e8, 1e7);
  Busy(4e9, 100 * kMs);
  EXPECT_NEAR(meter.bytes_per_second(), 4e9, 4e8);
  EXPECT_GE(meter.bytes_per_second_best(), 3.6e9);
}

// Why: little traffic is not slowness.
TEST_F(RailMeterTest, KeepsTheRateWhileThereIsLittleTraffic) {
  Busy(1e9, 100 * kMs);
  const double before = meter.bytes_per_second();
  for (int i = 0; i < 1000; ++i) {
    now += 5 * kMs;
    meter.OnSent(0);
    meter.OnDelivered({100, 0, 0, now - kMs}, now);
  }
  EXPECT_EQ(meter.bytes_per_second(), before);
}

// Why: a rail that seems slow gets little, and never a span to be measured in.
TEST_F(RailMeterTest, RaisesTheRateBySingleFrames) {
  Busy(1e8, 100 * kMs);
  for (int i = 0; i < 10; ++i) {
    now += 5 * kMs;
    meter.OnSent(0);
    meter.OnDelivered({kChunk, 0, 0, now - kMs / 4}, now);
  }
  EXPECT_NEAR(meter.bytes_per_second(), 1.05e9, 5e7);
}

// Why: a buffer on the path takes the first frame of each step at once, and is full for the rest.
TEST_F(RailMeterTest, PrefersSpansToTheFirstFrameOfEach) {
  for (int step = 0; step < 20; ++step) {
    now += 5 * kMs;
    meter.OnSent(0);
    meter.OnDelivered({kChunk, 0, 16 * kChunk, now - kMs / 4}, now);
    Busy(1e8, 50 * kMs);
    EXPECT_NEAR(meter.bytes_per_second(), 1e8, 5e6);
  }
}

// Why: a lost segment stops a connection for 200 ms at any rate; a rail that seemed slow because of
// it would get nothing for seconds.
TEST_F(RailMeterTest, RecoversQuicklyFromOnePause) {
  Busy(1e9, 100 * kMs);
  now += 200 * kMs;
  Busy(1e9, 30 * kMs);
  EXPECT_GE(meter.bytes_per_second(), 3e8);
  // It is idle, because others look better; then it is tried again.
  now += 1'000 * kMs;
  for (int i = 0; i < 3; ++i) {
    meter.OnSent(0);
    now += kMs / 4;
    meter.OnDelivered({kChunk, 0, 0, now - kMs / 4}, now);
  }
  EXPECT_GE(meter.bytes_per_second(), 9e8);
}

// Why: because of its first frame, a rail with a long latency would never get a frame again.
TEST_F(RailMeterTest, SubtractsWritingFromTheFirstLatencyOnceTheRateIsKnown) {
  meter.OnSent(0);
  const auto writing = static_cast<std::uint64_t>(static_cast<double>(kChunk) * 1e9 / 1e8);
  meter.OnDelivered({kChunk, 0, 16 * kChunk, now - writing - 30'000}, now);
  EXPECT_NEAR(static_cast<double>(meter.latency_ns()), static_cast<double>(writing), 40'000);
  Busy(1e8, 100 * kMs);
  EXPECT_NEAR(static_cast<double>(meter.latency_ns()), 30'000, 10'000);
}

// Why: acknowledgements queue behind the peer's data; heartbeats do not.
TEST_F(RailMeterTest, BoundsTheLatencyByHeartbeats) {
  Busy(1e9, 100 * kMs);
  meter.OnSent(0);
  meter.OnDelivered({1000, 0, 0, now - 20 * kMs}, now);
  EXPECT_GT(meter.latency_ns(), 1 * kMs);
  meter.OnRoundTrip(0);  // None has come back.
  EXPECT_GT(meter.latency_ns(), 1 * kMs);
  meter.OnRoundTrip(90'000);
  EXPECT_EQ(meter.latency_ns(), 180'000u);
}

TEST_F(RailMeterTest, MeasuresTheLatencyOfFramesThatFindTheRailEmpty) {
  Busy(1e9, 100 * kMs);
  now += 10 * kMs;
  meter.OnSent(0);
  meter.OnDelivered({1000, 0, 0, now - 51'000}, now);
  EXPECT_NEAR(static_cast<double>(meter.latency_ns()), 50'000, 100);
  meter.OnDelivered({1000, 0, 0, now - 80'000}, now);
  EXPECT_NEAR(static_cast<double>(meter.latency_ns()), 50'000, 100);
}

// Why: a path may get longer.
TEST_F(RailMeterTest, ForgetsALatencyThatIsNoLongerReached) {
  const auto measure = [this](std::uint64_t latency) {
    now += kMs;
    meter.OnSent(0);
    meter.OnDelivered({1, 0, 0, now - latency}, now);
  };
  measure(10'000);
  for (int i = 0; i < 12'000; ++i) measure(40'000);
  EXPECT_EQ(meter.latency_ns(), 40'000u);
}

}  // namespace
}  // namespace mlxcomm::link::rail_meter_test
