// Which rail gets a frame, and how many in advance, by its measured rate and backlog.
#include "daemon/link/rail_flight.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "daemon/link/channel.h"

namespace mlxcomm::link::rail_flight_test {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

constexpr std::uint64_t kMs = 1'000'000;

wire::FrameHeader Data(std::uint32_t bytes) {
  wire::FrameHeader header;
  header.type = wire::FrameType::kData;
  header.number = 1;
  header.payload_bytes = bytes;
  return header;
}

// Why: after one loss a rail waited longer for every later frame.
TEST(RailFlightTest, ResetsItsPatienceOnceSomethingIsAcknowledged) {
  RailFlight flight;
  flight.Open(false);
  auto wait_ns = [&flight, now = kMs](std::uint64_t sequence) mutable {
    flight.OnSent(sequence, 1000);
    flight.OnNow(now += kMs);
    return flight.ProbeNs() - now;
  };
  wait_ns(1);
  flight.OnAcknowledged(0, 3 * kMs);
  const std::uint64_t at_first = wait_ns(2);
  flight.OnProbed();
  flight.OnGivenUp(1);
  EXPECT_EQ(wait_ns(3), 2 * at_first);
  flight.OnAcknowledged(2, 5 * kMs);
  EXPECT_EQ(wait_ns(4), at_first);
}

// Why: a frame that a rail holds unwritten cannot move to a faster rail.
// How: acknowledgements at several rates. Beside others, a rail is full with two milliseconds'
// worth; alone, with the maximum.
TEST(RailFlightTest, HoldsLessOnASlowRailIfThereAreOthers) {
  constexpr std::uint64_t kFrame = 128 * 1024;
  const auto held_bytes = [](double rate, bool alone) {
    RailFlight flight;
    flight.Open(true);
    std::uint64_t now = kMs;
    for (std::uint64_t done = 0; done < 500; ++done) {
      while (!flight.IsFull(alone)) flight.OnSent(done, kFrame);
      flight.OnNow(now);
      now += static_cast<std::uint64_t>(static_cast<double>(kFrame) * 1e9 / rate);
      flight.OnWritten();
      flight.OnAcknowledged(done, now);
    }
    return static_cast<double>((flight.unwritten_frames() + 1) * kFrame);
  };
  EXPECT_NEAR(held_bytes(1.25e8, false), 512 * 1024, 128 * 1024);
  EXPECT_NEAR(held_bytes(1e9, false), 2e6, 2e5);
  EXPECT_NEAR(held_bytes(1e10, false), 4 * 1024 * 1024, 256 * 1024);
  EXPECT_NEAR(held_bytes(1.25e8, true), 4 * 1024 * 1024, 256 * 1024);
}

// Why: acknowledgements queue behind the peer's data; by them alone a rail that has delivered
// everything may look as full as one that has delivered nothing.
// How: two rails with the same amount under way; the system reports that only the second's is gone.
TEST(RailFlightTest, ChoosesByWhatTheSystemHoldsIfReported) {
  constexpr std::uint32_t kFrame = 100'000;
  const std::vector<std::byte> bytes(kFrame);
  Channel channel;
  std::vector<std::size_t> rails;
  const auto hand = [&](int frames) {
    for (int i = 0; i < frames; ++i) {
      EXPECT_TRUE(channel.Send(Data(kFrame), bytes.data(), 1).ok());
    }
    rails.clear();
    rail::OutgoingFrame next;
    for (std::size_t rail = 0; channel.NextToSend(next, rail, false);) rails.push_back(rail);
    channel.OnNow(kMs);
  };
  channel.OnRailUp(0, true);
  channel.OnRailUp(1, true);
  hand(8);
  ASSERT_THAT(rails, UnorderedElementsAre(0, 0, 0, 0, 1, 1, 1, 1));
  channel.OnTransmitted(0, 4);
  channel.OnTransmitted(1, 4);
  channel.OnHeld(0, {4 * kFrame, kMs});
  channel.OnHeld(1, {0, kMs});
  hand(4);
  EXPECT_THAT(rails, ElementsAre(1, 1, 1, 1));
}

// Why: a stalled rail reports nothing any more; by its rate it would soon be empty.
TEST(RailFlightTest, DrainsHeldBytesNoLongerThanAcknowledgementsTake) {
  RailFlight flight;
  flight.Open(true);
  std::uint64_t now = kMs;
  const auto carry = [&](std::uint64_t frames, std::uint64_t took_ns) {
    for (std::uint64_t i = 0; i < frames; ++i) {
      const std::uint64_t ordinal = flight.OnSent(i, 100'000);
      flight.OnNow(now);
      flight.OnWritten();
      now += took_ns;
      flight.OnAcknowledged(ordinal, now);
    }
  };
  carry(200, kMs);
  for (int i = 0; i < 20; ++i) flight.OnSent(1000, 100'000);
  flight.OnNow(now);
  for (int i = 0; i < 20; ++i) flight.OnWritten();
  flight.OnHeld({2'000'000, now});
  const double rate = 1e8;
  const std::uint64_t soon = flight.ArrivalNs(100'000, rate, now + flight.meter().round_trip_ns());
  const std::uint64_t later =
      flight.ArrivalNs(100'000, rate, now + flight.meter().round_trip_ns() + kMs / 2);
  EXPECT_LT(soon, flight.ArrivalNs(100'000, rate, now));
  EXPECT_EQ(later, soon);
  EXPECT_GE(flight.ArrivalNs(100'000, rate, now + 1000 * kMs), 900 * kMs) << "the rail has stalled";
}

}  // namespace
}  // namespace mlxcomm::link::rail_flight_test
