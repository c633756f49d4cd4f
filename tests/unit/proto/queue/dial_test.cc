// A local process's hello, answered by daemons of all kinds.
#include "proto/queue/dial.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "proto/queue/descriptor_passing.h"

namespace mlxcomm::queue::dial_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::uint64_t kPatienceNs = 60'000'000'000;

// Listens in a folder of its own; each connection gets what `answer` does with it.
class FakeDaemon {
 public:
  explicit FakeDaemon(std::function<void(int)> answer) {
    char folder[] = "/tmp/mlxcomm-dial-XXXXXX";
    if (::mkdtemp(folder) == nullptr) std::abort();
    folder_ = folder;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path().copy(address.sun_path, sizeof address.sun_path - 1);
    listener_ = ::socket(AF_UNIX, SOCK_STREAM, 0);
    if (::bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        ::listen(listener_, 8) != 0 || ::pipe(stop_) != 0) {
      std::abort();
    }
    thread_ = std::thread([this, answer = std::move(answer)] {
      for (;;) {
        pollfd waited[2] = {{listener_, POLLIN, 0}, {stop_[0], POLLIN, 0}};
        ::poll(waited, 2, -1);
        if (waited[1].revents != 0) return;
        const int connection = ::accept(listener_, nullptr, nullptr);
        answer(connection);
        ::close(connection);
      }
    });
  }
  ~FakeDaemon() {
    ::close(stop_[1]);
    thread_.join();
    ::close(stop_[0]);
    ::close(listener_);
    ::unlink(path().c_str());
    ::rmdir(folder_.c_str());
  }
  std::string path() const { return folder_ + "/socket"; }

 private:
  std::string folder_;
  int listener_ = -1;
  int stop_[2] = {-1, -1};
  std::thread thread_;
};

DaemonHello Welcome() {
  DaemonHello hello{};
  hello.magic = kDaemonHelloMagic;
  hello.version = kHelloVersion;
  return hello;
}

DaemonHello Refusal(FailureCode code, const std::string& message) {
  DaemonHello hello = Welcome();
  hello.failure_code = code;
  message.copy(hello.message, sizeof hello.message);
  return hello;
}

// Reads the hello and sends the answer with `descriptors` copies of the connection.
std::function<void(int)> Answering(const DaemonHello& hello, int descriptors) {
  return [hello, descriptors](int connection) {
    ClientHello asked;
    int none[1];
    int count = 0;
    if (!ReceiveWithDescriptors(connection, &asked, sizeof asked, none, 0, &count, kPatienceNs)) {
      return;
    }
    const int copies[kDescriptorsMax] = {connection, connection, connection, connection};
    (void)SendWithDescriptors(connection, &hello, sizeof hello, copies, descriptors, kPatienceNs);
  };
}

Failure DialOnce(const FakeDaemon& daemon, Dialed& dialed) {
  return Dial(daemon.path(), ProcessRole::kClient, 0, kPatienceNs, dialed);
}

TEST(DialTest, BringsTheDescriptorsOfAWelcome) {
  const FakeDaemon daemon(Answering(Welcome(), kClientDescriptors));
  Dialed dialed;
  const Failure failure = DialOnce(daemon, dialed);
  ASSERT_TRUE(failure.ok()) << failure.message;
  EXPECT_GE(dialed.connection, 0);
  ASSERT_EQ(dialed.descriptor_count, kClientDescriptors);
  for (const int descriptor : dialed.descriptors) EXPECT_EQ(::close(descriptor), 0);
  EXPECT_EQ(::close(dialed.connection), 0);
}

TEST(DialTest, RefusesAWelcomeWithTooFewDescriptors) {
  const FakeDaemon daemon(Answering(Welcome(), 2));
  Dialed dialed;
  const Failure failure = DialOnce(daemon, dialed);
  EXPECT_EQ(failure.code, FailureCode::kUnavailable);
  EXPECT_EQ(dialed.connection, -1);
  EXPECT_EQ(dialed.descriptor_count, 0);
}

TEST(DialTest, PassesARefusalOn) {
  const FakeDaemon daemon(Answering(Refusal(FailureCode::kPermissionDenied, "not you"), 0));
  Dialed dialed;
  const Failure failure = DialOnce(daemon, dialed);
  EXPECT_EQ(failure.code, FailureCode::kPermissionDenied);
  EXPECT_THAT(failure.message, AllOf(HasSubstr(daemon.path()), HasSubstr("not you")));
}

TEST(DialTest, BoundsAMessageWithoutEnd) {
  const FakeDaemon daemon(
      Answering(Refusal(FailureCode::kResourceExhausted, std::string(4096, 'x')), 0));
  Dialed dialed;
  EXPECT_LT(DialOnce(daemon, dialed).message.size(), 512u);
}

// Why: a daemon with too many hellos answers without reading, so that the process may
// find the connection closed before it has said a word.
// How: often, for the order is the scheduler's.
TEST(DialTest, HearsARefusalThatComesBeforeItsOwnHello) {
  const DaemonHello refusal = Refusal(FailureCode::kResourceExhausted, "try again");
  const FakeDaemon daemon([refusal](int connection) {
    (void)SendWithDescriptors(connection, &refusal, sizeof refusal, nullptr, 0, kPatienceNs);
  });
  for (int i = 0; i < 200; ++i) {
    Dialed dialed;
    const Failure failure = DialOnce(daemon, dialed);
    ASSERT_EQ(failure.code, FailureCode::kResourceExhausted) << failure.message;
    ASSERT_THAT(failure.message, HasSubstr("try again"));
  }
}

TEST(DialTest, SaysWhenAnotherReleaseAnswers) {
  DaemonHello hello = Welcome();
  hello.version = 99;
  const FakeDaemon daemon(Answering(hello, 0));
  Dialed dialed;
  const Failure failure = DialOnce(daemon, dialed);
  EXPECT_EQ(failure.code, FailureCode::kUnavailable);
  EXPECT_THAT(failure.message, AllOf(HasSubstr("version 99"), HasSubstr("install")));
}

TEST(DialTest, SaysWhenSomethingElseListens) {
  DaemonHello hello = Welcome();
  hello.magic = 1;
  const FakeDaemon daemon(Answering(hello, 0));
  Dialed dialed;
  EXPECT_THAT(DialOnce(daemon, dialed).message, HasSubstr("is not mlxcommd"));
}

TEST(DialTest, SaysWhenTheDaemonClosesWithoutAWord) {
  const FakeDaemon daemon([](int) {});
  Dialed dialed;
  const Failure failure = DialOnce(daemon, dialed);
  EXPECT_EQ(failure.code, FailureCode::kUnavailable);
  EXPECT_THAT(failure.message, HasSubstr("does not answer"));
}

TEST(DialTest, GivesUpAtItsDeadline) {
  const FakeDaemon daemon([](int connection) {  // Until the other side gives up.
    char byte;
    while (::read(connection, &byte, 1) > 0) {
    }
  });
  Dialed dialed;
  const Failure failure =
      Dial(daemon.path(), ProcessRole::kTool, 0, /*timeout_ns=*/20'000'000, dialed);
  EXPECT_EQ(failure.code, FailureCode::kDeadlineExceeded);
  EXPECT_THAT(failure.message, AllOf(HasSubstr(daemon.path()), HasSubstr("does not answer")));
  EXPECT_EQ(dialed.connection, -1);
}

// Why: a user who presses Ctrl-C does not wait for a stopped daemon's deadline.
TEST(DialTest, GivesUpWhenItIsInterrupted) {
  const FakeDaemon daemon([](int connection) {
    char byte;
    while (::read(connection, &byte, 1) > 0) {
    }
  });
  Dialed dialed;
  int asked = 0;
  const Failure failure = Dial(daemon.path(), ProcessRole::kTool, 0, kPatienceNs, dialed,
                               [&asked] { return ++asked == 2; });
  EXPECT_EQ(failure.code, FailureCode::kCancelled);
  EXPECT_EQ(dialed.connection, -1);
}

// Why: a daemon that is stopped accepts nobody; once its backlog is full, connecting
// itself would block, and no deadline of a hello helps.
TEST(DialTest, GivesUpAtItsDeadlineWhenTheBacklogIsFull) {
  char folder[] = "/tmp/mlxcomm-dial-XXXXXX";
  ASSERT_NE(::mkdtemp(folder), nullptr);
  const std::string path = std::string(folder) + "/socket";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const auto* const at = reinterpret_cast<const sockaddr*>(&address);
  const int listener = ::socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(::bind(listener, at, sizeof address), 0);
  ASSERT_EQ(::listen(listener, 0), 0);
  std::vector<int> waiting;
  for (bool full = false; !full;) {
    waiting.push_back(::socket(AF_UNIX, SOCK_STREAM, 0));
    ::fcntl(waiting.back(), F_SETFL, O_NONBLOCK);
    full = ::connect(waiting.back(), at, sizeof address) != 0;
  }
  Dialed dialed;
  const Failure failure = Dial(path, ProcessRole::kTool, 0, /*timeout_ns=*/20'000'000, dialed);
#if defined(__linux__)  // macOS refuses instead of making us wait.
  EXPECT_EQ(failure.code, FailureCode::kDeadlineExceeded) << failure.message;
#endif
  EXPECT_FALSE(failure.ok());
  EXPECT_EQ(dialed.connection, -1);
  for (const int socket : waiting) ::close(socket);
  ::close(listener);
  ::unlink(path.c_str());
  ::rmdir(folder);
}

TEST(DialTest, TakesTheLongestTimeForLong) {
  const FakeDaemon daemon(Answering(Welcome(), kToolDescriptors));
  Dialed dialed;
  const Failure failure = Dial(daemon.path(), ProcessRole::kTool, 0, ~std::uint64_t{0}, dialed);
  ASSERT_TRUE(failure.ok()) << failure.message;
  ::close(dialed.descriptors[0]);
  ::close(dialed.connection);
}

TEST(DialTest, SaysWhenNobodyListens) {
  Dialed dialed;
  const Failure failure =
      Dial("/tmp/mlxcomm-nobody/socket", ProcessRole::kTool, 0, kPatienceNs, dialed);
  EXPECT_EQ(failure.code, FailureCode::kUnavailable);
  EXPECT_THAT(failure.message, HasSubstr("no mlxcommd at"));
  EXPECT_EQ(Dial(std::string(300, 'x'), ProcessRole::kTool, 0, kPatienceNs, dialed).code,
            FailureCode::kUnavailable);
}

}  // namespace
}  // namespace mlxcomm::queue::dial_test
