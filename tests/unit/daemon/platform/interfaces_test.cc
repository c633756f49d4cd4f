// The interface of a socket's local address.
#include "daemon/platform/interfaces.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <string>
#include <vector>

namespace mlxcomm::platform::interfaces_test {
namespace {

using testing::Contains;

absl::StatusOr<std::string> OfFour(const std::string& text) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  ::inet_pton(AF_INET, text.c_str(), &address.sin_addr);
  return InterfaceOf(reinterpret_cast<const sockaddr*>(&address));
}

absl::StatusOr<std::string> OfSix(const std::string& text, std::uint32_t scope = 0) {
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_scope_id = scope;
  ::inet_pton(AF_INET6, text.c_str(), &address.sin6_addr);
  return InterfaceOf(reinterpret_cast<const sockaddr*>(&address));
}

std::string Loopback() {
  const std::vector<NetworkInterface> all = *ListInterfaces();
  for (const NetworkInterface& one : all) {
    if (one.loopback) return one.name;
  }
  return {};
}

TEST(InterfacesTest, ListsTheLoopbackAsRunningWithItsAddress) {
  const std::vector<NetworkInterface> all = *ListInterfaces();
  for (const NetworkInterface& one : all) {
    if (!one.loopback) continue;
    EXPECT_TRUE(one.running);
    EXPECT_THAT(one.addresses, Contains("127.0.0.1"));
    return;
  }
  FAIL() << "no loopback interface";
}

// Why: nodes of one host may have several rails over the one loopback interface.
TEST(InterfacesTest, ReturnsTheAddressInsteadOfALoopbackInterface) {
  EXPECT_EQ(*OfFour("127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(*OfFour("127.0.0.2"), "127.0.0.2");  // Not listed, but a loopback address.
  EXPECT_EQ(*OfSix("::ffff:127.0.0.1"), "127.0.0.1");
}

TEST(InterfacesTest, NamesTheInterfaceOfEachOfItsAddresses) {
  const std::vector<NetworkInterface> all = *ListInterfaces();
  for (const NetworkInterface& one : all) {
    if (one.loopback) continue;
    for (const std::string& address : one.addresses) {
      if (address.find(':') != std::string::npos) continue;
      EXPECT_EQ(*OfFour(address), one.name);
    }
  }
}

// Why: every interface has a link-local address, and two may have the same one.
TEST(InterfacesTest, LetsTheScopeDecideForLinkLocalAddresses) {
  EXPECT_EQ(*OfSix("fe80::1", ::if_nametoindex(Loopback().c_str())), Loopback());
}

TEST(InterfacesTest, ReportsThatNoInterfaceHasTheAddress) {
  EXPECT_TRUE(absl::IsNotFound(OfFour("203.0.113.77").status()));
}

}  // namespace
}  // namespace mlxcomm::platform::interfaces_test
