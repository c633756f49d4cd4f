// The last events of a thread, read while it writes.
#include "daemon/record/event_ring.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace mlxcomm::record::event_ring_test {
namespace {

// Every field is derived from the number, so that a mixture of two events is detected.
Event Numbered(std::uint64_t number) {
  Event event;
  event.kind = EventKind::kSent;
  event.time_ns = number;
  event.duration_ns = ~number;
  event.bytes = number * 3;
  event.group = number + 7;
  event.number = number ^ 0x5555;
  event.source_rank = static_cast<std::uint32_t>(number);
  event.destination_rank = static_cast<std::uint32_t>(~number);
  event.tag = static_cast<std::uint32_t>(number * 5);
  event.party = static_cast<std::uint32_t>(number + 1);
  event.step = static_cast<std::uint16_t>(number);
  return event;
}

bool IsWhole(const Event& event) {
  const Event expected = Numbered(event.time_ns);
  return event.duration_ns == expected.duration_ns && event.bytes == expected.bytes &&
         event.name() == expected.name() && event.party == expected.party &&
         event.step == expected.step && event.kind == expected.kind;
}

std::vector<std::uint64_t> TimesOf(const EventRing& ring, std::size_t most,
                                   std::uint64_t first = 0) {
  std::vector<Event> events;
  ring.Copy(most, first, events);
  std::vector<std::uint64_t> times;
  for (const Event& event : events) {
    EXPECT_TRUE(IsWhole(event));
    times.push_back(event.time_ns);
  }
  return times;
}

// Writes from `first` on until it is destroyed, even by a test that fails.
class BusyWriter {
 public:
  BusyWriter(EventRing& ring, std::uint64_t first)
      : thread_([this, &ring, first] {
          for (std::uint64_t i = first; !stop_.load(std::memory_order_relaxed); ++i) {
            ring.Write(Numbered(i));
          }
        }) {}
  ~BusyWriter() {
    stop_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

TEST(EventRingTest, KeepsTheNewestInTheirOrderOnceItIsFull) {
  EventRing ring(4);
  for (std::uint64_t i = 0; i < 3; ++i) ring.Write(Numbered(i));
  EXPECT_EQ(TimesOf(ring, 8), (std::vector<std::uint64_t>{0, 1, 2}));
  for (std::uint64_t i = 3; i < 11; ++i) ring.Write(Numbered(i));
  EXPECT_EQ(TimesOf(ring, 8), (std::vector<std::uint64_t>{7, 8, 9, 10}));
  EXPECT_EQ(ring.written(), 11u);
}

TEST(EventRingTest, CopiesAsManyAsRequestedAndNoneBeforeTheFirst) {
  EventRing ring(8);
  for (std::uint64_t i = 0; i < 6; ++i) ring.Write(Numbered(i));
  EXPECT_EQ(TimesOf(ring, 2), (std::vector<std::uint64_t>{4, 5}));
  EXPECT_EQ(TimesOf(ring, 8, 3), (std::vector<std::uint64_t>{3, 4, 5}));
  EXPECT_TRUE(TimesOf(ring, 8, 6).empty());
}

TEST(EventRingTest, AppendsToTheCopiedEvents) {
  EventRing ring(4);
  ring.Write(Numbered(9));
  std::vector<Event> events = {Numbered(1), Numbered(2)};
  ring.Copy(4, 0, events);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[1].time_ns, 2u);
  EXPECT_EQ(events[2].time_ns, 9u);
}

// Why: the writer never waits, so it overtakes readers; no reader may get a torn event.
// How: a small ring, in which the writer overtakes copies, as missing events show; every field
// contains the event's number.
TEST(EventRingTest, NeverShowsATornEventToAReaderThatItOvertakes) {
  constexpr std::uint64_t kSize = 8;
  constexpr std::uint64_t kOvertaken = 200;
  constexpr std::uint64_t kCopiesMax = 5'000'000;  // Where the two share one core.
  EventRing ring(kSize);
  for (std::uint64_t i = 0; i < kSize; ++i) ring.Write(Numbered(i));
  const BusyWriter writer(ring, kSize);
  std::vector<Event> events;
  std::uint64_t overtaken = 0;
  for (std::uint64_t copies = 0; overtaken < kOvertaken && copies < kCopiesMax; ++copies) {
    events.clear();
    ring.Copy(kSize, 0, events);
    if (events.size() < kSize) ++overtaken;
    for (std::size_t i = 0; i < events.size(); ++i) {
      ASSERT_TRUE(IsWhole(events[i])) << "after " << copies << " copies";
      ASSERT_EQ(events[i].time_ns, events[0].time_ns + i);
    }
  }
  EXPECT_GT(overtaken, 0u) << "nothing has been tried";
}

}  // namespace
}  // namespace mlxcomm::record::event_ring_test
