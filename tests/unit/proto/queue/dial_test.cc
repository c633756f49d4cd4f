// A local process's hello, answered by daemons of all kinds.
#include "proto/queue/dial.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#if defined(__linux__) && !defined(MLXCOMM_POSIX_PLATFORM)
#include <sys/syscall.h>
#endif

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "proto/queue/descriptor_passing.h"
#include "proto/system/file_descriptor.h"

#if defined(__linux__) && !defined(MLXCOMM_POSIX_PLATFORM)
// The flags with which the last socket of this program was made.
std::atomic<int> g_last_socket_type = 0;
extern "C" int socket(int domain, int type, int protocol) noexcept {
  g_last_socket_type = type;
  return static_cast<int>(::syscall(SYS_socket, domain, type, protocol));
}
#endif

namespace mlxcomm::queue::dial_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::uint64_t kPatienceNs = 60'000'000'000;

// The folder of a socket, and its address.
class SocketPlace {
 public:
  SocketPlace() {
    char folder[] = "/tmp/mlxcomm-dial-XXXXXX";
    if (::mkdtemp(folder) == nullptr) std::abort();
    folder_ = folder;
    address_.sun_family = AF_UNIX;
    path().copy(address_.sun_path, sizeof address_.sun_path - 1);
  }
  const std::string& folder() const { return folder_; }
  std::string path() const { return folder_ + "/socket"; }
  const sockaddr* address() const { return reinterpret_cast<const sockaddr*>(&address_); }
  socklen_t bytes() const { return sizeof address_; }

 private:
  std::string folder_;
  sockaddr_un address_{};
};

// A listener that accepts nothing, until no more connections are possible.
class FullBacklog {
 public:
  explicit FullBacklog(bool leaves_its_socket = false) : leaves_(leaves_its_socket) {
    listener_.Reset(::socket(AF_UNIX, SOCK_STREAM, 0));
    if (::bind(listener_.get(), place_.address(), place_.bytes()) != 0 ||
        ::listen(listener_.get(), 0) != 0) {
      std::abort();
    }
    for (bool full = false; !full;) {
      waiting_.emplace_back(::socket(AF_UNIX, SOCK_STREAM, 0));
      ::fcntl(waiting_.back().get(), F_SETFL, O_NONBLOCK);
      full = ::connect(waiting_.back().get(), place_.address(), place_.bytes()) != 0;
    }
    waiting_.pop_back();  // It was refused.
    ::fcntl(listener_.get(), F_SETFL, O_NONBLOCK);
  }
  ~FullBacklog() {
    if (!leaves_) std::filesystem::remove_all(place_.folder());
  }
  std::string path() const { return place_.path(); }
  void MakeRoom() {
    for (std::size_t i = 0; i < waiting_.size(); ++i) {
      const FileDescriptor accepted(::accept(listener_.get(), nullptr, nullptr));
    }
    has_room_ = true;
  }
  // A new connection is in the backlog.
  bool HasCome() {
    if (came_.valid()) return true;
    pollfd waited{listener_.get(), POLLIN, 0};
    if (!has_room_ || ::poll(&waited, 1, 0) != 1) return false;
    came_.Reset(::accept(listener_.get(), nullptr, nullptr));
    return came_.valid();
  }

 private:
  bool leaves_;
  bool has_room_ = false;
  const SocketPlace place_;
  FileDescriptor listener_;
  std::vector<FileDescriptor> waiting_;
  FileDescriptor came_;
};

// As a daemon does, until the descriptor is closed.
FileDescriptor HoldPresence(const std::string& path) {
  FileDescriptor held(::open(PresenceFile(path).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (::flock(held.get(), LOCK_EX | LOCK_NB) != 0) held.Reset(-1);
  return held;
}

// Listens in a folder of its own; `answer` handles each connection.
class FakeDaemon {
 public:
  explicit FakeDaemon(std::function<void(int)> answer) {
    listener_ = ::socket(AF_UNIX, SOCK_STREAM, 0);
    if (::bind(listener_, place_.address(), place_.bytes()) != 0 || ::listen(listener_, 8) != 0 ||
        ::pipe(stop_) != 0) {
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
    ::rmdir(place_.folder().c_str());
  }
  std::string path() const { return place_.path(); }

 private:
  const SocketPlace place_;
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
#if defined(__linux__) && !defined(MLXCOMM_POSIX_PLATFORM)
  // Why: between socket() and a later fcntl another thread may fork and exec, and its child would
  // hold the connection of a process that has ended.
  EXPECT_NE(g_last_socket_type & SOCK_CLOEXEC, 0);
#endif
  for (const int descriptor : dialed.descriptors) EXPECT_EQ(::close(descriptor), 0);
  EXPECT_EQ(::close(dialed.connection), 0);
}

TEST(DialTest, RefusesAnAnswerWithTooFewDescriptors) {
  const FakeDaemon daemon(Answering(Welcome(), 2));
  Dialed dialed;
  const Failure failure = DialOnce(daemon, dialed);
  EXPECT_EQ(failure.code, FailureCode::kUnavailable);
  EXPECT_EQ(dialed.connection, -1);
  EXPECT_EQ(dialed.descriptor_count, 0);
}

TEST(DialTest, ReturnsARefusal) {
  const FakeDaemon daemon(Answering(Refusal(FailureCode::kPermissionDenied, "not you"), 0));
  Dialed dialed;
  const Failure failure = DialOnce(daemon, dialed);
  EXPECT_EQ(failure.code, FailureCode::kPermissionDenied);
  EXPECT_THAT(failure.message, AllOf(HasSubstr(daemon.path()), HasSubstr("not you")));
}

TEST(DialTest, LimitsAMessageWithoutTerminator) {
  const FakeDaemon daemon(
      Answering(Refusal(FailureCode::kResourceExhausted, std::string(4096, 'x')), 0));
  Dialed dialed;
  EXPECT_LT(DialOnce(daemon, dialed).message.size(), 512u);
}

// Why: an overloaded daemon answers without reading, so the connection may be closed before the
// process has sent its hello.
// How: often, because the scheduler decides the order.
TEST(DialTest, ReceivesARefusalThatArrivesBeforeItsHelloIsSent) {
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

TEST(DialTest, ReportsAnotherRelease) {
  DaemonHello hello = Welcome();
  hello.version = 99;
  const FakeDaemon daemon(Answering(hello, 0));
  Dialed dialed;
  const Failure failure = DialOnce(daemon, dialed);
  EXPECT_EQ(failure.code, FailureCode::kUnavailable);
  EXPECT_THAT(failure.message, AllOf(HasSubstr("version 99"), HasSubstr("install")));
}

TEST(DialTest, ReportsAnotherProgram) {
  DaemonHello hello = Welcome();
  hello.magic = 1;
  const FakeDaemon daemon(Answering(hello, 0));
  Dialed dialed;
  EXPECT_THAT(DialOnce(daemon, dialed).message, HasSubstr("another program listens"));
}

TEST(DialTest, ReportsAConnectionThatIsClosedWithoutAnswer) {
  const FakeDaemon daemon([](int) {});
  Dialed dialed;
  const Failure failure = DialOnce(daemon, dialed);
  EXPECT_EQ(failure.code, FailureCode::kUnavailable);
  EXPECT_THAT(failure.message, HasSubstr("does not answer"));
}

// Why: in a folder that all users may write to, another user can put a socket at the path of this
// user's private daemon, and would get the arena.
// How: the kernel stores the listener's uid, so root changes its uid while it calls listen.
TEST(DialTest, SendsNothingToAnotherUsersDaemon) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be somebody else";
  constexpr uid_t kSomebody = 61001;
  const SocketPlace place;
  const FileDescriptor listener(::socket(AF_UNIX, SOCK_STREAM, 0));
  ASSERT_EQ(::bind(listener.get(), place.address(), place.bytes()), 0);
  ASSERT_EQ(::seteuid(kSomebody), 0);
  const int listens = ::listen(listener.get(), 1);
  ASSERT_EQ(::seteuid(0), 0);
  ASSERT_EQ(listens, 0);
  Dialed dialed;
  const Failure failure = Dial(place.path(), ProcessRole::kClient, 0, kPatienceNs, dialed);
  EXPECT_EQ(failure.code, FailureCode::kPermissionDenied);
  EXPECT_THAT(failure.message, AllOf(HasSubstr(place.path()), HasSubstr("is run by user 61001")));
  EXPECT_EQ(dialed.connection, -1);
  const FileDescriptor accepted(::accept(listener.get(), nullptr, nullptr));
  char byte = 0;
  EXPECT_EQ(::recv(accepted.get(), &byte, 1, 0), 0) << "it has left without a hello";
  std::filesystem::remove_all(place.folder());
}

// Why: a user who may write to the folder can replace the socket, perhaps by a link to another
// daemon of root's, for which the kernel reports root.
TEST(DialTest, ConnectsOnlyIfNoOtherUserMayPutASocketThere) {
  const SocketPlace place;
  EXPECT_TRUE(CheckSocketPlace(place.path(), /*is_private=*/false).ok()) << "nothing is there yet";
  EXPECT_TRUE(CheckSocketPlace(place.folder() + "/none/socket", /*is_private=*/false).ok());
  ASSERT_EQ(::chmod(place.folder().c_str(), 0775), 0);
  EXPECT_TRUE(CheckSocketPlace(place.path(), /*is_private=*/false).ok())
      << "a new folder may be the own group's as well";
  ASSERT_EQ(::chmod(place.folder().c_str(), 0777), 0);
  const Failure open = CheckSocketPlace(place.path(), /*is_private=*/false);
  EXPECT_EQ(open.code, FailureCode::kPermissionDenied);
  EXPECT_THAT(open.message, AllOf(HasSubstr(place.folder() + ","), HasSubstr("chmod o-w")));
  ASSERT_EQ(::chmod(place.folder().c_str(), 01777), 0);
  EXPECT_TRUE(CheckSocketPlace(place.path(), /*is_private=*/false).ok())
      << "as /tmp: who has made a file keeps it";
  if (::geteuid() == 0) {
    ASSERT_EQ(::symlink("/dev/null", place.path().c_str()), 0);
    EXPECT_TRUE(CheckSocketPlace(place.path(), /*is_private=*/false).ok()) << "a link of one's own";
    ASSERT_EQ(::lchown(place.path().c_str(), 61001, 61001), 0);
    const Failure lent = CheckSocketPlace(place.path(), /*is_private=*/false);
    EXPECT_EQ(lent.code, FailureCode::kPermissionDenied);
    EXPECT_THAT(lent.message, AllOf(HasSubstr(place.path()), HasSubstr("belongs to user 61001")));
  }
  std::filesystem::remove_all(place.folder());
}

TEST(DialTest, FailsAtItsDeadline) {
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

// Why: a daemon that is stopped accepts nothing; once its backlog is full, connecting itself would
// block, and a deadline for the hello does not help. macOS refuses then, as if nothing listened:
// the lock beside the socket shows that the daemon exists. Without it a client would bypass a busy
// daemon, and start a second one.
TEST(DialTest, FailsAtItsDeadlineIfTheBacklogIsFull) {
  const FullBacklog full;
  const FileDescriptor held = HoldPresence(full.path());
  ASSERT_TRUE(held.valid());
  Dialed dialed;
  const Failure failure =
      Dial(full.path(), ProcessRole::kTool, 0, /*timeout_ns=*/20'000'000, dialed);
  EXPECT_EQ(failure.code, FailureCode::kDeadlineExceeded) << failure.message;
  EXPECT_EQ(dialed.connection, -1);
}

// Why: it waits while the system refuses, and must notice when the backlog has space. Ctrl-C must
// not wait for the hello's deadline.
TEST(DialTest, ConnectsWhenAFullBacklogIsDrainedAndFailsWhenInterrupted) {
  FullBacklog full;
  const FileDescriptor held = HoldPresence(full.path());
  Dialed dialed;
  int asked = 0;
  // Its hello is never answered, so it retries, at first to connect.
  const Failure failure = Dial(full.path(), ProcessRole::kTool, 0, kPatienceNs, dialed, [&] {
    if (++asked == 3) full.MakeRoom();
    return full.HasCome();
  });
  EXPECT_EQ(failure.code, FailureCode::kCancelled) << failure.message;
  EXPECT_TRUE(full.HasCome());
}

// Why: a killed daemon leaves its files behind; no client may wait for it.
TEST(DialTest, DoesNotWaitForADaemonThatWasKilled) {
  const std::string path = [] {
    const FullBacklog gone(/*leaves_its_socket=*/true);
    return gone.path();
  }();
  HoldPresence(path);  // And released at once, as with its process.
  Dialed dialed;
  const Failure failure = Dial(path, ProcessRole::kTool, 0, kPatienceNs, dialed);
  EXPECT_EQ(failure.code, FailureCode::kUnavailable) << failure.message;
  std::filesystem::remove_all(std::filesystem::path(path).parent_path());
}

// Why: each client locks the file for a moment; two clients must not mistake each other for a
// daemon.
TEST(DialTest, DoesNotTakeAnotherClientForTheDaemon) {
  const FullBacklog full;
  HoldPresence(full.path());
  const FileDescriptor other(::open(PresenceFile(full.path()).c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::flock(other.get(), LOCK_SH | LOCK_NB), 0);
  EXPECT_FALSE(IsPresent(full.path()));
}

// Why: with a long TMPDIR every init failed with a message about --socket.
TEST(DialTest, SkipsFoldersThatAreTooLongForASocket) {
  const std::string too_long = "/tmp/" + std::string(120, 'x');
  ::setenv("XDG_RUNTIME_DIR", too_long.c_str(), 1);
  ::setenv("MLXCOMM_DARWIN_USER_FOLDER", too_long.c_str(), 1);  // For the build on Linux.
  ::setenv("TMPDIR", too_long.c_str(), 1);
  const std::string below = "/mlxcommd-" + std::to_string(::getuid()) + "/mlxcommd.sock";
  EXPECT_EQ(PrivateSocketPath(), "/tmp" + below);
  ::setenv("TMPDIR", "/short/", 1);
  EXPECT_EQ(PrivateSocketPath(), "/short" + below);
  for (const char* const name : {"XDG_RUNTIME_DIR", "MLXCOMM_DARWIN_USER_FOLDER", "TMPDIR"})
    ::unsetenv(name);
}

#if defined(_CS_DARWIN_USER_CACHE_DIR)
// Why: TMPDIR differs under sudo and launchd, but two ranks of a user must find each other.
TEST(DialTest, FindsThePrivateDaemonForAnyTmpdir) {
  ::unsetenv("XDG_RUNTIME_DIR");
  ::setenv("MLXCOMM_DARWIN_USER_FOLDER", "/var/folders/x/C/", 1);  // For the build on Linux.
  ::setenv("TMPDIR", "/tmp/one", 1);
  const std::string path = PrivateSocketPath();
  ::setenv("TMPDIR", "/tmp/another", 1);
  EXPECT_EQ(PrivateSocketPath(), path);
  EXPECT_THAT(path, HasSubstr("/C/mlxcommd-" + std::to_string(::getuid())));
}
#endif

TEST(DialTest, AcceptsTheLongestTimeout) {
  const FakeDaemon daemon(Answering(Welcome(), kToolDescriptors));
  Dialed dialed;
  const Failure failure = Dial(daemon.path(), ProcessRole::kTool, 0, ~std::uint64_t{0}, dialed);
  ASSERT_TRUE(failure.ok()) << failure.message;
  ::close(dialed.descriptors[0]);
  ::close(dialed.connection);
}

TEST(DialTest, ReportsThatNoDaemonListens) {
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
