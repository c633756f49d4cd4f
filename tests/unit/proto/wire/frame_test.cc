// Every limit of a frame's header is checked before it is used.
#include "proto/wire/frame.h"

#include <gtest/gtest.h>

#include <random>

#include "proto/wire/route.h"

namespace mlxcomm::wire::frame_test {
namespace {

FrameHeader Frame(FrameType type, std::uint64_t sequence, std::uint32_t payload_bytes) {
  FrameHeader header;
  header.type = type;
  header.sequence = sequence;
  header.payload_bytes = payload_bytes;
  return header;
}

TEST(FrameTest, BoundsThePayloadAndSequenceOfEachType) {
  const auto takes = [](FrameType type, bool is_numbered, std::size_t least, std::size_t most) {
    const auto fits = [type](bool numbered, std::size_t bytes) {
      return IsWellFormed(Frame(type, numbered ? 1 : 0, static_cast<std::uint32_t>(bytes)));
    };
    EXPECT_TRUE(fits(is_numbered, least) && fits(is_numbered, most)) << static_cast<int>(type);
    EXPECT_FALSE(fits(is_numbered, most + 1)) << static_cast<int>(type);
    EXPECT_TRUE(least == 0 || !fits(is_numbered, least - 1)) << static_cast<int>(type);
    EXPECT_FALSE(fits(!is_numbered, least)) << static_cast<int>(type);
  };
  for (const FrameType type : {FrameType::kHeartbeat, FrameType::kEcho}) {
    takes(type, false, 0, 0);
    takes(type, false, kPaddedBytes, kPaddedBytes);
  }
  takes(FrameType::kAck, false, 0, 0);
  takes(FrameType::kGivenUp, false, 0, 0);
  for (const FrameType type : {FrameType::kGrant, FrameType::kCredit, FrameType::kCancelled}) {
    takes(type, true, 0, 0);
  }
  takes(FrameType::kControl, true, 0, kControlBytesMax);
  takes(FrameType::kEager, true, 0, kEagerBytesMax);
  takes(FrameType::kData, true, 1, kChunkBytesMax);
  takes(FrameType::kTopology, true, sizeof(Advertisement),
        sizeof(Advertisement) + kNeighboursMax * sizeof(NodeIdBytes));
  takes(FrameType::kCircuitOpen, true, sizeof(CircuitOpening),
        sizeof(CircuitOpening) + kRouteNodesMax * sizeof(NodeIdBytes));
  takes(FrameType::kCircuitOpened, true, sizeof(Introduction), sizeof(Introduction));
  takes(FrameType::kCircuitFrame, true, sizeof(FrameHeader), kEagerBytesMax + sizeof(FrameHeader));
  takes(FrameType::kCircuitCredit, true, 0, 0);
  takes(FrameType::kCircuitClosed, true, 0, kCircuitTextBytesMax);
  takes(FrameType::kRailSetup, true, kRailSetupBytes, kRailSetupBytes);
  FrameHeader closed = Frame(FrameType::kCircuitClosed, 1, 0);
  closed.step = 2;
  EXPECT_FALSE(IsWellFormed(closed));
}

TEST(FrameTest, AcceptsAFlagOnlyWithItsTypes) {
  for (const FrameType type : {FrameType::kHeartbeat, FrameType::kEcho, FrameType::kAck,
                               FrameType::kEager, FrameType::kGrant}) {
    const bool is_numbered = type == FrameType::kEager || type == FrameType::kGrant;
    FrameHeader header = Frame(type, is_numbered ? 1 : 0, 0);
    header.flags = kSolicited;
    static_assert(kSolicited == kProveAgain);
    EXPECT_EQ(IsWellFormed(header), type == FrameType::kHeartbeat || type == FrameType::kEager);
    header.flags = 2;
    EXPECT_FALSE(IsWellFormed(header));
  }
}

// Why: only the newest queued acknowledgement of each block is kept, but its request for a resend
// must survive, unless the frame has arrived.
TEST(FrameTest, ANewerAcknowledgementKeepsAnEarlierRequest) {
  const auto ack = [](std::uint64_t acknowledged, std::uint16_t wanted) {
    FrameHeader header = Frame(FrameType::kAck, 0, 0);
    header.acknowledged = acknowledged;
    PutArrived({1, wanted, {acknowledged, 2, 3, 4}}, header);
    return header;
  };
  FrameHeader waiting = ack(100, 30);
  Renew(waiting, ack(110, 0));
  EXPECT_EQ(waiting.acknowledged, 110u);
  EXPECT_EQ(ArrivedOf(waiting).wanted, 20u);
  EXPECT_EQ(ArrivedOf(waiting).bits[0], 110u);
  EXPECT_TRUE(IsWellFormed(waiting));
  EXPECT_FALSE(MayRenew(waiting, ack(118, 9))) << "there is place for one question";
  EXPECT_TRUE(MayRenew(ack(118, 0), ack(118, 9)));
  waiting = ack(120, 3);
  Renew(waiting, ack(123, 0));
  EXPECT_EQ(ArrivedOf(waiting).wanted, 0u);
}

TEST(FrameTest, RefusesUnknownTypesMagicAndUncheckedSums) {
  EXPECT_FALSE(IsWellFormed(Frame(static_cast<FrameType>(0), 0, 0)));
  EXPECT_FALSE(IsWellFormed(Frame(static_cast<FrameType>(16), 1, 0)));
  EXPECT_FALSE(IsWellFormed(Frame(static_cast<FrameType>(255), 1, 0)));
  FrameHeader header = Frame(FrameType::kAck, 0, 0);
  header.magic ^= 1;
  EXPECT_FALSE(IsWellFormed(header));
  header = Frame(FrameType::kAck, 0, 0);
  header.header_sum = 1;
  EXPECT_FALSE(IsWellFormed(header));
  header = Frame(FrameType::kAck, 0, 0);
  header.payload_sum = 1;
  EXPECT_FALSE(IsWellFormed(header));
}

// Why: a header comes from another host; every accepted one must be within its limits.
TEST(FrameTest, LimitsThePayloadOfEveryAcceptedHeader) {
  std::mt19937_64 random(1);
  int passed = 0;
  for (int i = 0; i < 200'000; ++i) {
    FrameHeader header = Frame(static_cast<FrameType>(random() % 18), random() % 2,
                               static_cast<std::uint32_t>(random() >> (32 + random() % 32)));
    header.offset = random();
    if (!IsWellFormed(header)) continue;
    ++passed;
    ASSERT_LE(header.payload_bytes, kChunkBytesMax);
  }
  EXPECT_GT(passed, 0);
}

}  // namespace
}  // namespace mlxcomm::wire::frame_test
