// The bytes that the system holds of a connection are reported, and match the measured rate.
#include "daemon/rail/tcp/tcp_socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "proto/system/file_descriptor.h"
#include "tests/unit/never.h"

namespace mlxcomm::rail::tcp_socket_test {
namespace {

// Over loopback; `far` is the accepted end.
void Connect(const FileDescriptor& listener, const FileDescriptor& near, FileDescriptor& far) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const as_any = reinterpret_cast<sockaddr*>(&address);
  socklen_t length = sizeof address;
  ASSERT_EQ(::bind(listener.get(), as_any, length), 0);
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  ASSERT_EQ(::getsockname(listener.get(), as_any, &length), 0);
  ASSERT_EQ(::connect(near.get(), as_any, length), 0);
  far = FileDescriptor(::accept(listener.get(), nullptr, nullptr));
  ASSERT_GE(far.get(), 0);
}

class TcpSocketTest : public testing::Test {
 protected:
  void SetUp() override {
    const FileDescriptor listener(::socket(AF_INET, SOCK_STREAM, 0));
    near_ = FileDescriptor(::socket(AF_INET, SOCK_STREAM, 0));
    ASSERT_NO_FATAL_FAILURE(Connect(listener, near_, far_));
    SetUpSocket(near_.get());
    ASSERT_EQ(::fcntl(near_.get(), F_SETFL, O_NONBLOCK), 0);
  }
  // How much the system accepts while the peer does not read.
  std::size_t Fill() {
    const std::vector<char> bytes(64 * 1024);
    std::size_t all = 0;
    for (;;) {
      const ssize_t sent = ::send(near_.get(), bytes.data(), bytes.size(), 0);
      if (sent <= 0) return all;
      all += static_cast<std::size_t>(sent);
    }
  }
  int SendBuffer() {
    int bytes = 0;
    socklen_t length = sizeof bytes;
    EXPECT_EQ(::getsockopt(near_.get(), SOL_SOCKET, SO_SNDBUF, &bytes, &length), 0);
    return bytes;
  }
  FileDescriptor near_;
  FileDescriptor far_;
};

TEST_F(TcpSocketTest, ReportsUnacknowledgedBytes) {
  ASSERT_EQ(UnacknowledgedBytes(near_.get()).value_or(1), 0u);
  // Far more than the peer's system accepts without a reader.
  const std::size_t written = Fill();
  const std::size_t held = UnacknowledgedBytes(near_.get()).value_or(0);
  EXPECT_GT(held, 0u);
  EXPECT_LE(held, written);
  // Everything is read: nothing is held any more, once that is known here.
  std::vector<char> bytes(64 * 1024);
  for (std::size_t read = 0; read < written;) {
    const ssize_t got = ::recv(far_.get(), bytes.data(), bytes.size(), 0);
    ASSERT_GT(got, 0);
    read += static_cast<std::size_t>(got);
  }
  const auto never = std::chrono::steady_clock::now() + kNever;
  while (UnacknowledgedBytes(near_.get()).value_or(1) > 0) {
    ASSERT_LT(std::chrono::steady_clock::now(), never);
  }
}

TEST_F(TcpSocketTest, ReportsNothingForOtherDescriptors) {
  EXPECT_FALSE(UnacknowledgedBytes(-1).has_value());
}

#if defined(TCP_CONGESTION)
std::string Congestion(int socket) {
  char name[16] = {};
  socklen_t length = sizeof name;
  EXPECT_EQ(::getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name, &length), 0);
  return {name, ::strnlen(name, sizeof name)};
}

// Why: once a connection has used BBR, even for its first moment, the system paces it for good. So
// it must have another algorithm before it is made, on both sides.
TEST(LeavePacingTest, ConnectionsNeverUseBbr) {
  constexpr std::string_view kBbr = "bbr";
  const FileDescriptor listener(::socket(AF_INET, SOCK_STREAM, 0));
  const FileDescriptor near(::socket(AF_INET, SOCK_STREAM, 0));
  const std::string usual = Congestion(near.get());
  for (const int socket : {listener.get(), near.get()}) {
    if (::setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, kBbr.data(), kBbr.size()) != 0) {
      LeavePacing(socket);
      EXPECT_EQ(Congestion(socket), usual) << "left alone if it is not BBR";
      return;
    }
    LeavePacing(socket);
  }
  FileDescriptor far;
  ASSERT_NO_FATAL_FAILURE(Connect(listener, near, far));
  EXPECT_NE(Congestion(near.get()), kBbr);
  EXPECT_NE(Congestion(far.get()), kBbr);
}
#endif

// Why: held data cannot take another rail, and acknowledgements queue behind it.
TEST_F(TcpSocketTest, HoldsLessOfASlowConnectionThanOfAFastOne) {
  const int own = SendBuffer();
  bool fitted = FitSendBuffer(near_.get(), 1.25e8, 0, false);
  ASSERT_TRUE(fitted);
  const int slow = SendBuffer();
  EXPECT_LE(slow, 1024 * 1024);
  EXPECT_GE(slow, 180'000);  // 1.5 ms of it, or the system would have been left alone.
  fitted = FitSendBuffer(near_.get(), 1.25e9, 0, fitted);
  EXPECT_GE(SendBuffer(), slow);
  fitted = FitSendBuffer(near_.get(), 1.25e8, 0, fitted);
  EXPECT_EQ(SendBuffer(), slow);
  // Faster than any system buffers for: the system decides again.
  EXPECT_FALSE(FitSendBuffer(near_.get(), 1e15, 0, fitted));
  EXPECT_GE(SendBuffer(), std::min(own, slow));
}

// Why: holding less than what is under way would slow it, and then it would hold even less.
TEST_F(TcpSocketTest, HoldsMoreOfALongPath) {
  ASSERT_TRUE(FitSendBuffer(near_.get(), 1e7, 0, false));
  const int near_by = SendBuffer();
  if (FitSendBuffer(near_.get(), 1e7, 10'000'000, true)) {
    EXPECT_EQ(SendBuffer(), near_by) << "200 kB are below the minimum";
  }
  if (FitSendBuffer(near_.get(), 1e7, 200'000'000, true)) {
    EXPECT_GT(SendBuffer(), near_by);
  }
}

}  // namespace
}  // namespace mlxcomm::rail::tcp_socket_test
