// The two words that keep a client's pages while a device has them registered.
#include "daemon/intake/arena_pages.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <new>
#include <thread>
#include <utility>

namespace mlxcomm::intake::arena_pages_test {
namespace {

std::shared_ptr<ArenaPages> MakePages(queue::ArenaPages*& words) {
  auto segment = platform::SharedSegment::Create("mlxcomm-queue", queue::kQueueSegmentBytes);
  EXPECT_TRUE(segment.ok()) << segment.status();
  auto kept = std::make_shared<const platform::SharedSegment>(*std::move(segment));
  words = &(new (kept->data()) queue::QueueHeader{})->arena_pages;
  return std::make_shared<ArenaPages>(std::move(kept));
}

TEST(ArenaPagesTest, StayFromTheFirstRegionToTheLast) {
  queue::ArenaPages* words = nullptr;
  const auto pages = MakePages(words);
  EXPECT_EQ(words->registered, 0u);
  std::shared_ptr<const void> first = pages->Keep();
  std::shared_ptr<const void> second = pages->Keep();
  ASSERT_NE(first, nullptr);
  ASSERT_NE(second, nullptr);
  first.reset();
  EXPECT_EQ(words->registered, 1u);
  second.reset();
  EXPECT_EQ(words->registered, 0u);
}

TEST(ArenaPagesTest, AreNotKeptWhileTheClientReturnsSome) {
  queue::ArenaPages* words = nullptr;
  const auto pages = MakePages(words);
  words->giving_back = 1;
  EXPECT_EQ(pages->Keep(), nullptr);
  EXPECT_EQ(words->registered, 0u) << "the client would keep everything for nobody";
  words->giving_back = 0;
  EXPECT_NE(pages->Keep(), nullptr);
}

// Why: a region may outlive its client's session, for example if a driver hangs.
TEST(ArenaPagesTest, AreKeptByARegionThatOutlivesTheSession) {
  queue::ArenaPages* words = nullptr;
  auto pages = MakePages(words);
  std::shared_ptr<const void> region = pages->Keep();
  pages.reset();
  EXPECT_EQ(words->registered, 1u);
  region.reset();  // The segment goes with it.
}

// Why: if each side read first and announced then, both could continue: a page that a device is
// about to register would be returned, and the device would send its old contents.
// How: both at once, often; if one continues, the other must not.
TEST(ArenaPagesTest, AreNeverKeptAndReturnedAtOnce) {
  queue::ArenaPages* words = nullptr;
  const auto pages = MakePages(words);
  std::atomic<bool> done{false};
  std::atomic<int> inside{0};
  std::atomic<int> met{0};
  std::thread client([&] {
    while (!done) {
      words->giving_back.store(1, std::memory_order_seq_cst);
      if (words->registered.load(std::memory_order_seq_cst) == 0) {
        if (inside.fetch_add(1) != 0) ++met;
        inside.fetch_sub(1);
      }
      words->giving_back.store(0, std::memory_order_release);
    }
  });
  for (int kept = 0; kept < 20'000;) {
    const std::shared_ptr<const void> held = pages->Keep();
    if (held == nullptr) continue;
    ++kept;
    if (inside.fetch_add(1) != 0) ++met;
    inside.fetch_sub(1);
  }
  done = true;
  client.join();
  EXPECT_EQ(met, 0);
}

}  // namespace
}  // namespace mlxcomm::intake::arena_pages_test
