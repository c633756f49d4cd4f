#include "proto/key/cluster_key.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <new>
#include <optional>
#include <vector>

namespace mlxcomm::cluster_key_test {
namespace {

ClusterKey KeyOf(std::uint8_t byte) {
  ClusterKey::Bytes bytes;
  bytes.fill(byte);
  return ClusterKey(bytes);
}

// Why: daemons of different versions and systems must derive the same key.
// How: the value comes from Python's hmac, with extract and expand of RFC 5869 written out.
TEST(ClusterKeyTest, DerivesByHkdf) {
  const DerivedKey derived = KeyOf(7).Derive("proof");
  const std::vector<std::uint8_t> first(derived.begin(), derived.begin() + 8);
  EXPECT_EQ(first, (std::vector<std::uint8_t>{0xd5, 0xad, 0x38, 0x4c, 0x5b, 0x57, 0xda, 0xd8}));
  EXPECT_EQ(KeyOf(7).IdText(), "42d35a0e736c7909");
}

// Why: a key for one purpose must reveal nothing about another, and the boundary between label and
// context must be unambiguous.
TEST(ClusterKeyTest, DiffersByKeyLabelAndContext) {
  const std::vector<std::uint8_t> context = {'x'};
  const std::vector<DerivedKey> all = {KeyOf(7).Derive("proof"), KeyOf(8).Derive("proof"),
                                       KeyOf(7).Derive("rail"), KeyOf(7).Derive("proof", context),
                                       KeyOf(7).Derive("proofx")};
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(std::count(all.begin(), all.end(), all[i]), 1) << i;
  }
}

// Why: freed memory is not cleared, and is reused for other data.
TEST(ClusterKeyTest, IsClearedWhenDestroyed) {
  alignas(DerivedKey) std::array<unsigned char, sizeof(DerivedKey)> derived{};
  auto* const key = new (derived.data()) DerivedKey(KeyOf(7).Derive("rail"));
  EXPECT_EQ(std::count(derived.begin(), derived.end(), 0), std::count(key->begin(), key->end(), 0));
  key->~DerivedKey();
  EXPECT_EQ(std::count(derived.begin(), derived.end(), 0), 32);
  alignas(ClusterKey) std::array<unsigned char, sizeof(ClusterKey)> own{};
  auto* const cluster_key = new (own.data()) ClusterKey(KeyOf(7));
  EXPECT_EQ(std::count(own.begin(), own.end(), 7), 32);
  cluster_key->~ClusterKey();
  EXPECT_EQ(std::count(own.begin(), own.end(), 0), 32);
}

TEST(ClusterKeyTest, RandomKeysAreNeverTheSame) {
  EXPECT_FALSE(ClusterKey::MakeRandom() == ClusterKey::MakeRandom());
}

TEST(ClusterKeyTest, FindsEitherKeyByItsId) {
  const ClusterKeys keys{KeyOf(2), KeyOf(1), ""};
  EXPECT_EQ(keys.Find(KeyOf(2).id()), &keys.current);
  EXPECT_EQ(keys.Find(KeyOf(1).id()), &*keys.previous);
  EXPECT_EQ(keys.Find(KeyOf(3).id()), nullptr);
  const ClusterKeys one{KeyOf(2), std::nullopt, ""};
  EXPECT_EQ(one.Find(KeyOf(1).id()), nullptr);
}

}  // namespace
}  // namespace mlxcomm::cluster_key_test
