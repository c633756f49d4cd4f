// The sending half: each frame is sent until it is acknowledged, whatever rails lose and whenever
// they end, and each payload is released exactly once.
#include "daemon/link/channel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

namespace mlxcomm::link::channel_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::uint64_t kMs = 1'000'000;

wire::FrameHeader Header(wire::FrameType type, std::uint64_t number, std::uint32_t bytes) {
  wire::FrameHeader header;
  header.type = type;
  header.number = number;
  header.payload_bytes = bytes;
  return header;
}
wire::FrameHeader Data(std::uint64_t number, std::uint32_t bytes = 100'000) {
  return Header(wire::FrameType::kData, number, bytes);
}

class ChannelTest : public testing::Test {
 protected:
  void Send(std::uint64_t number, std::uint64_t cookie) {
    ASSERT_TRUE(channel.Send(Data(number), payload.data(), cookie).ok());
  }
  // The frames sent now, as (rail, sequence).
  std::vector<std::pair<std::size_t, std::uint64_t>> SendWaiting(bool reliable_control = false) {
    std::vector<std::pair<std::size_t, std::uint64_t>> sent;
    std::size_t rail = 0;
    while (channel.NextToSend(frame, rail, reliable_control)) {
      sent.emplace_back(rail, frame.header.sequence);
    }
    channel.OnNow(now);
    return sent;
  }

  Channel channel;
  rail::OutgoingFrame frame;  // The last one sent.
  std::vector<std::byte> payload = std::vector<std::byte>(wire::kChunkBytesMax);
  std::uint64_t now = kMs;
};

TEST_F(ChannelTest, ReleasesFramesThatArrivedBeyondAGap) {
  channel.OnRailUp(0, true);
  for (std::uint64_t i = 1; i <= 3; ++i) Send(i, 10 + i);
  SendWaiting();
  channel.OnTransmitted(0, 3);
  EXPECT_TRUE(channel.OnArrived(3));
  EXPECT_TRUE(channel.OnArrived(3));
  EXPECT_THAT(channel.released(), ElementsAre(13));
  EXPECT_TRUE(channel.OnAcknowledged(3));
  EXPECT_THAT(channel.released(), ElementsAre(13, 11, 12));
  EXPECT_TRUE(
      channel.OnAcknowledged(1));  // An older acknowledgement arrives late, on another rail.
  EXPECT_EQ(channel.queued(), 0u);
}

TEST_F(ChannelTest, RefusesAcknowledgementOfUnsentFrames) {
  Send(1, 11);
  EXPECT_FALSE(channel.OnAcknowledged(1));
  EXPECT_FALSE(channel.OnArrived(1));
  EXPECT_FALSE(channel.OnAcknowledged(99));
  EXPECT_FALSE(channel.OnArrived(99));
}

// Why: a hostile peer may acknowledge a frame that a rail is still reading. An honest peer's
// acknowledgement may arrive on another rail before this one has reported the write.
TEST_F(ChannelTest, ReleasesNothingThatARailMayStillRead) {
  channel.OnRailUp(0, true);
  Send(1, 11);
  SendWaiting();
  EXPECT_TRUE(channel.OnAcknowledged(1));
  EXPECT_THAT(channel.released(), IsEmpty());
  channel.OnTransmitted(0, 1);
  EXPECT_THAT(channel.released(), ElementsAre(11));
  EXPECT_EQ(channel.queued(), 0u);
}

// Why: a failed operation's buffers must be released although nothing acknowledges them.
TEST_F(ChannelTest, CancelReleasesAtOnceExceptFramesThatARailHolds) {
  channel.OnRailUp(0, true);
  Send(1, 11);
  SendWaiting();
  Send(1, 12);
  channel.Cancel(KeyOf(Data(1)));
  EXPECT_THAT(channel.released(), ElementsAre(12));
  channel.OnTransmitted(0, 1);
  EXPECT_THAT(channel.released(), ElementsAre(12, 11));
  EXPECT_THAT(SendWaiting(), ElementsAre(std::pair(0, 2)));
  EXPECT_EQ(frame.header.type, wire::FrameType::kCancelled);
}

TEST_F(ChannelTest, LimitsWhatARailHoldsUnwritten) {
  channel.OnRailUp(0, true);
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(channel.Send(Data(1, wire::kChunkBytesMax), payload.data(), 1).ok());
  }
  EXPECT_EQ(SendWaiting().size(), 4u);
  channel.OnTransmitted(0, 1);
  EXPECT_EQ(SendWaiting().size(), 1u);
}

// Why: nothing else limits the sender on an unreliable rail.
TEST_F(ChannelTest, LimitsWhatAnUnreliableRailHasUnderWay) {
  channel.OnRailUp(0, false);
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(channel.Send(Data(1, wire::kChunkBytesMax), payload.data(), 1).ok());
  }
  EXPECT_EQ(SendWaiting().size(), 4u);
  channel.OnTransmitted(0, 4);
  EXPECT_THAT(SendWaiting(), IsEmpty());
  ASSERT_TRUE(channel.OnAcknowledged(1));
  EXPECT_EQ(SendWaiting().size(), 1u);
}

TEST_F(ChannelTest, RunsAtMostAWindowAhead) {
  channel.OnRailUp(0, true);
  for (std::uint64_t i = 0; i < 2 * wire::kWindow; ++i) {
    ASSERT_TRUE(channel.Send(Header(wire::FrameType::kGrant, i, 0), nullptr, 0).ok());
  }
  std::size_t sent = 0;
  for (std::size_t count = SendWaiting().size(); count > 0; count = SendWaiting().size()) {
    sent += count;
    channel.OnTransmitted(0, count);
  }
  EXPECT_EQ(sent, wire::kWindow);
  EXPECT_TRUE(channel.OnArrived(5));
  EXPECT_THAT(SendWaiting(), IsEmpty());
  EXPECT_TRUE(channel.OnAcknowledged(1));
  EXPECT_EQ(SendWaiting().size(), 1u);
}

// Why: the peer keeps copied payload until the frames before it have arrived.
TEST_F(ChannelTest, LimitsWhatThePeerMayHaveToKeep) {
  channel.OnRailUp(0, true);
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(
        channel
            .Send(Header(wire::FrameType::kControl, 1, wire::kControlBytesMax), payload.data(), 0)
            .ok());
  }
  std::size_t sent = 0;
  for (std::size_t count = SendWaiting().size(); count > 0; count = SendWaiting().size()) {
    sent += count;
    channel.OnTransmitted(0, count);
  }
  EXPECT_EQ(sent, wire::kEarlyBytesMax / wire::kControlBytesMax);
  EXPECT_TRUE(channel.OnAcknowledged(2));
  EXPECT_EQ(SendWaiting().size(), 2u);
}

TEST_F(ChannelTest, RefusesMoreThanItsLimits) {
  Channel small(Channel::Limits{2, 1000});
  const auto send = [&](wire::FrameType type, std::uint32_t bytes) {
    return small.Send(Header(type, 1, bytes), payload.data(), 0);
  };
  EXPECT_TRUE(send(wire::FrameType::kEager, 600).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(send(wire::FrameType::kEager, 600)));
  EXPECT_TRUE(send(wire::FrameType::kData, 600).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(send(wire::FrameType::kGrant, 0)));
}

TEST_F(ChannelTest, ResendsFramesOfALostRailOnAnother) {
  channel.OnRailUp(0, true);
  Send(1, 11);
  Send(2, 12);
  Send(3, 13);
  SendWaiting();
  channel.OnTransmitted(0, 2);
  EXPECT_TRUE(channel.OnArrived(2));
  channel.OnRailUp(1, true);
  channel.OnRailDown(0);
  EXPECT_THAT(SendWaiting(), ElementsAre(std::pair(1, 1), std::pair(1, 3)));
  EXPECT_EQ(channel.resent(), 2u);
  // Its first copy has arrived.
  EXPECT_TRUE(channel.OnAcknowledged(3));
  EXPECT_THAT(channel.released(), ElementsAre(12));
  channel.OnTransmitted(1, 2);
  EXPECT_THAT(channel.released(), ElementsAre(12, 11, 13));
}

TEST_F(ChannelTest, TreatsFramesOvertakenOnAnUnreliableRailAsLost) {
  for (const bool reliable : {false, true}) {
    Channel fresh;
    fresh.OnRailUp(0, reliable);
    std::size_t rail = 0;
    for (std::uint64_t i = 1; i <= 3; ++i) {
      ASSERT_TRUE(fresh.Send(Data(i), payload.data(), i).ok());
      ASSERT_TRUE(fresh.NextToSend(frame, rail, false));
    }
    fresh.OnTransmitted(0, 3);
    ASSERT_TRUE(fresh.OnArrived(2));
    fresh.FindLost();
    EXPECT_EQ(fresh.NextToSend(frame, rail, false), !reliable);
    if (!reliable) {
      EXPECT_EQ(frame.header.sequence, 1u);
    }
    EXPECT_FALSE(fresh.NextToSend(frame, rail, false));
  }
}

// Why: no later frame reveals the loss of the last one.
TEST_F(ChannelTest, ProbesForTheLastFrameWithGrowingPatience) {
  channel.OnRailUp(0, false);
  Send(1, 11);
  SendWaiting();
  channel.OnTransmitted(0, 1);
  std::uint64_t waited = 0;
  for (int probe = 0; probe < 3; ++probe) {
    const std::uint64_t due = channel.deadline_ns();
    ASSERT_NE(due, Channel::kNever);
    ASSERT_GT(due - now, waited);
    waited = due - now;
    now = due - 1;
    channel.OnNow(now);
    EXPECT_THAT(SendWaiting(), IsEmpty());
    now = due;
    channel.OnNow(now);
    EXPECT_THAT(SendWaiting(), ElementsAre(std::pair(0, 1)));
    channel.OnTransmitted(0, 1);
  }
  EXPECT_TRUE(channel.OnAcknowledged(1));
  channel.OnNow(now);
  EXPECT_EQ(channel.deadline_ns(), Channel::kNever);
  EXPECT_THAT(channel.released(), ElementsAre(11));
}

// Why: a rail whose other end does not exist yet may lose everything. Resent frames take a working
// rail, and their acknowledgements say nothing about the rest. Each was given up by its own probe,
// the seventh after 6 s. All later frames waited at the peer, answers to circuits included, and
// nodes behind the two were lost.
// How: frames are seldom sent in the same nanosecond.
TEST_F(ChannelTest, ResendsAllThatOneRailHasLostAtOnce) {
  channel.OnRailUp(0, false);
  for (std::uint64_t i = 1; i <= 10; ++i) {
    Send(i, 10 + i);
    SendWaiting();
    now += 1000;
  }
  channel.OnTransmitted(0, 10);
  channel.OnRailUp(1, false);
  const std::uint64_t first_due = channel.deadline_ns();
  std::size_t sent_again = 0;
  while (channel.deadline_ns() < first_due + kMs) {
    now = channel.deadline_ns();
    channel.OnNow(now);
    for (const auto& [rail, sequence] : SendWaiting()) {
      ++sent_again;
      channel.OnTransmitted(rail, 1);
      EXPECT_TRUE(channel.OnArrived(sequence));
    }
  }
  EXPECT_EQ(sent_again, 10u);
}

TEST_F(ChannelTest, ResendsWhatThePeerRequests) {
  channel.OnRailUp(0, true);
  Send(1, 11);
  SendWaiting();
  channel.OnTransmitted(0, 1);
  channel.OnWanted(1);
  channel.OnWanted(1);
  EXPECT_THAT(SendWaiting(), ElementsAre(std::pair(0, 1)));
  channel.OnTransmitted(0, 1);
  EXPECT_TRUE(channel.OnAcknowledged(1));
  channel.OnWanted(1);  // Requested before it arrived.
  channel.OnWanted(77);
  EXPECT_THAT(SendWaiting(), IsEmpty());
  EXPECT_THAT(channel.released(), ElementsAre(11));
}

// Why: a control frame may depend on frames received before it.
TEST_F(ChannelTest, KeepsControlFramesOffUnreliableRailsWhileThereAreGaps) {
  channel.OnRailUp(0, false);
  channel.OnRailUp(1, true);
  ASSERT_TRUE(channel.Send(Header(wire::FrameType::kControl, 1, 10), payload.data(), 0).ok());
  EXPECT_THAT(SendWaiting(/*reliable_control=*/true), ElementsAre(std::pair(1, 1)));
}

// Why: if control frames waited although all rails are unreliable and both ends have gaps, neither
// would resend what fills the other's gap, and the link would hang.
TEST_F(ChannelTest, SendsControlFramesIfAllRailsAreUnreliable) {
  channel.OnRailUp(0, false);
  channel.OnRailUp(1, false);
  const wire::FrameHeader control = Header(wire::FrameType::kControl, 1, 8);
  ASSERT_TRUE(channel.Send(control, payload.data(), 0).ok());
  EXPECT_EQ(SendWaiting(/*reliable_control=*/true).size(), 1u);
}

// Why: a rail that stops unnoticed looked fast a moment ago; frames would wait for it until
// heartbeats are missed.
// How: a fast rail is filled and then goes silent; as time passes, waiting frames take the slow
// one.
TEST_F(ChannelTest, UsesAnotherRailWhenTheBestOneStalls) {
  channel.OnRailUp(0, true);
  std::uint64_t sequence = 0;
  for (int i = 0; i < 40; ++i) {
    for (int k = 0; k < 4; ++k) Send(1, 1);
    SendWaiting();
    channel.OnTransmitted(0, 4);
    now += kMs;
    channel.OnNow(now);
    sequence += 3;  // One stays under way, so the rail is busy.
    ASSERT_TRUE(channel.OnAcknowledged(sequence));
    SendWaiting();
  }
  EXPECT_GT(channel.flight(0).meter().bytes_per_second(), 2e8);
  channel.OnRailUp(1, true);
  for (int i = 0; i < 200; ++i) Send(1, 1);
  std::size_t on_second = 0;
  for (const auto& [rail, number] : SendWaiting()) on_second += rail;
  const std::uint64_t before = now;
  while (on_second == 0 && channel.deadline_ns() != Channel::kNever && now < before + 1000 * kMs) {
    now = channel.deadline_ns();
    channel.OnNow(now);
    for (const auto& [rail, number] : SendWaiting()) on_second += rail;
  }
  EXPECT_GT(on_second, 0u);
  EXPECT_LT(now - before, 100 * kMs);
}

// Why: a past deadline that is never removed keeps the loop awake for the whole grace period.
// How: a frame waits for the best of two rails; both end before it is judged again.
TEST_F(ChannelTest, DoesNotWaitForARailThatHasEnded) {
  channel.OnRailUp(0, true);
  channel.OnRailUp(1, true);
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(channel.Send(Data(1, wire::kChunkBytesMax), payload.data(), 1).ok());
  }
  // One frame is written and acknowledged, so this is known to be the faster rail, and is filled.
  SendWaiting();
  for (std::uint64_t sequence = 1; channel.deadline_ns() == Channel::kNever && sequence < 100;
       ++sequence) {
    now += kMs;
    channel.OnNow(now);
    channel.OnTransmitted(0, 1);
    ASSERT_TRUE(channel.OnAcknowledged(sequence));
    SendWaiting();
  }
  ASSERT_NE(channel.deadline_ns(), Channel::kNever);
  channel.OnRailDown(0);
  channel.OnRailDown(1);
  EXPECT_EQ(channel.deadline_ns(), Channel::kNever);
}

// Why: a peer may request a frame as often as it likes. If the copies that rails hold were
// miscounted, the payload would be released while it is read.
// How: more copies than eight bits can count, on several rails, because one rail does not take that
// many; a large frame after them makes the next rail the better one.
TEST_F(ChannelTest, KeepsAPayloadHoweverOftenThePeerRequestsIt) {
  ASSERT_TRUE(channel.Send(Data(1, 100), payload.data(), 11).ok());
  std::map<std::size_t, std::size_t> frames_of;
  int copies = 0;
  const auto hand = [&] {
    for (const auto& [rail, sequence] : SendWaiting()) {
      ++frames_of[rail];
      if (sequence == 1) ++copies;
    }
  };
  for (std::size_t rail = 0; rail < Channel::kRailsMax && copies < 256; ++rail) {
    channel.OnRailUp(rail, true);
    for (int i = 0; i < 60 && copies < 256; ++i) {
      if (copies > 0) channel.OnWanted(1);
      hand();
    }
    if (copies == 256) break;
    Send(2 + rail, 12 + rail);
    hand();
  }
  ASSERT_EQ(copies, 256);
  EXPECT_TRUE(channel.OnAcknowledged(1));
  EXPECT_THAT(channel.released(), IsEmpty());
  for (const auto& [rail, frames] : frames_of) channel.OnTransmitted(rail, frames);
  EXPECT_THAT(channel.released(), ElementsAre(11));
}

// Why: a peer that does not read may leave frames waiting up to the limit; a large slot for each
// small frame would be many times the copied bytes.
TEST_F(ChannelTest, HoldsLittleMoreMemoryThanItCopies) {
  for (const std::uint32_t bytes : {1u, 100u, 129u, 3000u, wire::kSlotBytesMax}) {
    Channel waiting;
    const wire::FrameHeader header = Header(wire::FrameType::kControl, 0, bytes);
    for (int i = 0; i < 100; ++i) ASSERT_TRUE(waiting.Send(header, payload.data(), 0).ok());
    EXPECT_GE(waiting.slot_bytes(), waiting.copied_bytes());
    EXPECT_LE(waiting.slot_bytes(), std::max<std::uint64_t>(100 * 128, 2 * waiting.copied_bytes()));
    // The slots are reused.
    const std::uint64_t before = waiting.slot_bytes();
    waiting.OnRailUp(0, true);
    std::size_t rail = 0;
    while (waiting.NextToSend(frame, rail, false)) {
      waiting.OnTransmitted(0, 1);
      ASSERT_TRUE(waiting.OnAcknowledged(frame.header.sequence));
    }
    for (int i = 0; i < 100; ++i) ASSERT_TRUE(waiting.Send(header, payload.data(), 0).ok());
    EXPECT_EQ(waiting.slot_bytes(), before);
  }
}

// Why: neighbours decide how much data is for others; it must not take the room of this daemon's
// own messages, or its own operations would fail.
TEST_F(ChannelTest, LeavesRoomForItsOwnFramesWhateverItCarriesForOthers) {
  Channel narrow({100, 1'000'000});
  const auto send = [&](wire::FrameType type, std::uint32_t bytes) {
    return narrow.Send(Header(type, 0, bytes), payload.data(), 0).ok();
  };
  int carried = 0;
  while (send(wire::FrameType::kCircuitFrame, 80) && ++carried < 1000) continue;
  EXPECT_EQ(carried, 75);
  EXPECT_FALSE(send(wire::FrameType::kTopology, 104));
  // Otherwise the peer would never learn of the circuit's end.
  EXPECT_TRUE(send(wire::FrameType::kCircuitClosed, 10));
  for (int i = 0; i < 24; ++i) EXPECT_TRUE(send(wire::FrameType::kControl, 1000));
  EXPECT_FALSE(send(wire::FrameType::kControl, 1000));
  // Acknowledgements make room.
  narrow.OnRailUp(0, true);
  std::size_t rail = 0;
  while (narrow.NextToSend(frame, rail, false)) {
    narrow.OnTransmitted(0, 1);
    ASSERT_TRUE(narrow.OnAcknowledged(frame.header.sequence));
  }
  EXPECT_EQ(narrow.queued(), 0u);
  EXPECT_TRUE(send(wire::FrameType::kTopology, 104));
}

TEST_F(ChannelTest, LeavesBytesForItsOwnFramesWhateverItCarriesForOthers) {
  Channel narrow({100'000, 1'000'000});
  const auto send = [&](wire::FrameType type, std::uint32_t bytes) {
    return narrow.Send(Header(type, 0, bytes), payload.data(), 0).ok();
  };
  std::uint32_t carried = 0;
  while (send(wire::FrameType::kCircuitFrame, 10'000) && carried < 10'000'000) carried += 10'000;
  EXPECT_EQ(carried, 750'000u);
  EXPECT_TRUE(send(wire::FrameType::kControl, 250'000));
}

}  // namespace
}  // namespace mlxcomm::link::channel_test
