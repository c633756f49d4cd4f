// Which datagrams are believed: those that a stranger on the cable may send are recognized before
// anything in them is used.
#include "daemon/discovery/sealed_hello.h"

#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/daemon/discovery/hellos.h"

namespace mlxcomm::discovery::sealed_hello_test {
namespace {

using Look = HelloSeal::Look;

class SealedHelloTest : public testing::Test {
 protected:
  std::vector<std::uint8_t> Sealed() { return BytesOf(hello_, seal_); }
  // Sealed with the key.
  bool IsTaken() { return seal_.Open(Sealed()).has_value(); }

  HelloSeal seal_{KeyOf(1), "lab"};
  wire::DiscoveryHello hello_ = HelloOf(7, 1);
};

TEST_F(SealedHelloTest, TakesWhatTheSameKeyAndClusterHaveSealed) {
  const std::vector<std::uint8_t> sealed = Sealed();
  EXPECT_EQ(seal_.LookAt(sealed), Look::kOurs);
  const auto opened = seal_.Open(sealed);
  ASSERT_TRUE(opened.has_value());
  EXPECT_EQ(opened->node_id, hello_.node_id);
  EXPECT_EQ(opened->sequence, 1u);
}

TEST_F(SealedHelloTest, TellsAnotherClusterByItsTag) {
  EXPECT_EQ(seal_.LookAt(BytesOf(hello_, HelloSeal(KeyOf(2), "lab"))), Look::kForeign);
  EXPECT_EQ(seal_.LookAt(BytesOf(hello_, HelloSeal(KeyOf(1), "other"))), Look::kForeign);
}

// The tag is not secret: a stranger that copies it still has no key.
TEST_F(SealedHelloTest, RefusesAnotherKeyWithACopiedTag) {
  wire::DiscoveryHello hello = hello_;
  seal_.Seal(hello);
  const wire::ClusterTag tag = hello.tag;
  std::vector<std::uint8_t> forged = BytesOf(hello_, HelloSeal(KeyOf(2), "lab"));
  std::memcpy(forged.data() + offsetof(wire::DiscoveryHello, tag), tag.data(), tag.size());
  EXPECT_EQ(seal_.LookAt(forged), Look::kOurs);
  EXPECT_FALSE(seal_.Open(forged).has_value());
}

TEST_F(SealedHelloTest, FindsEveryLengthButOneMalformed) {
  std::vector<std::uint8_t> sealed = Sealed();
  for (std::size_t bytes = 0; bytes < sealed.size(); ++bytes) {
    EXPECT_EQ(seal_.LookAt(std::span(sealed).first(bytes)), Look::kMalformed);
    EXPECT_FALSE(seal_.Open(std::span(sealed).first(bytes)).has_value());
  }
  sealed.push_back(0);
  EXPECT_EQ(seal_.LookAt(sealed), Look::kMalformed);
  EXPECT_FALSE(seal_.Open(sealed).has_value());
}

TEST_F(SealedHelloTest, FindsAnotherVersionMalformed) {
  std::vector<std::uint8_t> sealed = Sealed();
  sealed[offsetof(wire::DiscoveryHello, version)] ^= 2;
  EXPECT_EQ(seal_.LookAt(sealed), Look::kMalformed);
}

TEST_F(SealedHelloTest, RefusesEachFlippedBit) {
  const std::vector<std::uint8_t> sealed = Sealed();
  for (std::size_t bit = 0; bit < 8 * sealed.size(); ++bit) {
    std::vector<std::uint8_t> other = sealed;
    other[bit / 8] ^= static_cast<std::uint8_t>(1u << bit % 8);
    EXPECT_FALSE(seal_.LookAt(other) == Look::kOurs && seal_.Open(other).has_value()) << bit;
  }
}

// Why: a daemon that holds the key may still have a bug.
TEST_F(SealedHelloTest, RefusesProvedNonsense) {
  const wire::DiscoveryHello fine = hello_;
  const auto refuses = [&](auto spoil) {
    hello_ = fine;
    spoil(hello_);
    return !IsTaken();
  };
  EXPECT_FALSE(refuses([](auto&) {}));
  EXPECT_FALSE(refuses([](auto& h) { h.heard_count = wire::kHeardNodesMax; }));
  EXPECT_TRUE(refuses([](auto& h) { h.heard_count = wire::kHeardNodesMax + 1; }));
  EXPECT_TRUE(refuses([](auto& h) { h.heard_count = ~0u; }));
  EXPECT_TRUE(refuses([](auto& h) { h.incarnation = 0; }));
  EXPECT_TRUE(refuses([](auto& h) { h.sequence = 0; }));
  EXPECT_TRUE(refuses([](auto& h) { h.nonce = 0; }));
  EXPECT_TRUE(refuses([](auto& h) { h.port = 0; }));
  EXPECT_TRUE(refuses([](auto& h) { h.address[0] = 0x20; }));
  EXPECT_TRUE(refuses([](auto& h) { std::memset(h.node_name, 0, sizeof h.node_name); }));
  EXPECT_TRUE(refuses([](auto& h) { h.node_name[0] = '\x1b'; }));
  EXPECT_TRUE(refuses([](auto& h) { h.interface_name[0] = '\n'; }));
  EXPECT_TRUE(refuses([](auto& h) { h.interface_name[0] = '\0'; }));
  // Without an end: the whole field is the name.
  EXPECT_FALSE(refuses([](auto& h) { std::memset(h.node_name, 'x', sizeof h.node_name); }));
}

}  // namespace
}  // namespace mlxcomm::discovery::sealed_hello_test
