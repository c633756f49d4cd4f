#include "daemon/rdma/message_stream.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <vector>

#include "daemon/rdma/message_header.h"
#include "proto/wire/frame.h"
#include "tests/unit/daemon/rdma/stream_pair.h"

namespace mlxcomm::rdma::message_stream_test {
namespace {

// Sizes around the edges of a message of 4096 bytes with its header.
TEST(MessageStreamTest, CarriesFramesOfAllSizesInOrder) {
  Pair pair;
  std::uint64_t sequence = 0;
  const std::uint32_t body = 4096 - sizeof(MessageHeader);
  for (const std::uint32_t payload :
       {0u, 1u, 79u, body - 80, body - 81, body - 79, body, body - 160, 2 * body, 100'000u, 0u}) {
    ++sequence;
    while (!pair.ends[0].Write(sequence, payload)) pair.Turn();
    pair.Turn();
  }
  pair.Turn();
  ASSERT_EQ(pair.ends[1].frames.size(), sequence);
  EXPECT_EQ(pair.ends[1].gaps, 0);
  EXPECT_TRUE(pair.ends[1].partial.empty());
}

// Why: a send without a receive is lost, or worse. An unread message's receive is not posted again.
TEST(MessageStreamTest, SendsNoMoreThanTheOtherSideHasPosted) {
  Pair pair;
  std::uint64_t sequence = 1;
  for (int i = 0; i < 100; ++i) {
    while (pair.ends[0].Write(sequence, 3000)) ++sequence;
    pair.Turn(/*read=*/false);
    pair.now += 10 * MessageStream::kKeepAliveNs;  // However long it takes.
  }
  EXPECT_EQ(pair.sent_with_frames[0], 4) << "the others are reserved for messages without frames";
}

// Why: a daemon may be stopped while its device keeps running: posted receives take messages, and
// none is posted again. However long that lasts, each message has a receive.
TEST(MessageStreamTest, SendsNoMoreToASideThatIsStopped) {
  Pair pair;
  std::uint64_t sequence = 1;
  for (int i = 0; i < 1000; ++i) {
    while (pair.ends[0].Write(sequence, 3000)) ++sequence;
    pair.TurnOf(0);
    pair.now += 50 * kMs;
  }
  EXPECT_EQ(pair.sent[0], 8);
  EXPECT_EQ(pair.ends[0].stream->deadline_ns(), MessageStream::kNever);
  for (int i = 0; i < 10; ++i) pair.Turn();  // It continues, and so does this side.
  const std::size_t before = pair.ends[1].frames.size();
  for (int i = 0; i < 10; ++i) {
    while (pair.ends[0].Write(sequence, 3000)) ++sequence;
    pair.Turn();
  }
  EXPECT_GT(pair.ends[1].frames.size(), before);
}

// Why: after a pause, a side reads messages that the other one sent before it had received this
// side's last message. They say nothing about that message, which still has its receive.
TEST(MessageStreamTest, DoesNotMistakeAnOldMessageForALostOne) {
  Pair pair;
  pair.now += MessageStream::kKeepAliveNs;
  pair.TurnOf(1);  // A heartbeat, which waits at the paused side.
  ASSERT_EQ(pair.sent[1], 1);
  std::uint64_t sequence = 1;
  while (pair.ends[0].Write(sequence, 3000)) ++sequence;
  MessageStream::Outgoing out;
  int sent = 0;
  pair.ends[0].stream->OnNow(pair.now);
  for (; pair.ends[0].stream->NextSend(out); ++sent) pair.ends[0].stream->OnSent(out.slot);
  pair.now += 10 * MessageStream::kLostNs;
  pair.TurnOf(0);
  while (pair.ends[0].Write(sequence, 3000)) ++sequence;
  pair.TurnOf(0);
  EXPECT_LE(sent + pair.sent[0], 8);
}

// Why: credit must return although the receiver has nothing of its own to send.
TEST(MessageStreamTest, ReportsCreditWithoutFramesOfItsOwn) {
  Pair pair;
  for (std::uint64_t sequence = 1; sequence <= 1000; ++sequence) {
    int turns = 0;
    while (!pair.ends[0].Write(sequence, 3000)) {
      pair.Turn();
      ASSERT_LT(++turns, 10) << "time does not pass, so only credit helps";
    }
  }
  pair.Turn();
  EXPECT_EQ(pair.ends[1].frames.size(), 1000u);
  EXPECT_LT(pair.sent[1], 1000 / 3);
}

// Why: both may use up their credit at once; neither may wait for the other forever.
TEST(MessageStreamTest, BothSidesFillEachOtherAndContinue) {
  Pair pair;
  std::uint64_t next[2] = {1, 1};
  pair.latency = kMs;
  for (int i = 0; i < 2000; ++i) {
    for (int side = 0; side < 2; ++side) {
      while (pair.ends[side].Write(next[side], 2500)) ++next[side];
    }
    pair.Turn();
    pair.now += kMs / 4;
  }
  EXPECT_GT(pair.ends[0].frames.size(), 700u);
  EXPECT_GT(pair.ends[1].frames.size(), 700u);
}

TEST(MessageStreamTest, LosesOnlyTheFramesThatWereInALostMessage) {
  Pair pair;
  int number = 0;
  pair.lose = [&](int from) { return from == 0 && ++number == 2; };
  for (std::uint64_t sequence = 1; sequence <= 4; ++sequence) {
    while (!pair.ends[0].Write(sequence, 5000)) pair.Turn();  // Each ends in a second message.
    pair.Turn();
  }
  pair.Turn();
  EXPECT_EQ(pair.ends[1].frames, (std::vector<std::uint64_t>{2, 3, 4}));
  EXPECT_EQ(pair.ends[1].gaps, 1);
  EXPECT_EQ(pair.ends[1].stream->lost_messages(), 1u);
}

// Why: while half a frame is kept here, its copy on another rail looks like a duplicate.
// How: the end of a frame is lost, and an empty message reveals it.
TEST(MessageStreamTest, ReportsAGapBeforeMoreFramesArrive) {
  Pair pair;
  int number = 0;
  pair.lose = [&](int from) { return from == 0 && ++number == 2; };
  ASSERT_TRUE(pair.ends[0].Write(1, 5000));
  pair.Turn();
  pair.Turn();
  EXPECT_FALSE(pair.ends[1].partial.empty());
  pair.now += MessageStream::kKeepAliveNs;
  pair.TurnOf(0);
  pair.TurnOf(1, /*read=*/false);
  EXPECT_TRUE(pair.ends[1].stream->HasUnread());
  pair.Turn();
  EXPECT_EQ(pair.ends[1].gaps, 1);
  EXPECT_TRUE(pair.ends[1].partial.empty());
  EXPECT_FALSE(pair.ends[1].stream->HasUnread());
  ASSERT_TRUE(pair.ends[0].Write(2, 5000));
  pair.Turn();
  pair.Turn();
  EXPECT_EQ(pair.ends[1].frames, (std::vector<std::uint64_t>{2}));
}

// Why: nothing reveals the loss of the last messages. If their credit were lost forever, the rail
// would stall.
TEST(MessageStreamTest, ContinuesAfterAllMessagesInFlightAreLost) {
  Pair pair;
  bool out = true;
  pair.lose = [&](int) { return out; };
  std::uint64_t sequence = 1;
  for (int i = 0; i < 10; ++i) {
    while (pair.ends[0].Write(sequence, 3000)) ++sequence;
    while (pair.ends[1].Write(sequence, 3000)) ++sequence;
    pair.Turn();
  }
  out = false;
  for (int i = 0; i < 30; ++i) {
    pair.now += 50 * kMs;
    pair.Turn();
  }
  const std::size_t before = pair.ends[1].frames.size();
  for (int i = 0; i < 100; ++i) {
    while (pair.ends[0].Write(sequence, 3000)) ++sequence;
    pair.Turn();
  }
  EXPECT_GT(pair.ends[1].frames.size(), before + 50);
}

TEST(MessageStreamTest, SendsAnEmptyMessageWhenIdle) {
  Pair pair;
  pair.Turn();
  EXPECT_EQ(pair.sent[0], 0);
  pair.now = pair.ends[0].stream->deadline_ns();
  pair.Turn();
  EXPECT_EQ(pair.sent[0], 1);
  EXPECT_EQ(pair.sent[1], 1);
  pair.Turn();
  EXPECT_EQ(pair.sent[0], 1);
}

// Why: each takes one of the other side's last receives, which must suffice while it is stopped.
TEST(MessageStreamTest, AsksForCreditAfterPausesThatDouble) {
  Pair pair(64);
  pair.lose = [](int) { return true; };
  MessageStream& stream = *pair.ends[0].stream;
  for (std::uint64_t sequence = 1; pair.ends[0].Write(sequence, 3000); ++sequence) pair.TurnOf(0);
  std::vector<std::uint64_t> pauses;
  while (pauses.size() < MessageStream::kReserveMax) {
    ASSERT_NE(stream.deadline_ns(), MessageStream::kNever) << pauses.size() << " were sent";
    pauses.push_back(stream.deadline_ns() - pair.now);
    pair.now = stream.deadline_ns();
    const int before = pair.sent[0];
    pair.TurnOf(0);
    ASSERT_EQ(pair.sent[0], before + 1);
    if (pauses.size() == 1) continue;
    EXPECT_EQ(pauses.back(), 2 * pauses[pauses.size() - 2]);
  }
}

TEST(MessageStreamTest, CountsAShortMessageAsLost) {
  Pair pair;
  ASSERT_TRUE(pair.ends[0].Write(1, 1000));
  pair.latency = kMs;
  pair.Turn();
  pair.in_flight[1].front().bytes.resize(200);
  ASSERT_TRUE(pair.ends[0].Write(2, 1000));
  pair.now += kMs;
  pair.Turn();
  pair.now += kMs;
  pair.Turn();
  EXPECT_EQ(pair.ends[1].frames, (std::vector<std::uint64_t>{2}));
}

// The header of the first message to an End of four.
MessageHeader FirstHeader() {
  MessageHeader header;
  header.connection = 77;
  header.number = 1;
  header.bytes = 200;
  header.first_frame = 0;
  header.posted = 4;
  return header;
}

// Why: a number or credit that a device has corrupted would stall the rail forever if it were
// within its bounds.
TEST(MessageStreamTest, RefusesAHeaderInWhichABitWasFlipped) {
  for (std::size_t bit = 0; bit < 8 * sizeof(MessageHeader); ++bit) {
    End end(4, 4096, 1000 * kMs);
    MessageHeader header = FirstHeader();
    header.sum = MessageStream::SumOf(header);
    std::memcpy(end.memory.data(), &header, sizeof header);
    end.memory[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    // A message that does not name the connection counts as payload without a header.
    const bool is_payload = bit < 32 || (bit >= 64 && bit < 128);
    EXPECT_EQ(end.stream->OnReceived(0, 4096), is_payload) << bit;
    EXPECT_FALSE(end.stream->HasUnread()) << bit;
  }
}

TEST(MessageStreamTest, RefusesMessagesThatTheOtherSideWouldNotSend) {
  const auto taken = [](const std::function<void(MessageHeader&)>& change,
                        std::uint32_t bytes = 4096) {
    End end(4, 4096, 1000 * kMs);
    MessageHeader header = FirstHeader();
    change(header);
    header.sum = MessageStream::SumOf(header);
    std::memcpy(end.memory.data(), &header, sizeof header);
    return end.stream->OnReceived(0, bytes);
  };
  EXPECT_TRUE(taken([](auto&) {}));
  EXPECT_TRUE(taken([](auto& header) { header.number = 5; }));
  EXPECT_FALSE(taken([](auto& header) { header.number = 0; }));
  EXPECT_FALSE(taken([](auto& header) { header.bytes = 4096; }));
  EXPECT_FALSE(taken([](auto& header) { header.first_frame = 200; }));
  EXPECT_FALSE(taken([](auto& header) { header.seen = 1; }));
  EXPECT_FALSE(taken([](auto& header) { header.posted = 5; }));
  EXPECT_TRUE(taken([](auto& header) { header.raw = 2, header.raw_bytes = 4096; }));
  EXPECT_FALSE(taken([](auto& header) { header.raw = 3, header.raw_bytes = 4096; }));
  EXPECT_FALSE(taken([](auto& header) { header.raw = 2, header.raw_bytes = 4095; }));
  EXPECT_FALSE(taken([](auto& header) { header.raw_bytes = 4096; }));
}

}  // namespace
}  // namespace mlxcomm::rdma::message_stream_test
