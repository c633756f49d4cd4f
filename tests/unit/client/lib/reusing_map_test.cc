// Entries that come and go at the pace of operations.
#include "client/lib/reusing_map.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace mlxcomm::client::reusing_map_test {
namespace {

using Map = ReusingMap<int, std::string>;

TEST(ReusingMapTest, HasWhatWasPutAndNotErased) {
  Map map(4);
  for (int round = 0; round < 100; ++round) {
    for (int key = round; key < round + 4; ++key) map.Put(key, std::to_string(key));
    map.Put(round, "again");
    EXPECT_EQ(map.size(), 4u);
    EXPECT_EQ(map.Find(round)->second, "again");
    EXPECT_EQ(map.Find(round + 3)->second, std::to_string(round + 3));
    for (int key = round; key < round + 4; ++key) map.Erase(map.Find(key));
    EXPECT_EQ(map.size(), 0u);
    EXPECT_EQ(map.Find(round), map.end());
  }
}

// Why: the next entry must lie in the kept node.
TEST(ReusingMapTest, PutsTheNextWhereOneWasErased) {
  Map map(2);
  map.Put(1, "one");
  const std::string* const place = &map.Find(1)->second;
  map.Erase(map.Find(1));
  map.Put(2, "two");
  EXPECT_EQ(&map.Find(2)->second, place);
}

TEST(ReusingMapTest, EndsWhatAnErasedEntryHeld) {
  ReusingMap<int, std::shared_ptr<int>> map(2);
  const auto held = std::make_shared<int>(0);
  map.Put(1, held);
  map.Erase(map.Find(1));
  EXPECT_EQ(held.use_count(), 1);
}

TEST(ReusingMapTest, HoldsMoreThanItWasMadeForAndMayBeErasedWhileItIsLookedThrough) {
  Map map(2);
  for (int key = 0; key < 10; ++key) map.Put(key, std::to_string(key));
  for (auto at = map.begin(); at != map.end();) {
    at = at->first % 2 == 0 ? map.Erase(at) : std::next(at);
  }
  EXPECT_EQ(map.size(), 5u);
  for (int key = 0; key < 10; ++key) EXPECT_EQ(map.Find(key) != map.end(), key % 2 == 1) << key;
}

}  // namespace
}  // namespace mlxcomm::client::reusing_map_test
