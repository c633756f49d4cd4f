// Large payload that is sent without a header, from its own place: the other side receives a whole
// frame or nothing, whatever is lost, late or overwritten.
#include <gtest/gtest.h>

#include <random>

#include "daemon/rail/frame_writer.h"
#include "tests/unit/daemon/rdma/stream_pair.h"
#include "tests/unit/seeds.h"

namespace mlxcomm::rdma::raw_messages_test {
namespace {

constexpr std::uint32_t kSlot = 4096;

std::vector<std::uint64_t> UpTo(std::uint64_t last) {
  std::vector<std::uint64_t> numbers;
  for (std::uint64_t number = 1; number <= last; ++number) numbers.push_back(number);
  return numbers;
}

void SendAll(Pair& pair, std::uint64_t frames, std::uint32_t payload_bytes) {
  for (std::uint64_t sequence = 1; sequence <= frames; ++sequence) {
    int turns = 0;
    while (!pair.ends[0].Write(sequence, payload_bytes)) {
      pair.Turn();
      pair.now += kMs;
      ASSERT_LT(++turns, 1000) << "it stands still";
    }
    pair.Turn();
  }
  for (int i = 0; i < 4; ++i) pair.Turn();
}

TEST(RawMessagesTest, SendsLargePayloadWithoutACopy) {
  Pair pair(16, kSlot, RegisteredArena());
  SendAll(pair, 50, 300'000);
  EXPECT_EQ(pair.ends[1].frames, UpTo(50));
  EXPECT_EQ(pair.ends[1].gaps, 0);
  const MessageStream& stream = *pair.ends[0].stream;
  EXPECT_EQ(stream.direct_bytes(), 50u * (300'000 / kSlot * kSlot));
  EXPECT_EQ(stream.copied_bytes(), 50u * (sizeof(wire::FrameHeader) + 300'000 % kSlot));
  EXPECT_EQ(stream.lost_messages(), 0u);
}

// Why: if headers used up all credit, little would be left for payload.
TEST(RawMessagesTest, SendsFewMessagesBesidesPayload) {
  Pair pair(32, kSlot, RegisteredArena());
  SendAll(pair, 20, 1'000'000);
  EXPECT_EQ(pair.ends[1].frames, UpTo(20));
  EXPECT_LT(pair.sent[0], pair.sent_raw[0] * 8 / 7);
  EXPECT_LT(pair.sent[1], pair.sent[0] / 8) << "credit is sent now and then, not all the time";
}

TEST(RawMessagesTest, CopiesSmallPayloadAndPayloadWithoutARegion) {
  Pair small(16, kSlot, RegisteredArena());
  SendAll(small, 20, 3 * kSlot);
  EXPECT_EQ(small.ends[1].frames, UpTo(20));
  EXPECT_EQ(small.sent_raw[0], 0);

  auto arena = std::make_unique<PaperArena>();
  arena->device->refuses = true;
  Pair refused(16, kSlot, std::move(arena));
  SendAll(refused, 20, 100'000);
  EXPECT_EQ(refused.ends[1].frames, UpTo(20));
  EXPECT_EQ(refused.sent_raw[0], 0);
  EXPECT_TRUE(refused.ends[0].arena->wants_tending) << "but it was requested";
}

// Why: a message may not cross a region or a registration; payload across one is copied.
TEST(RawMessagesTest, SendsNoMessageAcrossTheEndOfARegion) {
  Limits limits;
  limits.arena_region_bytes = 40'000;  // Not a multiple of a message.
  auto arena = std::make_unique<PaperArena>(limits);
  for (std::size_t at = 0; at < arena->memory.size(); at += 40'000) {
    arena->sends.Find(arena->memory.data() + at);
    arena->Update();
  }
  const std::uint32_t most = limits.arena_regions_max;
  EXPECT_EQ(arena->device->now.regions, most);
  Pair pair(16, kSlot, std::move(arena));
  SendAll(pair, 40, 200'000);
  EXPECT_EQ(pair.ends[1].frames, UpTo(40));
  EXPECT_GT(pair.sent_raw[0], 100);
}

// Why: raw messages have no numbers of their own; whichever is lost, later ones must not take its
// place.
// How: each message of three frames is lost once.
TEST(RawMessagesTest, LosesAWholeFrameWhicheverMessageIsLost) {
  int messages = 1;
  for (int lost = 1; lost <= messages; ++lost) {
    SCOPED_TRACE(lost);
    Pair pair(16, kSlot, RegisteredArena());
    int number = 0;
    pair.lose = [&](int from) { return from == 0 && ++number == lost; };
    SendAll(pair, 6, 70'000);
    messages = number;
    for (int i = 0; i < 3; ++i) {
      pair.now += MessageStream::kKeepAliveNs;
      pair.Turn();
    }
    EXPECT_GE(pair.ends[1].frames.size(), 4u)
        << "it may be the end of one and the begin of another";
    EXPECT_LE(pair.ends[1].stream->lost_messages(), 1u);
    EXPECT_EQ(pair.ends[0].arena->sends.has_left(), false);
  }
  EXPECT_GT(messages, 6 * 19);
}

// Two messages of one group are lost, and the header after it, so that the next group could
// complete it.
TEST(RawMessagesTest, DoesNotCompleteAGroupWithTheNextOne) {
  Pair pair(16, kSlot, RegisteredArena());
  int number = 0;
  // 1: a header that announces 7; 2 to 8; 9: announces 7; 10 to 16.
  pair.lose = [&](int from) {
    ++number;
    return from == 0 && (number == 3 || number == 4 || number == 9);
  };
  SendAll(pair, 3, 100'000);
  EXPECT_EQ(pair.ends[1].frames, (std::vector<std::uint64_t>{2, 3}));
}

TEST(RawMessagesTest, CountsAShortMessageAsLost) {
  Pair pair(16, kSlot, RegisteredArena());
  pair.latency = kMs;
  ASSERT_FALSE(pair.ends[0].Write(1, 100'000));
  pair.Turn();
  ASSERT_EQ(pair.in_flight[1].at(2).bytes.size(), kSlot);
  pair.in_flight[1].at(2).bytes.resize(100);
  for (std::uint64_t sequence = 1; sequence <= 5; ++sequence) {
    while (!pair.ends[0].Write(sequence, 100'000)) {
      pair.now += kMs;
      pair.Turn();
    }
  }
  for (int i = 0; i < 5; ++i) {
    pair.now += kMs;
    pair.Turn();
  }
  EXPECT_EQ(pair.ends[1].frames, (std::vector<std::uint64_t>{2, 3, 4, 5}));
}

// Messages are lost and late at random, in both directions, and sends complete at random.
TEST(RawMessagesTest, IsCorrectUnderLossAndDelay) {
  for (std::uint32_t seed = 1; seed <= Seeds(7); ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 source(seed);
    const auto random = [&] { return static_cast<std::uint32_t>(source()); };
    Pair pair(8 + random() % 25, 1024u << random() % 4, RegisteredArena());
    const unsigned loss = random() % 30;
    pair.latency = random() % (3 * kMs);
    pair.lose = [&](int) { return random() % 100 < loss; };
    std::uint64_t next[2] = {1, 1};
    std::uint32_t size[2] = {0, 0};
    for (int turn = 0; turn < 3000 && !testing::Test::HasFailure(); ++turn) {
      for (int side = 0; side < 2; ++side) {
        if (random() % 4 == 0) continue;
        while (pair.ends[side].Write(next[side], size[side])) {
          ++next[side];
          size[side] = random() % 3 == 0 ? random() % 90'000 : random() % 200;
        }
      }
      pair.completes = random() % 4 != 0;
      pair.Turn(random() % 8 != 0);
      pair.now += random() % kMs;
    }
    pair.completes = true;
    pair.lose = [](int) { return false; };
    for (int turn = 0; turn < 800; ++turn) {
      pair.now += 10 * kMs;
      pair.Turn();
    }
    const std::size_t before = pair.ends[1].frames.size();
    for (int turn = 0; turn < 1000; ++turn) {
      while (pair.ends[0].Write(next[0], size[0])) size[0] = ++next[0] % 2 == 0 ? 50'000 : 100;
      pair.Turn();
      pair.now += 10 * kMs;
    }
    EXPECT_GT(pair.ends[1].frames.size(), before + 20);
    EXPECT_GT(pair.sent_raw[0], 100);
  }
}

// Why: transmitted memory may be overwritten once it is acknowledged, and the other side may
// acknowledge it before this side learns that it was sent.
TEST(RawMessagesTest, AFrameIsTransmittedOnceAllOfItWasRead) {
  Pair pair(16, kSlot, RegisteredArena());
  pair.completes = false;
  End& end = pair.ends[0];
  const FileDescriptor none;
  rail::FrameWriter writer(none, *end.stream);
  rail::OutgoingFrame frame;
  frame.header.sequence = 1;
  frame.payload = end.arena->memory.data();
  frame.header.payload_bytes = 5 * kSlot + 100;
  std::memset(end.arena->memory.data(), 1, frame.header.payload_bytes);  // Equals the number.
  writer.Queue(frame);
  frame.header.sequence = 2;
  frame.header.payload_bytes = 0;
  writer.Queue(frame);
  while (writer.Write()) {
  }
  pair.Turn();
  EXPECT_TRUE(writer.is_empty());
  ASSERT_EQ(pair.posted[0].size(), 7u);
  for (int i = 0; i < 6; ++i) {
    writer.CollectReleased();
    EXPECT_EQ(writer.transmitted(), 0u) << i;
    pair.Complete(0);
  }
  writer.CollectReleased();
  EXPECT_EQ(writer.transmitted(), 2u);
}

// Why: when a rail ends, its driver may still have messages to send, from memory that is then
// overwritten.
// How: a queue pair reads some of the posted messages, the rail ends, the memory is overwritten,
// and the rest is read: at each point.
TEST(RawMessagesTest, IgnoresMessagesSentAfterTheRailEnded) {
  std::size_t posted = 1;
  std::size_t most_frames = 0;
  for (std::size_t read = 0; read <= posted; ++read) {
    SCOPED_TRACE(read);
    Pair pair(32, kSlot, RegisteredArena());
    End& from = pair.ends[0];
    std::uint64_t sequence = 1;
    while (from.Write(sequence, 40'000)) ++sequence;
    from.stream->OnTime();
    std::vector<MessageStream::Outgoing> out(1);
    while (from.stream->NextSend(out.back())) out.emplace_back();
    out.pop_back();
    posted = out.size();
    ASSERT_GT(posted, 20u);
    for (std::size_t i = 0; i < posted; ++i) {
      if (i == read) {
        from.stream->Void();
        std::memset(from.arena->memory.data(), 99, from.arena->memory.size());
      }
      pair.Send(0, out[i]);
    }
    for (int i = 0; i < 3; ++i) pair.Turn();  // Checks the bytes of its frames.
    most_frames = std::max(most_frames, pair.ends[1].frames.size());
  }
  EXPECT_GE(most_frames, 2u);
}

// Why: payload comes from a client, which may know the form of headers, but not this connection's
// number.
TEST(RawMessagesTest, DoesNotMistakePayloadForAHeader) {
  Pair pair(16, kSlot, RegisteredArena());
  MessageHeader header;
  header.connection = 78;
  header.number = 3;
  End& from = pair.ends[0];
  EXPECT_FALSE(from.Write(1, 100'000));  // Begins at the arena's first bytes.
  for (std::size_t at = 0; at < 100'000; at += kSlot) {
    std::memcpy(from.arena->memory.data() + at, &header, sizeof header);
  }
  std::vector<std::byte> whole;
  std::size_t sent = 0;
  while (sent < 1000) {
    pair.Turn(/*read=*/false);
    std::byte some[5000];
    iovec part{some, sizeof some};
    ssize_t got = 0;
    while ((got = pair.ends[1].stream->Read(-1, &part, 1)) > 0) {
      whole.insert(whole.end(), some, some + got);
    }
    ++sent;
    if (whole.size() > 20'000) break;
    from.stream->OnTime();
  }
  ASSERT_GT(whole.size(), 20'000u);
  const std::byte* const payload = whole.data() + sizeof(wire::FrameHeader);
  EXPECT_EQ(std::memcmp(payload, from.arena->memory.data(), 20'000), 0);
}

// Why: the process at the other end may send anything. Sending only raw messages costs it nothing,
// and us a little each.
TEST(RawMessagesTest, RefusesAPeerThatSendsOnlyRawMessages) {
  End end(8, kSlot, 1000 * kMs);
  bool taken = true;
  int came = 0;
  for (; taken && came < 1000; ++came) {
    const std::uint32_t slot = end.receives.front();
    end.receives.pop_front();
    taken = end.stream->OnReceived(slot, came % 2 == 0 ? kSlot : 10);
    std::uint32_t again = 0;
    while (end.stream->NextReceive(again)) {
      end.receives.push_back(again);
      end.stream->OnReceivePosted();
    }
  }
  EXPECT_FALSE(taken);
  EXPECT_EQ(came, 8 * 8 + 1);
}

// A number that leaves no room for the received messages must be forged.
TEST(RawMessagesTest, RefusesAHeaderThatContradictsReceivedMessages) {
  End end(8, kSlot, 1000 * kMs);
  MessageHeader header;
  header.connection = 77;
  header.posted = 8;
  header.number = 1;
  header.raw = 3;
  header.raw_bytes = kSlot;
  header.sum = MessageStream::SumOf(header);
  std::memcpy(end.memory.data(), &header, sizeof header);
  ASSERT_TRUE(end.stream->OnReceived(0, kSlot));
  for (std::uint32_t slot = 1; slot <= 3; ++slot) {
    ASSERT_TRUE(end.stream->OnReceived(slot, kSlot));
  }
  header.number = 4;
  header.sum = MessageStream::SumOf(header);
  std::memcpy(end.memory.data() + 4 * kSlot, &header, sizeof header);
  EXPECT_FALSE(end.stream->OnReceived(4, kSlot));
}

}  // namespace
}  // namespace mlxcomm::rdma::raw_messages_test
