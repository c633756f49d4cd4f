// Hellos are sent and received on the intended interface only; on Linux over virtual cables in the
// test's own network namespace, which come and go.
#include "daemon/platform/multicast_socket.h"

#include <gmock/gmock.h>
#include <poll.h>

#include <array>
#include <optional>
#include <string>
#include <thread>

#include "daemon/platform/interfaces.h"
#include "daemon/platform/machine.h"
#if defined(__linux__)
#include "tests/unit/daemon/platform/own_network.h"
#endif
#include "tests/unit/never.h"

namespace mlxcomm::platform::multicast_socket_test {
namespace {

using testing::HasSubstr;

// ff02::4d4c:5843
constexpr MulticastSocket::Address kGroup = {0xff, 0x02, 0, 0, 0,    0,    0,    0,
                                             0,    0,    0, 0, 0x4d, 0x4c, 0x58, 0x43};

TEST(MulticastSocketTest, NamesAMissingInterface) {
  const auto socket = MulticastSocket::Open({"no-such0", 4'000'000, {}, kGroup, 7470});
  ASSERT_FALSE(socket.ok());
  EXPECT_TRUE(absl::IsUnavailable(socket.status())) << socket.status();
  EXPECT_THAT(std::string(socket.status().message()),
              HasSubstr("no multicast on no-such0, port 7470"));
}

#if defined(__linux__)
// Cables with both ends here: "NAME-l" and "NAME-r".
class MulticastSocketOnCablesTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!EnterOwnNetwork()) GTEST_SKIP() << "no namespaces here";
    // Addresses are usable at once, without duplicate address detection.
    if (!WriteFile("/proc/sys/net/ipv6/conf/default/accept_dad", "0") || !Plug("one") ||
        !Plug("two")) {
      GTEST_SKIP() << "no virtual cables here (iproute2)";
    }
  }
  void TearDown() override {
    Shell("ip link del one-l 2>/dev/null; ip link del two-l 2>/dev/null");
  }
  static bool Plug(const std::string& name) {
    return Shell("ip link add " + name + "-l type veth peer name " + name + "-r && ip link set " +
                 name + "-l up && ip link set " + name + "-r up");
  }
  static std::optional<MulticastSocket::Place> PlaceOf(const std::string& interface) {
    const std::uint64_t deadline = MonotonicNow() + kNeverNs;
    while (MonotonicNow() < deadline) {
      const auto all = ListInterfaces();
      for (const NetworkInterface& one : *all) {
        const auto address = LinkLocalAddressOf(one);
        if (one.name != interface || !one.running || !address.has_value()) continue;
        return MulticastSocket::Place{interface, one.index, *address, kGroup, 7470};
      }
      std::this_thread::yield();
    }
    return std::nullopt;
  }
  // Retries while the address is not ready.
  static absl::StatusOr<MulticastSocket> OpenOn(const std::string& interface) {
    const auto place = PlaceOf(interface);
    if (!place.has_value()) return absl::NotFoundError(interface + " has no address");
    return MulticastSocket::Open(*place);
  }
  static absl::Status SendText(const MulticastSocket& from, const std::string& text) {
    const std::uint64_t deadline = MonotonicNow() + kNeverNs;
    absl::Status sent;
    do {
      sent = from.Send({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
    } while (!sent.ok() && MonotonicNow() < deadline && (std::this_thread::yield(), true));
    return sent;
  }
  // Returns the next datagram of this interface.
  static std::string ReceiveText(const MulticastSocket& socket,
                                 MulticastSocket::Address* from = nullptr) {
    std::array<std::uint8_t, 8> bytes{};
    pollfd events = {socket.descriptor(), POLLIN, 0};
    if (::poll(&events, 1, kNeverMs) != 1) return "nothing";
    const auto received = socket.Receive(bytes);
    if (!received.has_value()) return "none";
    if (!received->is_here) return "elsewhere";
    if (from != nullptr) *from = received->from;
    return std::string(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(received->bytes));
  }
  static bool IsQuiet(const MulticastSocket& socket) {
    std::array<std::uint8_t, 8> bytes{};
    return !socket.Receive(bytes).has_value();
  }
};

// Why: a flood of them would keep a daemon busy reading.
TEST_F(MulticastSocketOnCablesTest, ReceivesOnlyTheRequestedSizeAndBeginning) {
  auto place = PlaceOf("one-r");
  ASSERT_TRUE(place.has_value());
  place->bytes = 12;
  place->beginning = {'m', 'l', 'x', 'c', 'o', 'm', 'm', '1'};
  const auto left = OpenOn("one-l"), right = MulticastSocket::Open(*place);
  ASSERT_TRUE(left.ok() && right.ok()) << left.status() << right.status();
  for (const std::string text :
       {"", "mlxcomm1abc", "mlxcomm1abcde", "Mlxcomm1abcd", "mlxcomm2abcd"}) {
    ASSERT_TRUE(SendText(*left, text).ok());
  }
  ASSERT_TRUE(SendText(*left, "mlxcomm1abcd").ok());
  EXPECT_EQ(ReceiveText(*right), "mlxcomm1");  // The test reads only this much.
  EXPECT_EQ(right->CountUnread(), 5u);
}

TEST_F(MulticastSocketOnCablesTest, ReachesTheOtherEndAndNothingElse) {
  const auto left = OpenOn("one-l"), right = OpenOn("one-r"), other = OpenOn("two-l"),
             far = OpenOn("two-r");
  for (const auto* const socket : {&left, &right, &other, &far}) {
    ASSERT_TRUE(socket->ok()) << socket->status();
  }
  ASSERT_TRUE(SendText(*left, "hello").ok());
  MulticastSocket::Address from{};
  EXPECT_EQ(ReceiveText(*right, &from), "hello");
  EXPECT_EQ(from, PlaceOf("one-l")->source);
  // Any other datagram would have arrived before this one.
  ASSERT_TRUE(SendText(*other, "there").ok());
  EXPECT_EQ(ReceiveText(*far), "there");
  EXPECT_TRUE(IsQuiet(*left));  // Not even the sender receives it.
  EXPECT_TRUE(IsQuiet(*right));
  EXPECT_TRUE(IsQuiet(*other));
}

// Two daemons of one machine, as in tests: each has a socket for the same group and port.
TEST_F(MulticastSocketOnCablesTest, SharesItsPort) {
  const auto left = OpenOn("one-l"), right = OpenOn("one-r"), also = OpenOn("one-r");
  ASSERT_TRUE(left.ok() && right.ok() && also.ok()) << also.status();
  ASSERT_TRUE(SendText(*left, "both").ok());
  EXPECT_EQ(ReceiveText(*right), "both");
  EXPECT_EQ(ReceiveText(*also), "both");
}

TEST_F(MulticastSocketOnCablesTest, ReportsAMissingInterfaceAndReopensWhenItIsBack) {
  auto left = OpenOn("one-l");
  ASSERT_TRUE(left.ok());
  const auto other = OpenOn("two-l"), far = OpenOn("two-r");
  ASSERT_TRUE(other.ok() && far.ok());
  const MulticastSocket::Place before = *PlaceOf("one-l");
  ASSERT_TRUE(Shell("ip link del one-l"));
  const std::string text = "lost";
  const absl::Status lost =
      left->Send({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
  EXPECT_TRUE(absl::IsUnavailable(lost)) << lost;
  EXPECT_THAT(std::string(lost.message()), HasSubstr("cannot send on one-l"));
  EXPECT_FALSE(MulticastSocket::Open(before).ok());
  ASSERT_TRUE(SendText(*other, "stays").ok());  // Other interfaces are not affected.
  EXPECT_EQ(ReceiveText(*far), "stays");
  ASSERT_TRUE(Plug("one"));
  const auto again = OpenOn("one-l"), right = OpenOn("one-r");
  ASSERT_TRUE(again.ok() && right.ok()) << again.status();
  ASSERT_TRUE(SendText(*again, "back").ok());
  EXPECT_EQ(ReceiveText(*right), "back");
}
#endif

}  // namespace
}  // namespace mlxcomm::platform::multicast_socket_test
