// Accepts and refuses local processes.
#include "daemon/intake/acceptor.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <functional>
#include <memory>
#include <sstream>
#include <vector>

#include "daemon/platform/machine.h"
#include "tests/unit/daemon/intake/local_process.h"

namespace mlxcomm::intake::acceptor_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Keeps the sockets of accepted processes.
class Host : public HelloListener {
 public:
  Failure OnHello(LocalStream::socket& socket, const queue::ClientHello& hello,
                  const queue::PeerCredentials& credentials, const User& welcomed) override {
    if (!answer.ok()) return answer;
    sockets.push_back(std::move(socket));
    hellos.push_back(hello);
    who = credentials;
    user = welcomed;
    return {};
  }
  Failure answer;
  User user;
  std::vector<LocalStream::socket> sockets;
  std::vector<queue::ClientHello> hellos;
  queue::PeerCredentials who;
};

class AcceptorTest : public testing::Test {
 protected:
  absl::Status Open() {
    acceptor.emplace(io, options, host);
    return acceptor->Listen();
  }
  [[nodiscard]] bool Await(const std::function<bool()>& done) {
    return RunUntil(io, [this] { acceptor->OnTurn(); }, done);
  }
  // Like the loop: runs ready handlers, then the next turn.
  void Turn() {
    io.restart();
    io.poll();
    acceptor->OnTurn();
  }
  [[nodiscard]] bool AwaitRefusal(LocalProcess& process) {
    return Await([&] { return process.HasAnswer(); }) && process.TakeAnswer() &&
           process.answer().failure_code != FailureCode::kNone;
  }
  // Checks, after each fault, that another process is still served.
  void ExpectService() {
    const std::size_t before = host.hellos.size();
    LocalProcess process(options.socket_path);
    ASSERT_TRUE(process.Send(GoodHello()));
    ASSERT_TRUE(Await([&] { return host.hellos.size() == before + 1; }));
  }

  SocketFolder folder;
  AcceptorOptions options{folder.socket(), 60'000'000'000, false, {}};
  asio::io_context io;
  Host host;
  std::optional<Acceptor> acceptor;
};

TEST_F(AcceptorTest, AcceptsAHelloThatArrivesByteByByte) {
  ASSERT_TRUE(Open().ok());
  LocalProcess process(options.socket_path);
  const queue::ClientHello hello = GoodHello(queue::ProcessRole::kTool, 4711);
  for (std::size_t i = 0; i < sizeof hello; ++i) {
    EXPECT_TRUE(host.hellos.empty());
    ASSERT_TRUE(process.Send(reinterpret_cast<const char*>(&hello) + i, 1));
    io.poll();
  }
  ASSERT_TRUE(Await([&] { return !host.hellos.empty(); }));
  EXPECT_EQ(std::memcmp(&host.hellos[0], &hello, sizeof hello), 0);
  EXPECT_EQ(host.who.pid, ::getpid());
  EXPECT_EQ(host.who.uid, ::geteuid());
  EXPECT_EQ(acceptor->refused(), 0u);
}

// Why: under a small memory limit no thread can start, and the error blamed the user directory.
TEST_F(AcceptorTest, NamesTheThreadLimitIfNoThreadCanAskForAUser) {
  options.users.naming = UserNaming::kByName;
  options.lookup = [](uid_t, const UserOptions&) -> absl::StatusOr<User> {
    return absl::ResourceExhaustedError("no thread: raise the limit (ulimit -v: 7 KiB)");
  };
  ASSERT_TRUE(Open().ok());
  LocalProcess process(options.socket_path);
  ASSERT_TRUE(process.Send(GoodHello()));
  ASSERT_TRUE(AwaitRefusal(process));
  EXPECT_EQ(process.answer().failure_code, FailureCode::kResourceExhausted);
  EXPECT_THAT(process.answer().message,
              AllOf(HasSubstr("ulimit -v: 7 KiB"), Not(HasSubstr("user directory"))));
}

// Why: the bytes after the hello are gRPC's.
TEST_F(AcceptorTest, ReadsOnlyTheHello) {
  ASSERT_TRUE(Open().ok());
  LocalProcess process(options.socket_path);
  const queue::ClientHello hello = GoodHello();
  std::string bytes(reinterpret_cast<const char*>(&hello), sizeof hello);
  bytes += "PRI";
  ASSERT_TRUE(process.Send(bytes.data(), bytes.size()));
  ASSERT_TRUE(Await([&] { return !host.sockets.empty(); }));
  char rest[8] = {};
  EXPECT_EQ(::recv(host.sockets[0].native_handle(), rest, sizeof rest, 0), 3);
  EXPECT_STREQ(rest, "PRI");
}

TEST_F(AcceptorTest, RefusesAnInvalidHelloWithTheReason) {
  ASSERT_TRUE(Open().ok());
  queue::ClientHello magic = GoodHello();
  magic.magic ^= 1;
  queue::ClientHello version = GoodHello();
  version.version = 99;
  queue::ClientHello role = GoodHello();
  role.role = static_cast<queue::ProcessRole>(7);
  queue::ClientHello reserved = GoodHello();
  reserved.reserved = 1;
  const std::pair<queue::ClientHello, const char*> cases[] = {
      {magic, "not an mlxcomm hello"},
      {version, "version 99, this daemon speaks 2: install the same release"},
      {role, "role 7"},
      {reserved, "reserved bits 1"}};
  std::uint64_t refused = 0;
  for (const auto& [hello, reason] : cases) {
    LocalProcess process(options.socket_path);
    ASSERT_TRUE(process.Send(hello));
    ASSERT_TRUE(AwaitRefusal(process));
    EXPECT_EQ(process.answer().failure_code, FailureCode::kInvalidArgument);
    EXPECT_EQ(process.descriptor_count(), 0);
    EXPECT_THAT(process.answer().message, HasSubstr(reason));
    EXPECT_EQ(acceptor->refused(), ++refused);
  }
  EXPECT_TRUE(host.hellos.empty());
  ExpectService();
}

TEST_F(AcceptorTest, RefusesAnIncompleteHelloAtItsDeadline) {
  options.hello_timeout_ns = 20'000'000;
  ASSERT_TRUE(Open().ok());
  LocalProcess silent(options.socket_path);
  LocalProcess slow(options.socket_path);
  const queue::ClientHello hello = GoodHello();
  ASSERT_TRUE(slow.Send(&hello, sizeof hello - 1));
  ASSERT_TRUE(AwaitRefusal(silent));
  ASSERT_TRUE(AwaitRefusal(slow));
  EXPECT_THAT(slow.answer().message, HasSubstr("no complete hello of 32 bytes within 20 ms"));
  EXPECT_EQ(acceptor->refused(), 2u);
}

TEST_F(AcceptorTest, RefusesAProcessThatLeavesDuringItsHello) {
  ASSERT_TRUE(Open().ok());
  {
    LocalProcess process(options.socket_path);
    ASSERT_TRUE(process.Send("12345", 5));
  }
  ASSERT_TRUE(Await([&] { return acceptor->refused() == 1; }));
  ExpectService();
}

TEST_F(AcceptorTest, SendsTheListenersReasonTruncatedToItsField) {
  ASSERT_TRUE(Open().ok());
  host.answer = {FailureCode::kResourceExhausted, kNoRank, std::string(1000, 'x')};
  LocalProcess process(options.socket_path);
  ASSERT_TRUE(process.Send(GoodHello()));
  ASSERT_TRUE(AwaitRefusal(process));
  EXPECT_EQ(process.answer().failure_code, FailureCode::kResourceExhausted);
  EXPECT_EQ(std::string(process.answer().message),
            std::string(sizeof process.answer().message - 1, 'x'));
}

TEST_F(AcceptorTest, LimitsOpenHellos) {
  ASSERT_TRUE(Open().ok());
  std::vector<std::unique_ptr<LocalProcess>> silent;
  for (std::uint32_t i = 0; i < Acceptor::kHellosMax + Acceptor::kHellosKept; ++i) {
    silent.push_back(std::make_unique<LocalProcess>(options.socket_path));
    Turn();
  }
  LocalProcess one_more(options.socket_path);
  ASSERT_TRUE(AwaitRefusal(one_more));
  EXPECT_THAT(one_more.answer().message, HasSubstr("try again"));
  EXPECT_EQ(acceptor->refused(), 1u);
  // The first ones may finish their hellos at any time, which makes room.
  ASSERT_TRUE(silent[0]->Send(GoodHello()));
  ASSERT_TRUE(Await([&] { return host.hellos.size() == 1; }));
  ExpectService();
}

TEST_F(AcceptorTest, ServesAProcessAfterAThousandDisconnected) {
  ASSERT_TRUE(Open().ok());
  for (int i = 0; i < 1000; ++i) {
    const LocalProcess process(options.socket_path);
    ASSERT_TRUE(process.connected());
    Turn();
  }
  ASSERT_TRUE(Await([&] { return acceptor->refused() == 1000; }));
  ExpectService();
}

// Why: while processes keep connecting, a turn without a limit would never end.
// How: forty connections wait, each with a hello that is refused at once.
TEST_F(AcceptorTest, AcceptsALimitedNumberInATurn) {
  ASSERT_TRUE(Open().ok());
  queue::ClientHello wrong = GoodHello();
  wrong.magic = 0;
  std::vector<std::unique_ptr<LocalProcess>> waiting;
  for (int i = 0; i < 40; ++i) {
    waiting.push_back(std::make_unique<LocalProcess>(options.socket_path));
    ASSERT_TRUE(waiting.back()->Send(wrong));
  }
  for (const std::uint64_t refused : {16u, 32u, 40u, 40u}) {
    Turn();
    EXPECT_EQ(acceptor->refused(), refused);
  }
  ExpectService();
}

// Captures the log while it exists.
class Log {
 public:
  Log() : before_(spdlog::default_logger()) {
    spdlog::set_default_logger(std::make_shared<spdlog::logger>(
        "test", std::make_shared<spdlog::sinks::ostream_sink_st>(text_)));
  }
  ~Log() { spdlog::set_default_logger(before_); }
  std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
  std::shared_ptr<spdlog::logger> before_;
};

// Why: a daemon without descriptors must report it, and accept again once it has some.
// How: only the acceptor's turns run without descriptors, and they have run before, because
// sanitizers need descriptors when they see code for the first time.
TEST_F(AcceptorTest, LogsOnceThatItCannotAcceptAndAcceptsAgain) {
  const Log log;
  ASSERT_TRUE(Open().ok());
  const auto turns = [&io = io, &listen_socket = *acceptor](int count) {
    for (; count > 0; --count) {
      io.restart();
      io.run_one_for(std::chrono::milliseconds(1));
      io.poll();
      listen_socket.OnTurn();
    }
  };
  turns(2);
  spdlog::error("{}", asio::error_code(EMFILE, asio::system_category()).message());
  LocalProcess process(options.socket_path);
  ASSERT_TRUE(process.Send(GoodHello()));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int lowest_free = ::dup(process.connection());
  ::close(lowest_free);
  const rlimit none_left{static_cast<rlim_t>(lowest_free), before.rlim_max};
  const int limited = ::setrlimit(RLIMIT_NOFILE, &none_left);
  turns(250);
  const int restored = ::setrlimit(RLIMIT_NOFILE, &before);
  ASSERT_TRUE(limited == 0 && restored == 0);
  EXPECT_TRUE(host.hellos.empty());
  ASSERT_TRUE(Await([&] { return !host.hellos.empty(); }));
  const std::string lines = log.text();
  EXPECT_THAT(lines, HasSubstr("cannot accept local processes"));
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 2) << lines;
}

// Why: if one user's clients had all of the daemon's descriptors, root could not find out who they
// are.
TEST_F(AcceptorTest, ReservesDescriptorsForRoot) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become somebody else";
  options.all_users = true;
  ASSERT_TRUE(Open().ok());
  ASSERT_EQ(::chmod(folder.path().c_str(), 0755), 0);
  std::vector<FileDescriptor> open;
  for (int i = 0; i < 64; ++i) open.emplace_back(::dup(STDERR_FILENO));
  ASSERT_EQ(::seteuid(65534), 0);
  LocalProcess process(options.socket_path);
  ASSERT_EQ(::seteuid(0), 0);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int lowest_free = ::dup(process.connection());
  ::close(lowest_free);
  const auto few = static_cast<rlim_t>(lowest_free) * 4 / 3;
  const rlimit limit{few, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  const bool refused = AwaitRefusal(process);
  ExpectService();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_TRUE(refused);
  EXPECT_EQ(process.answer().failure_code, FailureCode::kResourceExhausted);
  EXPECT_THAT(process.answer().message,
              HasSubstr(absl::StrCat("its limit of ", few, " open files")));
}

// Why: the log limits each user's lines, which it recognises by their beginning.
TEST_F(AcceptorTest, LogsTheUserThatItRefuses) {
  const Log log;
  ASSERT_TRUE(Open().ok());
  {
    const LocalProcess process(options.socket_path);
    Turn();
  }
  ASSERT_TRUE(Await([&] { return log.text().find("hello was complete") != std::string::npos; }));
  EXPECT_THAT(log.text(), HasSubstr(absl::StrCat("user ", ::geteuid(), ": refused process ",
                                                 ::getpid(), ": ")));
}

TEST_F(AcceptorTest, ServesOtherUsersOnlyIfConfigured) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become somebody else";
  constexpr uid_t kNobody = 65534;
  for (const bool all_users : {false, true}) {
    options.all_users = all_users;
    ASSERT_TRUE(Open().ok());
    ASSERT_EQ(::chmod(folder.path().c_str(), 0755), 0);
    ASSERT_EQ(::chmod(options.socket_path.c_str(), 0666), 0);  // Past the file's mode.
    ASSERT_EQ(::seteuid(kNobody), 0);
    LocalProcess process(options.socket_path);
    ASSERT_EQ(::seteuid(0), 0);
    ASSERT_TRUE(process.Send(GoodHello()));
    if (all_users) {
      ASSERT_TRUE(Await([&] { return !host.hellos.empty(); }));
      EXPECT_EQ(host.who.uid, kNobody);
      continue;
    }
    ASSERT_TRUE(AwaitRefusal(process));
    EXPECT_EQ(process.answer().failure_code, FailureCode::kPermissionDenied);
    EXPECT_THAT(process.answer().message, HasSubstr("all_users: true"));
    acceptor->Stop();
    Turn();
  }
}

TEST_F(AcceptorTest, PassesTheUserToTheListener) {
  options.users = {UserNaming::kByName, ""};
  ASSERT_TRUE(Open().ok());
  LocalProcess process(options.socket_path);
  ASSERT_TRUE(process.Send(GoodHello()));
  ASSERT_TRUE(Await([&] { return !host.hellos.empty(); }));
  EXPECT_TRUE(host.user.sees_all) << "the daemon's own user";
  EXPECT_EQ(host.user.name == "root", ::geteuid() == 0);
}

// Why: connecting costs nothing; silent processes must not lock other users out.
TEST_F(AcceptorTest, AcceptsOtherUsersBesideOneUsersSilentProcesses) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become somebody else";
  constexpr uid_t kNobody = 65534;
  options.all_users = true;
  ASSERT_TRUE(Open().ok());
  ASSERT_EQ(::chmod(folder.path().c_str(), 0755), 0);
  std::vector<std::unique_ptr<LocalProcess>> silent;
  ASSERT_EQ(::seteuid(kNobody), 0);
  for (std::uint32_t i = 0; i < Acceptor::kHellosPerUserMax; ++i) {
    silent.push_back(std::make_unique<LocalProcess>(options.socket_path));
  }
  LocalProcess late(options.socket_path);
  ASSERT_EQ(::seteuid(0), 0);
  ASSERT_TRUE(AwaitRefusal(late));
  EXPECT_EQ(late.answer().failure_code, FailureCode::kResourceExhausted);
  EXPECT_THAT(late.answer().message, HasSubstr("16 processes of user 65534"));
  ExpectService();
  const std::uint64_t refused = acceptor->refused();
  silent.front()->CloseConnection();
  ASSERT_TRUE(Await([&] { return acceptor->refused() > refused; }));
  ASSERT_EQ(::seteuid(kNobody), 0);
  LocalProcess next(options.socket_path);
  ASSERT_EQ(::seteuid(0), 0);
  const std::size_t before = host.hellos.size();
  ASSERT_TRUE(next.Send(GoodHello()));
  EXPECT_TRUE(Await([&] { return host.hellos.size() > before; }));
}

// Why: opening a session blocks the loop for about 100 us, in which no payload moves. A job starts
// many ranks at once, so sessions beyond the rate wait and are not refused.
TEST_F(AcceptorTest, DelaysAUsersSessionsBeyondTheRate) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become somebody else";
  options.all_users = true;
  ASSERT_TRUE(Open().ok());
  ASSERT_EQ(::chmod(folder.path().c_str(), 0755), 0);
  const auto burst = static_cast<std::size_t>(Acceptor::kSessionsOfUser.burst);
  constexpr std::size_t kMore = 3 * Acceptor::kHellosPerUserMax;
  const std::uint64_t began_ns = platform::MonotonicNow();
  std::vector<std::unique_ptr<LocalProcess>> processes;
  for (std::size_t i = 0; i < burst + kMore; ++i) {
    ASSERT_EQ(::seteuid(65534), 0);
    processes.push_back(std::make_unique<LocalProcess>(options.socket_path));
    ASSERT_EQ(::seteuid(0), 0);
    ASSERT_TRUE(processes.back()->Send(GoodHello()));
    if (i < burst) {
      ASSERT_TRUE(Await([&] { return host.hellos.size() == i + 1; }));
    } else {
      Turn();
    }
  }
  ExpectService();  // Of root, meanwhile.
  ASSERT_TRUE(Await([&] { return host.hellos.size() == burst + kMore + 1; }));
  const double seconds = static_cast<double>(platform::MonotonicNow() - began_ns) / 1e9;
  EXPECT_GE(seconds * Acceptor::kSessionsOfUser.per_second, kMore - 1);
  EXPECT_EQ(acceptor->refused(), 0u);
}

TEST_F(AcceptorTest, MakesItsSocketForItsUserOrForAll) {
  for (const bool all_users : {false, true}) {
    options.all_users = all_users;
    options.socket_path = folder.path() + (all_users ? "/all/socket" : "/own/socket");
    ASSERT_TRUE(Open().ok());
    struct stat facts{};
    ASSERT_EQ(::stat(options.socket_path.c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 0777, all_users ? 0666u : 0600u);
  }
}

// A socket that listens at the path without answers.
FileDescriptor ListenAt(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM, 0));
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(socket.get(), 0) != 0) {
    std::abort();
  }
  return socket;
}

// Why: a stopped or busy daemon must not lose its socket to a second one.
TEST_F(AcceptorTest, KeepsTheSocketOfAListenerThatDoesNotAnswer) {
  const FileDescriptor busy = ListenAt(options.socket_path);
  std::vector<std::unique_ptr<Acceptor>> attempts;
#if defined(__linux__) && !defined(MLXCOMM_POSIX_PLATFORM)
  constexpr int kAttempts = 4;  // More than its backlog.
#else
  constexpr int kAttempts = 1;  // macOS refuses more; a daemon's lock shows that it is there.
#endif
  for (int i = 0; i < kAttempts; ++i) {
    attempts.push_back(std::make_unique<Acceptor>(io, options, host));
    const absl::Status status = attempts.back()->Listen();
    EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("stop it first"));
  }
  attempts.clear();
  EXPECT_TRUE(std::filesystem::exists(options.socket_path));
}

// Why: during an upgrade the socket stays in place while one program ends and the next one starts.
// Processes that connect in between must neither be refused nor served by the old program.
TEST_F(AcceptorTest, HandsTheSocketToTheNextProgramWithItsBacklog) {
  ASSERT_TRUE(Open().ok());
  Turn();
  acceptor->Rest();
  ASSERT_TRUE(Await([&] { return acceptor->is_at_rest(); }));
  LocalProcess waits(options.socket_path);
  ASSERT_TRUE(waits.Send(GoodHello()));
  for (int turn = 0; turn < 3; ++turn) Turn();
  EXPECT_TRUE(host.hellos.empty());
  absl::StatusOr<ListenSocket> listen_socket = acceptor->HandOver();
  ASSERT_TRUE(listen_socket.ok()) << listen_socket.status();
  acceptor.reset();  // Its end removes nothing.
  ASSERT_TRUE(std::filesystem::is_socket(options.socket_path));
  EXPECT_EQ(Acceptor(io, options, host).Listen().code(), absl::StatusCode::kAlreadyExists);
  acceptor.emplace(io, options, host);
  const absl::Status status = acceptor->Listen(*std::move(listen_socket));
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_TRUE(Await([&] { return host.hellos.size() == 1; }));
  ExpectService();
}

// Why: an upgrade may be refused at the last moment.
TEST_F(AcceptorTest, ServesTheBacklogAfterARest) {
  ASSERT_TRUE(Open().ok());
  Turn();
  LocalProcess half(options.socket_path);  // Says its hello late: not at rest before.
  ASSERT_TRUE(Await([&] { return acceptor->refused() == 0 && !half.HasAnswer(); }));
  Turn();
  acceptor->Rest();
  LocalProcess waits(options.socket_path);
  ASSERT_TRUE(waits.Send(GoodHello()));
  acceptor->GoOn();
  ASSERT_TRUE(half.Send(GoodHello()));
  EXPECT_TRUE(Await([&] { return host.hellos.size() == 2; }));
  acceptor->Rest();
  EXPECT_TRUE(Await([&] { return acceptor->is_at_rest(); }));
}

// Why: the configuration may have another path by then, and the environment variable may have any
// value.
TEST_F(AcceptorTest, RefusesASocketWithAnotherPath) {
  ASSERT_TRUE(Open().ok());
  acceptor->Rest();
  ASSERT_TRUE(Await([&] { return acceptor->is_at_rest(); }));
  absl::StatusOr<ListenSocket> listen_socket = acceptor->HandOver();
  ASSERT_TRUE(listen_socket.ok()) << listen_socket.status();
  const std::string former = options.socket_path;
  options.socket_path = folder.path() + "/elsewhere";
  acceptor.emplace(io, options, host);
  ASSERT_TRUE(acceptor->Listen(*std::move(listen_socket)).ok());
  EXPECT_FALSE(std::filesystem::exists(former));  // Nobody listens there any more.
  ExpectService();
  acceptor.reset();
  ListenSocket strange;
  strange.socket.Reset(::open("/dev/null", O_RDWR | O_CLOEXEC));
  strange.lock.Reset(::open("/dev/null", O_RDWR | O_CLOEXEC));
  acceptor.emplace(io, options, host);
  ASSERT_TRUE(acceptor->Listen(std::move(strange)).ok());
  ExpectService();
}

TEST_F(AcceptorTest, RefusesInvalidPaths) {
  options.socket_path = folder.path() + "/" + std::string(200, 'x');
  EXPECT_EQ(Open().code(), absl::StatusCode::kInvalidArgument);
  options.socket_path = "";
  EXPECT_EQ(Open().code(), absl::StatusCode::kInvalidArgument);
  options.socket_path = "/proc/no-folder-can-be-made-here/socket";
  EXPECT_EQ(Open().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(AcceptorTest, StopRefusesOpenHellosAndRemovesTheSocket) {
  ASSERT_TRUE(Open().ok());
  LocalProcess process(options.socket_path);
  const queue::ClientHello hello = GoodHello();
  ASSERT_TRUE(process.Send(&hello, 1));
  io.poll();
  acceptor->Stop();
  EXPECT_FALSE(std::filesystem::exists(options.socket_path));
  EXPECT_FALSE(LocalProcess(options.socket_path).connected());
  ASSERT_TRUE(process.Send(reinterpret_cast<const char*>(&hello) + 1, sizeof hello - 1));
  ASSERT_TRUE(AwaitRefusal(process));
  EXPECT_EQ(process.answer().failure_code, FailureCode::kDaemonStopping);
  EXPECT_TRUE(host.hellos.empty());
}

}  // namespace
}  // namespace mlxcomm::intake::acceptor_test
