// Which pieces of clients' arenas are registered, and for how long.
#include "daemon/rdma/arena_regions.h"

#include <gtest/gtest.h>

#include "tests/unit/daemon/rdma/stream_pair.h"

namespace mlxcomm::rdma::arena_regions_test {
namespace {

constexpr std::uint64_t kPiece = 1 << 20;

Limits SmallPieces() {
  Limits limits;
  limits.arena_region_bytes = kPiece;
  return limits;
}

// Why: registered pages stay in memory, and most of an arena is never sent from.
TEST(ArenaRegionsTest, RegistersAPieceBeforeMuchIsSentFromIt) {
  PaperArena arena(SmallPieces());
  EXPECT_FALSE(arena.wants_tending);
  std::byte* const from = arena.memory.data() + 2 * kPiece + 5000;
  EXPECT_EQ(arena.sends.Find(from).known, nullptr);
  ASSERT_TRUE(arena.wants_tending);
  arena.Update();
  const SendRegions::Found found = arena.sends.Find(from);
  ASSERT_NE(found.known, nullptr);
  EXPECT_EQ(found.known->region->data(), arena.memory.data() + 2 * kPiece);
  EXPECT_EQ(found.known->region->bytes(), kPiece);
  EXPECT_EQ(found.bytes, kPiece - 5000);
  EXPECT_EQ(arena.device->asked, 1);
}

TEST(ArenaRegionsTest, RequestsNothingOutsideOfArenas) {
  PaperArena arena;
  std::byte elsewhere{};
  EXPECT_EQ(arena.sends.Find(&elsewhere).known, nullptr);
  EXPECT_FALSE(arena.wants_tending);
}

// Why: a region across such a boundary can be registered, but then sends wrong bytes.
TEST(ArenaRegionsTest, CutsPiecesAtTheBoundary) {
  Limits limits = SmallPieces();
  limits.region_boundary = 1 << 16;
  limits.arena_region_bytes = 100'000;
  PaperArena arena(limits);
  for (std::size_t at = 0; at < arena.memory.size(); at += 4096) {
    std::byte* const from = arena.memory.data() + at;
    if (arena.sends.Find(from).known == nullptr) arena.Update(at * 1'000'000'000);
    const SendRegions::Found found = arena.sends.Find(from);
    if (arena.device->now.regions == limits.arena_regions_max && found.known == nullptr) break;
    ASSERT_NE(found.known, nullptr) << at;
    const Region& region = *found.known->region;
    const auto first = reinterpret_cast<std::uintptr_t>(region.data());
    EXPECT_EQ(first >> 16, (first + region.bytes() - 1) >> 16);
    EXPECT_LE(region.bytes(), 100'000u);
    EXPECT_GE(region.data(), arena.memory.data());
    EXPECT_LE(region.data() + region.bytes(), arena.memory.data() + arena.memory.size());
  }
  EXPECT_GT(arena.device->now.regions, 40u);
}

TEST(ArenaRegionsTest, KeepsToItsShareOfTheDevice) {
  Limits limits = SmallPieces();
  limits.arena_regions_max = 2;
  PaperArena arena(limits);
  for (std::uint64_t i = 0; i < 4; ++i) {
    arena.sends.Find(arena.memory.data() + i * kPiece);
    arena.Update(i * 5'000'000'000);
  }
  EXPECT_EQ(arena.device->now.regions, 2u);
  EXPECT_EQ(arena.device->asked, 2);
}

// Why: the device reads registered memory in place, so its client must not return those pages to
// the system in the meantime; a client without regions should.
TEST(ArenaRegionsTest, PinsTheClientsPagesWhileARegionExists) {
  PaperArena arena;
  int kept = 0;
  bool may_keep = false;
  std::vector<std::byte> memory(kPiece);
  const auto keep = [&]() -> std::shared_ptr<const void> {
    if (!may_keep) return nullptr;
    ++kept;
    return {&kept, [&](const void*) { --kept; }};
  };
  arena.regions.Add({nullptr, memory.data(), memory.size(), -1, keep});
  arena.sends.Refresh(2);
  EXPECT_EQ(kept, 0);
  // The client is returning some pages just now: registering is retried as soon as after a driver's
  // refusal.
  EXPECT_EQ(arena.sends.Find(memory.data()).known, nullptr);
  arena.Update(3);
  EXPECT_EQ(arena.sends.Find(memory.data()).known, nullptr);
  EXPECT_EQ(arena.device->asked, 0);
  may_keep = true;
  arena.sends.Refresh(3 + SendRegions::kAskAgainNs);
  EXPECT_EQ(arena.sends.Find(memory.data()).known, nullptr);
  arena.Update(4 + SendRegions::kAskAgainNs);
  EXPECT_NE(arena.sends.Find(memory.data()).known, nullptr);
  EXPECT_EQ(kept, 1);
  arena.regions.Remove(memory.data());
  arena.Update(5 + SendRegions::kAskAgainNs);
  arena.sends.DropLeft();
  EXPECT_EQ(kept, 0);
}

// Why: other processes have regions as well; a driver's refusal is not a failure, and must not be
// repeated all the time.
TEST(ArenaRegionsTest, RetriesARefusedRegistrationLater) {
  PaperArena arena;
  arena.device->refuses = true;
  std::uint64_t now = 1'000'000'000;
  for (; arena.device->asked < 2; now += 100'000'000) {
    arena.sends.Refresh(now);
    arena.sends.Find(arena.memory.data());
    if (arena.wants_tending) arena.Update(now);
    ASSERT_LT(now, 100'000'000'000u);
  }
  EXPECT_GT(now, ArenaRegions::kRefusedNs);
  arena.device->refuses = false;
  for (; arena.device->now.regions == 0; now += 100'000'000) {
    arena.sends.Refresh(now);
    arena.sends.Find(arena.memory.data());
    if (arena.wants_tending) arena.Update(now);
    ASSERT_LT(now, 100'000'000'000u);
  }
  arena.sends.Refresh(now);
  EXPECT_NE(arena.sends.Find(arena.memory.data()).known, nullptr);
}

// Why: a client may leave at any time, and the queue pair may read at any time.
TEST(ArenaRegionsTest, AnArenaStaysMappedUntilNothingIsSentFromIt) {
  PaperArena paper;
  auto owner = std::make_shared<int>(1);
  const std::weak_ptr<int> mapped = owner;
  std::vector<std::byte> memory(kPiece);
  paper.regions.Add({owner, memory.data(), memory.size()});
  owner.reset();
  paper.sends.Refresh(1);
  paper.sends.Find(memory.data());
  paper.Update();
  SendRegions::Known* const known = paper.sends.Find(memory.data()).known;
  ASSERT_NE(known, nullptr);
  SendRegions::Take(*known);
  SendRegions::Take(*known);

  paper.regions.Remove(memory.data());
  paper.Update();
  EXPECT_EQ(paper.sends.Find(memory.data()).known, nullptr) << "nothing more is sent from it";
  EXPECT_FALSE(paper.sends.has_left());
  paper.sends.Return(*known);
  EXPECT_FALSE(paper.sends.has_left());
  EXPECT_FALSE(mapped.expired());
  EXPECT_EQ(paper.device->now.regions, 1u) << "and it still counts";
  paper.sends.Return(*known);
  ASSERT_TRUE(paper.sends.has_left());
  paper.sends.DropLeft();
  EXPECT_TRUE(mapped.expired());
  EXPECT_EQ(paper.device->now.regions, 0u);
}

TEST(ArenaRegionsTest, AnUnusedArenaIsUnmappedAtOnce) {
  PaperArena paper;
  auto owner = std::make_shared<int>(1);
  const std::weak_ptr<int> mapped = owner;
  std::vector<std::byte> memory(kPiece);
  paper.regions.Add({owner, memory.data(), memory.size()});
  owner.reset();
  paper.regions.Remove(memory.data());
  EXPECT_TRUE(mapped.expired());
  paper.regions.Remove(memory.data());  // Not registered: no effect.
}

// The client leaves while its piece is being registered.
TEST(ArenaRegionsTest, KeepsNothingOfAClientThatLeftMeanwhile) {
  PaperArena paper;
  std::vector<std::byte> memory(kPiece);
  paper.regions.Add({std::make_shared<int>(1), memory.data(), memory.size()});
  paper.sends.Refresh(1);
  paper.sends.Find(memory.data());
  paper.regions.Remove(memory.data());
  paper.Update();
  EXPECT_EQ(paper.device->now.regions, 0u);
  EXPECT_EQ(paper.device->asked, 0);
}

}  // namespace
}  // namespace mlxcomm::rdma::arena_regions_test
