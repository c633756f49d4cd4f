// Which rail a frame takes, in virtual time: several rails together carry the sum of what each
// carries alone, even if their rates differ or change.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/daemon/link/two_sides.h"

namespace mlxcomm::link::rail_schedule_test {
namespace {

constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint32_t kChunk = 256 * 1024;
constexpr std::size_t kStep = 64 * 1024 * 1024;

class RailScheduleTest : public testing::Test {
 protected:
  // One step of an operation from a to b; returns bytes per second.
  static double Carry(TwoSides& two) {
    static const std::vector<std::byte> source(kStep, std::byte{1});
    std::vector<std::byte> target(kStep);
    const std::uint64_t number = two.cookie + 1;
    const std::uint64_t before = two.now;
    const std::uint64_t had = two.b.data_bytes;
    two.Post(1, number, target);
    two.SendGrant(1, number);
    two.SendData(0, number, source, kChunk);
    EXPECT_TRUE(two.RunUntil(Link::kNever, [&] { return two.b.data_bytes == had + kStep; }));
    const double seconds = static_cast<double>(two.now - before) / 1e9;
    two.Run();
    return static_cast<double>(kStep) / seconds;
  }
  // Over all rails, after one step in which they are measured.
  static double Rate(const std::vector<Cable>& cables) {
    TwoSides two;
    for (std::size_t i = 0; i < cables.size(); ++i) two.Join(absl::StrCat("rail ", i), cables[i]);
    Carry(two);
    return Carry(two);
  }
};

// The end of a step waits for the latency, however many rails there are, so that must be a small
// part of the whole.
TEST_F(RailScheduleTest, TwoEqualRailsCarryAlmostTwice) {
  for (const double rate : {1e8, 1.25e9, 5e9}) {
    for (const std::uint64_t latency : {5'000u, 50'000u, 200'000u}) {
      const Cable cable = Cable::Of(rate, latency);
      const double one = Rate({cable});
      const double two = Rate({cable, cable});
      std::printf("%.0f MB/s, %lu us: two rails carry %.3f times one\n", rate / 1e6,
                  static_cast<unsigned long>(latency / 1000), two / one);
      EXPECT_GE(two / one, 1.9) << rate << " B/s, " << latency << " ns";
    }
  }
}

TEST_F(RailScheduleTest, AFastAndASlowRailCarryAlmostTheirSum) {
  for (const double slow : {1.25e8, 1.25e9}) {
    const Cable cables[] = {Cable::Of(slow, 50'000), Cable::Of(4 * slow, 20'000)};
    const double sum = Rate({cables[0]}) + Rate({cables[1]});
    const double both = Rate({cables[0], cables[1]});
    std::printf("%.0f + %.0f MB/s: %.3f of the sum\n", slow / 1e6, 4 * slow / 1e6, both / sum);
    EXPECT_GE(both / sum, 0.95);
  }
}

TEST_F(RailScheduleTest, EightRailsOfAllKindsCarryAlmostTheirSum) {
  std::vector<Cable> cables;
  double sum = 0;
  for (int i = 1; i <= 8; ++i) {
    cables.push_back(Cable::Of(2e8 * i, 10'000 * static_cast<std::uint64_t>(i)));
    sum += 2e8 * i;
  }
  EXPECT_GE(Rate(cables) / sum, 0.9);
}

// Why: a cable may train down, or be shared for a while.
// How: one of two equal rails drops to a tenth, and later rises to four times; after half a second
// of traffic both together must carry their full rate again.
TEST_F(RailScheduleTest, FollowsARailWhoseRateChanges) {
  TwoSides two;
  auto& first = two.Join("first", Cable::Of(1e9, 20'000));
  two.Join("second", Cable::Of(1e9, 20'000));
  Carry(two);
  EXPECT_GE(Carry(two), 0.95 * 2e9);
  for (const double rate : {1e8, 4e9, 1e9}) {
    first.cable->lanes[0].bytes_per_second = rate;
    for (const std::uint64_t begin = two.now; two.now < begin + 500 * kMs;) Carry(two);
    const double carried = Carry(two) / (1e9 + rate);
    std::printf("first rail at %.0f MB/s: %.3f of the sum\n", rate / 1e6, carried);
    EXPECT_GE(carried, 0.93);
    EXPECT_NEAR(two.a.link.channel().flight(0).meter().bytes_per_second(), rate, 0.15 * rate);
  }
}

// Why: a rail may have started on a busy machine, and a rail that never gets a frame cannot show
// that it is good.
// How: one of two equal rails has a latency of 100 ms while it is alone, then the other's. Steps
// continue, and after some seconds both carry their share.
TEST_F(RailScheduleTest, TriesARailAgainThatLookedSlowOnce) {
  TwoSides two;
  auto& first = two.Join("first", Cable::Of(1e8, 100 * kMs));
  Carry(two);
  first.cable->lanes[0].latency_ns = 20'000;
  first.cable->lanes[1].latency_ns = 20'000;
  two.Join("second", Cable::Of(1e8, 20'000));
  for (const std::uint64_t begin = two.now; two.now < begin + 8'000 * kMs;) Carry(two);
  EXPECT_GE(Carry(two), 0.95 * 2e8);
}

// Why: acknowledgements queue behind the peer's data, so both sides wait for the other's queue.
// That must not keep rails empty.
// How: slow cables, and a step in each direction at once, twice: in the first they are measured;
// after it a tick reports a heartbeat's round trip.
TEST_F(RailScheduleTest, TwoRailsCarryAlmostTwiceInBothDirectionsAtOnce) {
  const auto both_ways = [](std::size_t rails) {
    static const std::vector<std::byte> source(kStep, std::byte{1});
    std::vector<std::byte> targets[2] = {std::vector<std::byte>(kStep),
                                         std::vector<std::byte>(kStep)};
    TwoSides two;
    for (std::size_t i = 0; i < rails; ++i) {
      two.Join(absl::StrCat("rail ", i), Cable::Of(2.5e7, 100'000));
    }
    std::uint64_t before = 0;
    for (std::uint64_t step = 1; step <= 2; ++step) {
      before = two.now;
      for (int side = 0; side < 2; ++side) {
        const std::uint64_t number = 2 * step + static_cast<std::uint64_t>(side);
        two.Post(side, number, targets[side]);
        two.SendGrant(side, number);
        two.SendData(1 - side, number, source, kChunk);
      }
      EXPECT_TRUE(two.RunUntil(Link::kNever, [&] {
        return two.a.data_bytes == step * kStep && two.b.data_bytes == step * kStep;
      }));
      if (step == 2) break;
      two.Run();
      two.a.link.OnTick(two.now);
      two.b.link.OnTick(two.now);
    }
    return 1e9 * static_cast<double>(kStep) / static_cast<double>(two.now - before);
  };
  const double one = both_ways(1);
  const double two = both_ways(2);
  std::printf("both ways at once: two rails carry %.3f times one\n", two / one);
  EXPECT_GE(one, 0.95 * 2.5e7);
  EXPECT_GE(two / one, 1.9);
}

TEST_F(RailScheduleTest, UnreliableRailsCarryAlmostTheirRate) {
  const double rate = 1e9;
  Cable cable = Cable::Of(rate, 20'000);
  cable.reliable = false;
  EXPECT_GE(Rate({cable}), 0.95 * rate);
  EXPECT_GE(Rate({cable, cable}), 1.9 * rate);
}

// Why: small frames need the shortest path, not the widest.
TEST_F(RailScheduleTest, SendsSmallFramesOnTheRailWithTheLowestLatency) {
  TwoSides two;
  auto& wide = two.Join("wide", Cable::Of(5e9, 500'000));
  auto& near = two.Join("near", Cable::Of(1e9, 10'000));
  Carry(two);
  const std::uint64_t before = two.now;
  const std::size_t on_wide = wide.cable->lanes[0].carried_bytes;
  for (int i = 0; i < 100; ++i) {
    two.SendControl(0, "a few bytes");
    two.Run();
  }
  EXPECT_EQ(wide.cable->lanes[0].carried_bytes, on_wide);
  EXPECT_GT(near.cable->lanes[0].carried_bytes, 100u);
  EXPECT_LT(two.now - before, 100 * 50'000u);
}

}  // namespace
}  // namespace mlxcomm::link::rail_schedule_test
