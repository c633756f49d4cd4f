// The channel delivers each frame once and in order, whatever happens to rails, and
// lets go of each payload exactly once.
#include "daemon/fabric/channel.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <map>
#include <random>
#include <vector>

namespace mlxcomm::fabric {
namespace {

wire::FrameHeader Data(std::uint64_t number, std::uint32_t bytes = 100'000) {
  wire::FrameHeader header;
  header.type = wire::FrameType::kData;
  header.number = number;
  header.payload_bytes = bytes;
  return header;
}

TEST(ChannelTest, NumbersFramesAndReleasesWhatIsAcknowledged) {
  Channel channel;
  const std::byte payload{};
  ASSERT_TRUE(channel.Send(Data(1), &payload, 11).ok());
  ASSERT_TRUE(channel.Send(Data(2), &payload, 12).ok());
  Channel::Frame frame;
  ASSERT_TRUE(channel.NextToHand(frame));
  EXPECT_EQ(frame.header.sequence, 1u);
  ASSERT_TRUE(channel.NextToHand(frame));
  EXPECT_FALSE(channel.NextToHand(frame));
  channel.OnTransmitted(2);
  EXPECT_TRUE(channel.released().empty());
  EXPECT_TRUE(channel.OnAcknowledged(1));
  EXPECT_EQ(channel.released(), (std::vector<std::uint64_t>{11}));
}

TEST(ChannelTest, RefusesAcknowledgementOfWhatWasNeverWritten) {
  Channel channel;
  const std::byte payload{};
  ASSERT_TRUE(channel.Send(Data(1), &payload, 11).ok());
  EXPECT_FALSE(channel.OnAcknowledged(1));
  EXPECT_FALSE(channel.OnAcknowledged(99));
}

TEST(ChannelTest, TellsDuplicatesFromGaps) {
  Channel channel;
  EXPECT_EQ(channel.OnReceived(1), Channel::Arrival::kNext);
  EXPECT_EQ(channel.OnReceived(1), Channel::Arrival::kDuplicate);
  EXPECT_EQ(channel.OnReceived(3), Channel::Arrival::kViolation);
  EXPECT_EQ(channel.next_expected(), 2u);
}

// Why: a failed operation's buffers must come back although nobody acknowledges.
TEST(ChannelTest, CancelReleasesAtOnceButForFramesInARailsHands) {
  Channel channel;
  const std::byte payload{};
  ASSERT_TRUE(channel.Send(Data(1), &payload, 11).ok());
  ASSERT_TRUE(channel.Send(Data(1), &payload, 12).ok());
  Channel::Frame frame;
  ASSERT_TRUE(channel.NextToHand(frame));
  channel.Cancel(KeyOf(Data(1)));
  EXPECT_EQ(channel.released(), (std::vector<std::uint64_t>{12}));
  channel.OnTransmitted(1);
  EXPECT_EQ(channel.released(), (std::vector<std::uint64_t>{12, 11}));
  ASSERT_TRUE(channel.NextToHand(frame));
  EXPECT_EQ(frame.header.type, wire::FrameType::kCancelled);
  EXPECT_EQ(frame.header.sequence, 2u);
}

TEST(ChannelTest, BoundsWhatARailHolds) {
  Channel channel;
  std::vector<std::byte> payload(wire::kChunkBytesMax);
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(channel.Send(Data(1, wire::kChunkBytesMax), payload.data(), 1).ok());
  }
  Channel::Frame frame;
  int handed = 0;
  while (channel.NextToHand(frame)) ++handed;
  EXPECT_EQ(handed, 4);
}

// Why: rails die at any moment, with frames queued, handed, written, delivered and
// acknowledged in every mixture.
// How: two channels over a wire that is cut at random; after each cut both resume
// from what the other says it has. Every number must arrive once and in order, every
// payload be released once.
TEST(ChannelTest, DeliversOnceAndInOrderOverRailsThatDie) {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    Channel sender;
    Channel receiver;
    std::deque<wire::FrameHeader> wire;  // Written, not yet delivered.
    std::deque<Channel::Frame> rail;     // Handed, not yet written.
    std::vector<std::uint64_t> arrived;
    std::map<std::uint64_t, int> released;
    const std::byte payload{};
    std::uint64_t sent = 0;
    constexpr std::uint64_t kFrames = 300;
    while (arrived.size() < kFrames || sender.queued() > 0) {
      switch (random() % 12) {
        case 0:
        case 1:
        case 2:
          if (sent == kFrames) break;
          ++sent;
          ASSERT_TRUE(sender.Send(Data(sent), &payload, sent).ok());
          break;
        case 3:
        case 4: {
          Channel::Frame frame;
          while (sender.NextToHand(frame)) rail.push_back(frame);
          break;
        }
        case 5:
        case 6:
          if (rail.empty()) break;
          wire.push_back(rail.front().header);
          rail.pop_front();
          sender.OnTransmitted(1);
          break;
        case 7:
        case 8:
        case 9:
          if (wire.empty()) break;
          if (receiver.OnReceived(wire.front().sequence) == Channel::Arrival::kNext) {
            arrived.push_back(wire.front().number);
          }
          wire.pop_front();
          break;
        case 10: ASSERT_TRUE(sender.OnAcknowledged(receiver.received())); break;
        case 11:
          if (random() % 4 != 0) break;
          rail.clear();
          wire.clear();
          sender.OnRailDown();
          ASSERT_TRUE(sender.Resume(receiver.next_expected()));
          break;
      }
      for (const std::uint64_t cookie : sender.released()) ++released[cookie];
      sender.released().clear();
    }
    ASSERT_EQ(arrived.size(), kFrames);
    for (std::uint64_t i = 0; i < kFrames; ++i) {
      ASSERT_EQ(arrived[i], i + 1) << "seed " << seed;
      ASSERT_EQ(released[i + 1], 1) << "seed " << seed;
    }
  }
}

TEST(ChannelTest, RefusesToResumeFromWhatThePeerCannotHave) {
  Channel channel;
  const std::byte payload{};
  ASSERT_TRUE(channel.Send(Data(1), &payload, 1).ok());
  EXPECT_FALSE(channel.Resume(0));
  EXPECT_FALSE(channel.Resume(3));
  EXPECT_TRUE(channel.Resume(2));
}

}  // namespace
}  // namespace mlxcomm::fabric
