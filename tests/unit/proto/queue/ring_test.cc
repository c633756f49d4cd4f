// The queue's rings and descriptor passing.
#include "proto/queue/ring.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "proto/queue/descriptor_passing.h"
#include "proto/queue/doorbell.h"
#include "tests/unit/never.h"

namespace mlxcomm::queue::ring_test {
namespace {

struct Ring {
  RingPositions positions{};
  std::vector<CompletionEntry> slots{8};
  CompletionProducer producer{&positions, slots.data(), 8};
  CompletionConsumer consumer{&positions, slots.data(), 8};
};

CompletionEntry Entry(std::uint64_t ticket, const std::string& message = {}) {
  CompletionEntry entry{};
  entry.ticket = ticket;
  entry.message_bytes =
      static_cast<std::uint16_t>(message.copy(entry.message, kFailureMessageBytesMax));
  return entry;
}

TEST(RingTest, CarriesEntriesAndMessagesInOrderRoundAndRound) {
  Ring ring;
  CompletionEntry entry;
  EXPECT_EQ(ring.consumer.Pop(entry), RingResult::kNothing);
  for (std::uint64_t i = 0; i < 100; ++i) {
    const std::string message(i * 4, 'm');
    ASSERT_EQ(ring.producer.Push(Entry(i, message)), RingResult::kDone);
    ASSERT_EQ(ring.consumer.Pop(entry), RingResult::kDone);
    EXPECT_EQ(entry.ticket, i);
    EXPECT_EQ(std::string(entry.message, entry.message_bytes), message);
  }
}

TEST(RingTest, ReportsThatItIsFull) {
  Ring ring;
  for (std::uint64_t i = 0; i < 8; ++i) ASSERT_EQ(ring.producer.Push(Entry(i)), RingResult::kDone);
  EXPECT_EQ(ring.producer.Push(Entry(9)), RingResult::kNothing);
}

// The other process may write any position.
TEST(RingTest, ReportsImpossiblePositionsAsCorrupt) {
  Ring ring;
  CompletionEntry entry;
  ring.positions.written = 9;
  EXPECT_EQ(ring.consumer.Pop(entry), RingResult::kCorrupt);
  ring.positions.read = 5;
  EXPECT_EQ(ring.producer.Push(Entry(1)), RingResult::kCorrupt);
}

TEST(RingTest, LimitsAnInvalidMessageLength) {
  Ring ring;
  ASSERT_EQ(ring.producer.Push(Entry(1, "text")), RingResult::kDone);
  ring.slots[0].message_bytes = 65535;
  CompletionEntry entry;
  ASSERT_EQ(ring.consumer.Pop(entry), RingResult::kDone);
  EXPECT_LE(entry.message_bytes, kFailureMessageBytesMax);
}

// Why: sleeping is a race of two words; a lost wake-up would hang a client.
// How: a consumer that sleeps on its doorbell whenever possible, and a producer that rings only on
// request.
TEST(RingTest, LosesNoWakeUp) {
  auto ring = std::make_unique<Ring>();
  int ends[2];
  ASSERT_TRUE(MakeDoorbellPair(ends));
  constexpr std::uint64_t kEntries = 20'000;
  std::thread consumer([&] {
    CompletionEntry entry;
    for (std::uint64_t next = 0; next < kEntries;) {
      if (ring->consumer.Pop(entry) == RingResult::kDone) {
        ASSERT_EQ(entry.ticket, next++);
        continue;
      }
      if (!ring->consumer.PrepareToSleep()) continue;
      ASSERT_EQ(WaitForDoorbell(ends[1], kNeverNs), DoorbellState::kRung);
      ring->consumer.WakeUp();
    }
  });
  for (std::uint64_t i = 0; i < kEntries;) {
    if (ring->producer.Push(Entry(i)) != RingResult::kDone) {
      std::this_thread::yield();
      continue;
    }
    ++i;
    if (ring->producer.ConsumerSleeps()) RingDoorbell(ends[0]);
  }
  consumer.join();
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(DescriptorPassingTest, CarriesDescriptorsAndReadsOnlyTheMessage) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  int pipe_ends[2];
  ASSERT_EQ(::pipe(pipe_ends), 0);
  ASSERT_TRUE(SendWithDescriptors(ends[0], "12345678rest", 12, pipe_ends, 2, 1'000'000'000));
  char data[8];
  int received[1] = {-1};
  int count = 0;
  ASSERT_TRUE(ReceiveWithDescriptors(ends[1], data, 8, received, 1, &count, 1'000'000'000));
  EXPECT_EQ(std::memcmp(data, "12345678", 8), 0);
  EXPECT_EQ(count, 1);  // The surplus one was closed.
  EXPECT_NE(::fcntl(received[0], F_GETFD) & FD_CLOEXEC, 0);
  ASSERT_EQ(::read(ends[1], data, 8), 4);
  EXPECT_EQ(std::memcmp(data, "rest", 4), 0);
  ::close(received[0]);
  for (const int end : {ends[0], ends[1], pipe_ends[0], pipe_ends[1]}) ::close(end);
}

TEST(DescriptorPassingTest, FailsAtTheDeadlineAndAtTheEnd) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  char data[8];
  int count = 0;
  EXPECT_FALSE(ReceiveWithDescriptors(ends[1], data, 8, nullptr, 0, &count, 1'000'000));
  EXPECT_EQ(errno, ETIMEDOUT);
  ::close(ends[0]);
  EXPECT_FALSE(ReceiveWithDescriptors(ends[1], data, 8, nullptr, 0, &count, 1'000'000'000));
  ::close(ends[1]);
}

}  // namespace
}  // namespace mlxcomm::queue::ring_test
