#include "daemon/fabric/authentication.h"

#include <gtest/gtest.h>

#include <vector>

#include "daemon/rail/text_field.h"
#include "tests/unit/daemon/fabric/some_keys.h"

namespace mlxcomm::fabric::authentication_test {
namespace {

wire::Greeting Greeting(const ClusterKeys& keys = KeysOf(7),
                        wire::Security wanted = wire::Security::kPlainWillDo) {
  return MakeGreeting("c", keys, wanted);
}

TEST(AuthenticationTest, MacCoversRoleGreetingsAndMessage) {
  const std::vector<std::uint8_t> key(32, 1), message(10, 2);
  const wire::Greeting one = Greeting(), two = Greeting();
  const wire::Mac mac = MakeMac(key, rail::Role::kDialer, one, two, message);
  EXPECT_TRUE(EqualInConstantTime(mac, MakeMac(key, rail::Role::kDialer, one, two, message)));
  EXPECT_FALSE(EqualInConstantTime(mac, MakeMac(key, rail::Role::kAcceptor, one, two, message)));
  EXPECT_FALSE(EqualInConstantTime(mac, MakeMac(key, rail::Role::kDialer, two, one, message)));
  EXPECT_FALSE(EqualInConstantTime(mac, MakeMac(key, rail::Role::kDialer, one, two, {})));
  const std::vector<std::uint8_t> other_key(32, 3);
  EXPECT_FALSE(
      EqualInConstantTime(mac, MakeMac(other_key, rail::Role::kDialer, one, two, message)));
}

TEST(AuthenticationTest, GreetingsAreNeverTheSame) {
  EXPECT_NE(Greeting().nonce, Greeting().nonce);
}

TEST(AuthenticationTest, CheckGreetingReportsTheFault) {
  wire::Greeting greeting = Greeting();
  const auto expect = [&](const char* cluster, LinkReason reason, const char* text) {
    const GreetingFault fault = CheckGreeting(greeting, cluster);
    EXPECT_EQ(fault.reason, reason) << text;
    EXPECT_EQ(fault.text, text);
  };
  expect("c", LinkReason::kNone, "");
  expect("d", LinkReason::kWrongCluster, "it belongs to another cluster");
  greeting.security = static_cast<wire::Security>(0);
  expect("c", LinkReason::kVersionTooFar,
         "it wants a security level that this version does not know");
  greeting.version = 99;
  expect("c", LinkReason::kVersionTooFar, "it speaks protocol version 99, and this daemon 7");
  greeting.older = 99;  // Back to 0.
  expect("c", LinkReason::kNotADaemon, "its greeting names no protocol version");
  greeting.magic = 0;
  expect("c", LinkReason::kNotADaemon, "it is not an mlxcommd");
}

// Why: while machines change their key one by one, each pair must find a common key, the same on
// both sides.
TEST(AuthenticationTest, BothSidesChooseTheNewestKeyThatTheyShare) {
  const auto chosen = [](const ClusterKeys& dialer, const ClusterKeys& acceptor) {
    const wire::Greeting one = Greeting(dialer), other = Greeting(acceptor);
    const ClusterKey* const dialers = ChooseKey(dialer, one, other);
    const ClusterKey* const acceptors = ChooseKey(acceptor, one, other);
    EXPECT_EQ(dialers == nullptr, acceptors == nullptr);
    if (dialers == nullptr || acceptors == nullptr) return 0;
    EXPECT_TRUE(*dialers == *acceptors);
    return int{dialers->bytes()[0]};
  };
  EXPECT_EQ(chosen(KeysOf(1), KeysOf(1)), 1);
  EXPECT_EQ(chosen(KeysOf(2, 1), KeysOf(1)), 1);
  EXPECT_EQ(chosen(KeysOf(1), KeysOf(2, 1)), 1);
  EXPECT_EQ(chosen(KeysOf(2, 1), KeysOf(2, 1)), 2);
  EXPECT_EQ(chosen(KeysOf(2, 1), KeysOf(2)), 2);
  EXPECT_EQ(chosen(KeysOf(2), KeysOf(2, 1)), 2);
  EXPECT_EQ(chosen(KeysOf(3, 2), KeysOf(2, 1)), 2);
  EXPECT_EQ(chosen(KeysOf(2), KeysOf(1)), 0);
  EXPECT_EQ(chosen(KeysOf(3, 2), KeysOf(1)), 0);
}

// Why: TLS must belong to this proof, not to another one that is relayed.
TEST(AuthenticationTest, TlsKeyCoversAllMessages) {
  const wire::Greeting one = Greeting(), other = Greeting();
  wire::Proof proof{};
  const DerivedKey key = MakeTlsKey(KeyOf(7), one, other, proof, proof);
  EXPECT_EQ(key, MakeTlsKey(KeyOf(7), one, other, proof, proof));
  EXPECT_NE(key, MakeTlsKey(KeyOf(8), one, other, proof, proof));
  EXPECT_NE(key, MakeTlsKey(KeyOf(7), other, one, proof, proof));
  wire::Proof changed = proof;
  changed.mac[31] = 1;
  EXPECT_NE(key, MakeTlsKey(KeyOf(7), one, other, changed, proof));
  EXPECT_NE(key, MakeTlsKey(KeyOf(7), one, other, proof, changed));
}

// Why: the other side fills the field, perhaps without a terminator.
TEST(AuthenticationTest, TextIsBoundedByItsField) {
  char field[4] = {'a', 'b', 'c', 'd'};
  EXPECT_EQ(rail::TextOf(field), "abcd");
  rail::PutText("longer than that", field);
  EXPECT_EQ(rail::TextOf(field), "lon");
  rail::PutText("", field);
  EXPECT_EQ(rail::TextOf(field), "");
}

}  // namespace
}  // namespace mlxcomm::fabric::authentication_test
