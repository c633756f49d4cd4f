#include "daemon/fabric/authentication.h"

#include <gtest/gtest.h>

#include <vector>

namespace mlxcomm::fabric {
namespace {

TEST(AuthenticationTest, MacCoversRoleGreetingsAndMessage) {
  const std::vector<std::uint8_t> key(32, 1), message(10, 2);
  const wire::Greeting one = MakeGreeting("c"), two = MakeGreeting("c");
  const wire::Mac mac = MakeMac(key, Role::kDialer, one, two, message);
  EXPECT_TRUE(EqualInConstantTime(mac, MakeMac(key, Role::kDialer, one, two, message)));
  EXPECT_FALSE(EqualInConstantTime(mac, MakeMac(key, Role::kAcceptor, one, two, message)));
  EXPECT_FALSE(EqualInConstantTime(mac, MakeMac(key, Role::kDialer, two, one, message)));
  EXPECT_FALSE(EqualInConstantTime(mac, MakeMac(key, Role::kDialer, one, two, {})));
  const std::vector<std::uint8_t> other_key(32, 3);
  EXPECT_FALSE(EqualInConstantTime(mac, MakeMac(other_key, Role::kDialer, one, two, message)));
}

TEST(AuthenticationTest, GreetingsAreNeverTheSame) {
  EXPECT_NE(MakeGreeting("c").nonce, MakeGreeting("c").nonce);
}

TEST(AuthenticationTest, CheckGreetingSaysWhatIsWrong) {
  wire::Greeting greeting = MakeGreeting("c");
  EXPECT_EQ(CheckGreeting(greeting, "c"), "");
  EXPECT_EQ(CheckGreeting(greeting, "d"), "it belongs to another cluster");
  greeting.version = 99;
  EXPECT_EQ(CheckGreeting(greeting, "c"), "it speaks another version");
  greeting.magic = 0;
  EXPECT_EQ(CheckGreeting(greeting, "c"), "it is not an mlxcommd");
}

// Why: the other side fills the field; it need not have ended it.
TEST(AuthenticationTest, TextIsBoundedByItsField) {
  char field[4] = {'a', 'b', 'c', 'd'};
  EXPECT_EQ(TextOf(field), "abcd");
  PutText("longer than that", field);
  EXPECT_EQ(TextOf(field), "lon");
  PutText("", field);
  EXPECT_EQ(TextOf(field), "");
}

}  // namespace
}  // namespace mlxcomm::fabric
