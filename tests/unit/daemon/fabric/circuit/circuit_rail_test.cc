// The rail over a circuit, with a fake circuit: the window, pieces, and violations by the other
// end.
#include "daemon/fabric/circuit/circuit_rail.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

namespace mlxcomm::fabric::circuit_rail_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Sent {
  wire::FrameHeader outer;
  std::vector<std::byte> payload;

  wire::FrameHeader inner() const {
    wire::FrameHeader header;
    std::memcpy(&header, payload.data(), sizeof header);
    return header;
  }
};

struct PaperCircuit : CircuitPort {
  bool SendOnCircuit(std::uint64_t, const wire::FrameHeader& outer,
                     const std::byte* payload) override {
    if (full) return false;
    sent.push_back({outer, {payload, payload + outer.payload_bytes}});
    return true;
  }
  void CloseCircuit(std::uint64_t, wire::CircuitEnd end, const std::string& why) override {
    closed.push_back(why);
    ended = end;
  }
  std::vector<Sent> sent;
  std::vector<std::string> closed;
  wire::CircuitEnd ended = wire::CircuitEnd::kCut;
  bool full = false;
};

class CircuitRailTest : public testing::Test {
 protected:
  CircuitRailTest() { EXPECT_TRUE(rail.Start(/*resumed=*/false, claims).ok()); }
  static wire::FrameHeader Header(wire::FrameType type, std::uint64_t sequence, std::uint32_t bytes,
                                  std::uint64_t offset = 0) {
    wire::FrameHeader header;
    header.type = type;
    header.sequence = sequence;
    header.payload_bytes = bytes;
    header.number = 5;
    header.offset = offset;
    return header;
  }
  void Transmit(const wire::FrameHeader& header, const std::byte* payload) {
    rail::RailCommand command;
    command.frame = {header, payload};
    ASSERT_TRUE(rail.Give(command));
  }
  void Post(std::uint64_t bytes) {
    rail::RailCommand command;
    command.kind = rail::RailCommand::Kind::kPostReceive;
    command.receive.key.number = 5;
    command.receive.bytes = bytes;
    command.receive.destination = target.data();
    command.share = budget.Open(bytes);
    ASSERT_TRUE(rail.Give(command));
  }
  void Withdraw() {
    rail::RailCommand command;
    command.kind = rail::RailCommand::Kind::kWithdraw;
    command.key.number = 5;
    ASSERT_TRUE(rail.Give(command));
  }
  // A piece of a frame arrives.
  void Piece(const wire::FrameHeader& inner, std::uint32_t begin, std::uint32_t end) {
    std::vector<std::byte> payload(sizeof inner + end - begin);
    std::memcpy(payload.data(), &inner, sizeof inner);
    for (std::uint32_t i = begin; i < end; ++i) payload[sizeof inner + i - begin] = ByteAt(i);
    wire::FrameHeader outer;
    outer.type = wire::FrameType::kCircuitFrame;
    outer.offset = begin;
    outer.payload_bytes = static_cast<std::uint32_t>(payload.size());
    rail.OnPiece(outer, payload, 0);
    Take();
  }
  static std::byte ByteAt(std::uint64_t i) { return static_cast<std::byte>(i * 7 >> 4); }
  // Takes the events meant for the link.
  void Take() {
    rail::RailEvent event;
    while (rail.Pop(event)) {
      transmitted += event.transmitted;
      if (event.kind == rail::RailEvent::Kind::kDown)
        down.push_back(event.reason), cause = event.cause;
      if (event.kind == rail::RailEvent::Kind::kWithdrawn) ++withdrawn;
      if (event.kind != rail::RailEvent::Kind::kFrame) continue;
      frames.push_back(event.header);
      if (event.placed) ++placed;
      payloads.emplace_back(event.payload.begin(), event.payload.end());
    }
  }
  std::size_t CreditsSent() const {
    std::size_t count = 0;
    for (const Sent& sent : circuit.sent) {
      if (sent.outer.type == wire::FrameType::kCircuitCredit) ++count;
    }
    return count;
  }

  rail::ArrivalClaims claims;
  PaperCircuit circuit;
  CircuitRail rail{circuit, 1, "b", "c", wire::SpokenVersions(), /*now_ns=*/0};
  rail::ReceiveBudget budget;
  std::vector<std::byte> source = std::vector<std::byte>(2 * 1024 * 1024, std::byte{1});
  std::vector<std::byte> target = std::vector<std::byte>(2 * 1024 * 1024);
  std::vector<wire::FrameHeader> frames;
  std::vector<std::vector<std::byte>> payloads;
  std::vector<std::string> down;
  rail::DownCause cause = rail::DownCause::kCut;
  int placed = 0;
  int withdrawn = 0;
  std::uint32_t transmitted = 0;
};

constexpr std::uint32_t kPiece = wire::kEagerBytesMax;

// Why: an end that sends and gives no credit makes this one acknowledge without limit; a rail
// filled with acknowledgements took no more commands, and the loop waited without a pause.
TEST_F(CircuitRailTest, AcceptsEveryCommandHoweverManyAcknowledgementsAreQueued) {
  Transmit(Header(wire::FrameType::kData, 1, wire::kChunkBytesMax), source.data());
  std::uint64_t bytes = 0;
  for (const Sent& sent : circuit.sent) bytes += sent.payload.size();
  const std::uint64_t pieces = circuit.sent.size();
  ASSERT_LT(pieces, wire::kChunkBytesMax / kPiece);
  for (std::uint64_t i = 1; i <= 5000 && !HasFatalFailure(); ++i) {
    wire::FrameHeader header = Header(wire::FrameType::kAck, 0, 0);
    header.acknowledged = i;
    header.tag = i % wire::Arrived::kBlocks;
    Transmit(header, nullptr);
  }
  Transmit(Header(wire::FrameType::kGrant, 2, 0), nullptr);
  circuit.sent.clear();
  rail.OnCredit(pieces, bytes, 0);
  rail.OnCredit(circuit.sent.size(), bytes, 0);
  std::vector<std::uint64_t> acknowledged;
  for (const Sent& sent : circuit.sent) {
    if (sent.inner().type != wire::FrameType::kAck) continue;
    acknowledged.push_back(sent.inner().acknowledged);
  }
  EXPECT_THAT(acknowledged, ElementsAre(4997, 4998, 4999, 5000));
  EXPECT_EQ(circuit.sent.back().inner().type, wire::FrameType::kGrant);
}

// Why: the nodes in between must hold everything that is in flight.
TEST_F(CircuitRailTest, SendsNoMoreThanTheWindowUntilItIsCredited) {
  Transmit(Header(wire::FrameType::kData, 1, 1024 * 1024), source.data());
  Take();
  std::uint64_t bytes = 0;
  for (const Sent& sent : circuit.sent) bytes += sent.payload.size();
  EXPECT_LE(bytes, wire::kCircuitBytesMax);
  EXPECT_GT(bytes, wire::kCircuitBytesMax - 2 * kPiece);
  EXPECT_EQ(transmitted, 0u);
  const std::size_t before = circuit.sent.size();
  rail.OnCredit(2, circuit.sent[0].payload.size() + circuit.sent[1].payload.size(), 0);
  EXPECT_EQ(circuit.sent.size(), before + 2);
  while (transmitted == 0) {
    rail.OnCredit(1, sizeof(wire::FrameHeader) + kPiece, 0);
    Take();
  }
  EXPECT_EQ(circuit.sent.size(), 64u);
  EXPECT_THAT(down, IsEmpty());
}

TEST_F(CircuitRailTest, CountsSmallFramesInTheWindowAsWell) {
  for (std::uint64_t i = 1; i <= 500; ++i) Transmit(Header(wire::FrameType::kGrant, i, 0), nullptr);
  EXPECT_EQ(circuit.sent.size(), wire::kCircuitFramesMax);
  Take();
  EXPECT_EQ(transmitted, wire::kCircuitFramesMax);
  rail.OnCredit(100, 100 * sizeof(wire::FrameHeader), 0);
  EXPECT_EQ(circuit.sent.size(), wire::kCircuitFramesMax + 100);
}

TEST_F(CircuitRailTest, SendsCreditBeforeTheWindowIsUsedUp) {
  for (std::uint32_t i = 1; i <= wire::kCircuitFramesMax; ++i) {
    Piece(Header(wire::FrameType::kEager, i, kPiece), 0, kPiece);
  }
  std::uint64_t reported = 0, bytes = 0;
  for (const Sent& sent : circuit.sent) reported += sent.outer.number, bytes += sent.outer.offset;
  EXPECT_GT(reported, wire::kCircuitFramesMax / 2);
  EXPECT_EQ(bytes, reported * (sizeof(wire::FrameHeader) + kPiece));
}

TEST_F(CircuitRailTest, SendsSomeHeartbeatsBeyondAFullWindow) {
  for (std::uint64_t i = 1; i <= 200; ++i) Transmit(Header(wire::FrameType::kGrant, i, 0), nullptr);
  rail::RailCommand heartbeat;
  heartbeat.kind = rail::RailCommand::Kind::kHeartbeat;
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(rail.Give(heartbeat));
  EXPECT_GT(circuit.sent.size(), wire::kCircuitFramesMax);
  EXPECT_LE(circuit.sent.size(), wire::kCircuitFramesMax + CircuitRail::kSpareFrames);
  Piece(Header(wire::FrameType::kHeartbeat, 0, 0, 77), 0, 0);
  EXPECT_THAT(frames, IsEmpty());
}

TEST_F(CircuitRailTest, AnswersAHeartbeatWithItsClock) {
  Piece(Header(wire::FrameType::kHeartbeat, 0, 0, 77), 0, 0);
  ASSERT_EQ(circuit.sent.size(), 1u);
  EXPECT_EQ(circuit.sent[0].inner().type, wire::FrameType::kEcho);
  EXPECT_EQ(circuit.sent[0].inner().offset, 77u);
}

TEST_F(CircuitRailTest, PutsPiecesTogether) {
  Post(100'000);
  const wire::FrameHeader data = Header(wire::FrameType::kData, 1, 60'000, 40'000);
  for (std::uint32_t at = 0; at < 60'000; at += kPiece) {
    EXPECT_EQ(placed, 0);
    Piece(data, at, std::min(at + kPiece, 60'000u));
  }
  EXPECT_EQ(placed, 1);
  for (std::uint32_t i = 0; i < 60'000; ++i) ASSERT_EQ(target[40'000 + i], ByteAt(i));
  const wire::FrameHeader control = Header(wire::FrameType::kControl, 2, 20'000);
  Piece(control, 0, kPiece);
  Piece(control, kPiece, 20'000);
  ASSERT_EQ(payloads.size(), 2u);
  ASSERT_EQ(payloads[1].size(), 20'000u);
  for (std::uint32_t i = 0; i < 20'000; ++i) ASSERT_EQ(payloads[1][i], ByteAt(i));
}

TEST_F(CircuitRailTest, LeavesAWithdrawnReceiveAloneInTheMiddleOfAFrame) {
  Post(60'000);
  const wire::FrameHeader data = Header(wire::FrameType::kData, 1, 60'000);
  Piece(data, 0, kPiece);
  Withdraw();
  Take();
  EXPECT_EQ(withdrawn, 1);
  const std::vector<std::byte> as_it_was = target;
  for (std::uint32_t at = kPiece; at < 60'000; at += kPiece) {
    Piece(data, at, std::min(at + kPiece, 60'000u));
  }
  Piece(Header(wire::FrameType::kData, 2, 10), 0, 10);
  EXPECT_TRUE(target == as_it_was);
  EXPECT_EQ(frames.size(), 2u);  // Their numbers count.
  EXPECT_EQ(placed, 0);
  EXPECT_THAT(down, IsEmpty());
}

TEST_F(CircuitRailTest, GoesDownWhenTheCircuitHasEnded) {
  Transmit(Header(wire::FrameType::kData, 1, 1024 * 1024), source.data());
  rail.OnClosed(rail::DownCause::kReset, "its daemon has ended");
  Take();
  EXPECT_THAT(down, ElementsAre("its daemon has ended"));
  EXPECT_EQ(cause, rail::DownCause::kReset);
  EXPECT_THAT(circuit.closed, IsEmpty());  // It has already ended.
  const std::size_t before = circuit.sent.size();
  Transmit(Header(wire::FrameType::kGrant, 2, 0), nullptr);
  rail.OnCredit(1, 100, 0);
  Piece(Header(wire::FrameType::kGrant, 1, 0), 0, 0);
  EXPECT_EQ(circuit.sent.size(), before);
  EXPECT_THAT(frames, IsEmpty());
  EXPECT_EQ(down.size(), 1u);
}

TEST_F(CircuitRailTest, ClosesTheCircuitWhenItIsStopped) {
  rail.Finish();
  rail.Stop();
  EXPECT_EQ(circuit.closed.size(), 1u);
  EXPECT_EQ(circuit.ended, wire::CircuitEnd::kReset);
}

TEST_F(CircuitRailTest, GivesUpWhenTheNeighboursChannelIsFull) {
  circuit.full = true;
  Transmit(Header(wire::FrameType::kGrant, 1, 0), nullptr);
  Take();
  EXPECT_THAT(down, ElementsAre(HasSubstr("accepts no more")));
  EXPECT_EQ(circuit.closed.size(), 1u);
}

// Why: the other end and forwarding nodes may send anything.
TEST_F(CircuitRailTest, GoesDownForAViolation) {
  const auto violates = [](auto what) {
    CircuitRailTest_GoesDownForAViolation_Test test;
    test.Post(1000);
    what(test);
    test.Take();
    return test.down.size() == 1 && test.cause == rail::DownCause::kViolation &&
           test.circuit.closed.size() == 1;
  };
  using Test = CircuitRailTest_GoesDownForAViolation_Test;
  using Type = wire::FrameType;
  EXPECT_TRUE(violates([](Test& t) { t.Piece(Header(static_cast<Type>(99), 1, 0), 0, 0); }));
  EXPECT_TRUE(violates([](Test& t) { t.Piece(Header(Type::kControl, 1, 100), 50, 100); }));
  EXPECT_TRUE(violates([](Test& t) { t.Piece(Header(Type::kControl, 1, 100), 0, 0); }));
  EXPECT_TRUE(violates([](Test& t) { t.Piece(Header(Type::kControl, 1, 100), 0, 101); }));
  EXPECT_TRUE(violates([](Test& t) { t.Piece(Header(Type::kData, 1, 100, 950), 0, 100); }));
  EXPECT_TRUE(violates([](Test& t) { t.rail.OnCredit(1, 0, 0); }));
  EXPECT_TRUE(violates([](Test& t) { t.rail.OnCredit(0, 1, 0); }));
  EXPECT_TRUE(violates([](Test& t) {  // A frame in the middle of another.
    t.Piece(Header(Type::kControl, 1, 100), 0, 50);
    t.Piece(Header(Type::kControl, 2, 100), 50, 100);
  }));
  EXPECT_TRUE(violates([](Test& t) {  // More than was granted.
    t.Piece(Header(Type::kData, 1, 600), 0, 600);
    t.Piece(Header(Type::kData, 2, 600, 400), 0, 600);
  }));
  EXPECT_TRUE(violates([](Test& t) {  // Backwards.
    t.Piece(Header(Type::kControl, 1, 100), 0, 50);
    t.Piece(Header(Type::kControl, 1, 100), 0, 50);
  }));
}

TEST_F(CircuitRailTest, GivesUpWhenDataWasNotRequested) {
  Piece(Header(wire::FrameType::kData, 1, 10), 0, 10);
  EXPECT_THAT(down, ElementsAre(HasSubstr("was not requested")));
  EXPECT_EQ(cause, rail::DownCause::kCut);
}

// Data that an earlier rail has forgotten may still arrive on this one.
TEST_F(CircuitRailTest, DropsUnknownDataAfterAResumption) {
  ASSERT_TRUE(rail.Start(/*resumed=*/true, claims).ok());
  Piece(Header(wire::FrameType::kData, 1, 10), 0, 10);
  EXPECT_THAT(down, IsEmpty());
  EXPECT_EQ(frames.size(), 1u);
  EXPECT_EQ(placed, 0);
}

}  // namespace
}  // namespace mlxcomm::fabric::circuit_rail_test
