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

TEST(FrameTest, AcceptsEachTypeAtItsLimits) {
  for (const FrameType type :
       {FrameType::kHeartbeat, FrameType::kEcho, FrameType::kAck, FrameType::kGivenUp}) {
    EXPECT_TRUE(IsWellFormed(Frame(type, 0, 0)));
  }
  for (const FrameType type : {FrameType::kGrant, FrameType::kCredit, FrameType::kCancelled}) {
    EXPECT_TRUE(IsWellFormed(Frame(type, 1, 0)));
  }
  EXPECT_TRUE(IsWellFormed(Frame(FrameType::kControl, 1, kControlBytesMax)));
  EXPECT_TRUE(IsWellFormed(Frame(FrameType::kEager, 1, 0)));
  EXPECT_TRUE(IsWellFormed(Frame(FrameType::kEager, 1, kEagerBytesMax)));
  EXPECT_TRUE(IsWellFormed(Frame(FrameType::kData, 1, 1)));
  EXPECT_TRUE(IsWellFormed(Frame(FrameType::kData, 1, kChunkBytesMax)));
}

TEST(FrameTest, RefusesPayloadBeyondTheTypesLimit) {
  EXPECT_FALSE(IsWellFormed(Frame(FrameType::kControl, 1, kControlBytesMax + 1)));
  EXPECT_FALSE(IsWellFormed(Frame(FrameType::kEager, 1, kEagerBytesMax + 1)));
  EXPECT_FALSE(IsWellFormed(Frame(FrameType::kData, 1, 0)));
  EXPECT_FALSE(IsWellFormed(Frame(FrameType::kData, 1, kChunkBytesMax + 1)));
  for (const FrameType type : {FrameType::kHeartbeat, FrameType::kEcho, FrameType::kAck}) {
    EXPECT_FALSE(IsWellFormed(Frame(type, 0, 1)));
  }
  for (const FrameType type : {FrameType::kGrant, FrameType::kCredit, FrameType::kCancelled}) {
    EXPECT_FALSE(IsWellFormed(Frame(type, 1, 1)));
  }
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

// Each routing frame has its own limits for the payload.
TEST(FrameTest, BoundsRoutingFrames) {
  const auto takes = [](FrameType type, std::size_t least, std::size_t most) {
    const auto fits = [type](std::size_t bytes) {
      return IsWellFormed(Frame(type, 1, static_cast<std::uint32_t>(bytes)));
    };
    EXPECT_TRUE(fits(least) && fits(most) && !fits(most + 1)) << static_cast<int>(type);
    EXPECT_TRUE(least == 0 || !fits(least - 1)) << static_cast<int>(type);
    EXPECT_FALSE(IsWellFormed(Frame(type, 0, static_cast<std::uint32_t>(least))));
  };
  takes(FrameType::kTopology, sizeof(Advertisement),
        sizeof(Advertisement) + kNeighboursMax * sizeof(NodeIdBytes));
  takes(FrameType::kCircuitOpen, sizeof(CircuitOpening),
        sizeof(CircuitOpening) + kRouteNodesMax * sizeof(NodeIdBytes));
  takes(FrameType::kCircuitOpened, sizeof(Introduction), sizeof(Introduction));
  takes(FrameType::kCircuitFrame, sizeof(FrameHeader), kEagerBytesMax + sizeof(FrameHeader));
  takes(FrameType::kCircuitCredit, 0, 0);
  takes(FrameType::kCircuitClosed, 0, kCircuitTextBytesMax);
  FrameHeader closed = Frame(FrameType::kCircuitClosed, 1, 0);
  closed.step = 2;
  EXPECT_FALSE(IsWellFormed(closed));
}

TEST(FrameTest, RefusesAMissingOrExtraSequence) {
  EXPECT_FALSE(IsWellFormed(Frame(FrameType::kAck, 1, 0)));
  EXPECT_FALSE(IsWellFormed(Frame(FrameType::kHeartbeat, 1, 0)));
  EXPECT_FALSE(IsWellFormed(Frame(FrameType::kGivenUp, 1, 0)));
  EXPECT_FALSE(IsWellFormed(Frame(FrameType::kControl, 0, 8)));
  EXPECT_FALSE(IsWellFormed(Frame(FrameType::kData, 0, 8)));
  EXPECT_FALSE(IsWellFormed(Frame(FrameType::kGrant, 0, 0)));
}

TEST(FrameTest, RefusesUnknownTypesMagicAndUncheckedSums) {
  EXPECT_FALSE(IsWellFormed(Frame(static_cast<FrameType>(0), 0, 0)));
  EXPECT_FALSE(IsWellFormed(Frame(static_cast<FrameType>(16), 1, 0)));
  EXPECT_FALSE(IsWellFormed(Frame(static_cast<FrameType>(255), 1, 0)));
  FrameHeader header = Frame(FrameType::kAck, 0, 0);
  header.magic ^= 1;
  EXPECT_FALSE(IsWellFormed(header));
  header = Frame(FrameType::kAck, 0, 0);
  header.flags = kSolicited;
  EXPECT_FALSE(IsWellFormed(header));
  header = Frame(FrameType::kEager, 1, 8);
  header.flags = kSolicited;
  EXPECT_TRUE(IsWellFormed(header));
  header.flags = kSolicited << 1;
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
