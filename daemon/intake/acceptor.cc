#include "daemon/intake/acceptor.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include <spdlog/spdlog.h>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/experimental/awaitable_operators.hpp>
#include <asio/read.hpp>

#include "absl/strings/str_cat.h"
#include "daemon/platform/await_tuple.h"
#include "daemon/platform/machine.h"
#include "daemon/platform/system_facts.h"
#include "proto/queue/descriptor_passing.h"
#include "proto/queue/socket_options.h"

namespace mlxcomm::intake {
namespace {

using namespace asio::experimental::awaitable_operators;  // NOLINT: operators only.
using platform::kTuple;

// The loop never waits: a refusal fits the buffer of a new socket.
constexpr std::uint64_t kRefusalTimeoutNs = 0;

}  // namespace

Failure CheckFilesLeft(int descriptor) {
  const std::uint64_t files = platform::OpenFilesMax();
  const std::uint64_t reserved = std::min<std::uint64_t>(64, files / 4);
  if (files == 0 || static_cast<std::uint64_t>(descriptor) < files - reserved) return {};
  return {FailureCode::kResourceExhausted, kNoRank,
          absl::StrCat("mlxcommd has nearly reached its limit of ", files,
                       " open files: raise it (ulimit -n, LimitNOFILE), or end some clients")};
}

absl::Status Acceptor::Listen(ListenSocket listen_socket) {
  const bool was_open = listen_socket.socket.valid();
  absl::Status status = was_open ? ListenAt(std::move(listen_socket)) : ListenAgain();
  if (was_open && absl::IsNotFound(status)) {
    spdlog::warn("cannot use the previous program's socket: {}", std::string(status.message()));
    status = ListenAgain();
  }
  if (status.ok()) BeginToAccept();
  return status;
}

// NOT_FOUND: see SocketFile::Adopt().
absl::Status Acceptor::ListenAt(ListenSocket listen_socket) {
  if (absl::Status status = file_.Adopt(listen_socket); !status.ok()) return status;
  asio::error_code error;
  acceptor_.assign(LocalStream(), listen_socket.socket.Release(), error);
  return error ? absl::FailedPreconditionError(error.message()) : absl::OkStatus();
}

absl::Status Acceptor::ListenAgain() {
  if (absl::Status status = file_.Claim(); !status.ok()) return status;
  asio::error_code error;
  acceptor_.open(LocalStream(), error);
  if (!error) {
    ::fcntl(acceptor_.native_handle(), F_SETFD, FD_CLOEXEC);
    queue::RefuseDescriptors(acceptor_.native_handle());  // Its connections inherit it.
    if (absl::Status status = file_.Bind(acceptor_.native_handle()); !status.ok()) {
      Stop();
      return status;
    }
    acceptor_.listen(128, error);
  }
  if (error) {
    Stop();
    return absl::FailedPreconditionError(
        absl::StrCat("cannot listen on ", options_.socket_path, ": ", error.message()));
  }
  return absl::OkStatus();
}

void Acceptor::BeginToAccept() {
  if (accepts_ || rests_ || !acceptor_.is_open()) return;
  accepts_ = true;
  asio::co_spawn(io_, AcceptLoop(), asio::detached);
}

// AcceptLoop() ends after it has served a process that was accepted in the meantime.
void Acceptor::Rest() {
  rests_ = true;
  asio::error_code ignored;
  acceptor_.cancel(ignored);
}

absl::StatusOr<ListenSocket> Acceptor::HandOver() {
  ListenSocket listen_socket;
  listen_socket.socket.Reset(::fcntl(acceptor_.native_handle(), F_DUPFD_CLOEXEC, 0));
  if (!listen_socket.socket.valid()) return absl::UnavailableError(std::strerror(errno));
  listen_socket.lock = file_.HandOver();
  asio::error_code ignored;
  acceptor_.close(ignored);
  return listen_socket;
}

void Acceptor::Stop() {
  asio::error_code ignored;
  acceptor_.close(ignored);
  file_.Remove();
}

// Ends after kAcceptsPerTurn connections; OnTurn() starts it again.
asio::awaitable<void> Acceptor::AcceptLoop() {
  while (accepted_in_turn_ < kAcceptsPerTurn && !rests_) {
    auto [error, socket] = co_await acceptor_.async_accept(kTuple);
    if (!acceptor_.is_open() || (error && rests_)) break;
    if (error) {  // For example, no descriptors are left: wait, do not spin.
      if (!std::exchange(cannot_accept_, true)) {
        spdlog::error("cannot accept local processes, will keep trying: {}", error.message());
      }
      asio::steady_timer pause(io_, std::chrono::milliseconds(100));
      co_await pause.async_wait(kTuple);
      continue;
    }
    cannot_accept_ = false;
    ++accepted_in_turn_;
    ::fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);
    queue::SilenceSignals(socket.native_handle());  // The process may leave before the answer.
    asio::co_spawn(io_, Greet(std::move(socket)), asio::detached);
  }
  accepts_ = false;
}

Failure Acceptor::MaySayHello(int descriptor,
                              const std::optional<queue::PeerCredentials>& who) const {
  const bool keeps = who && MaySeeAll(who->uid);
  if (keeps && hellos_ < kHellosMax + kHellosKept) return {};
  if (Failure full = keeps ? Failure() : CheckFilesLeft(descriptor); !full.ok()) return full;
  const auto found = who ? users_hellos_.find(who->uid) : users_hellos_.end();
  const bool fits = found == users_hellos_.end() || found->second.under_way < kHellosPerUserMax;
  if (!keeps && fits && hellos_ < kHellosMax) return {};
  return {FailureCode::kResourceExhausted, kNoRank,
          keeps || fits ? absl::StrCat(hellos_, " processes are saying hello already: try again")
                        : absl::StrCat(kHellosPerUserMax, " processes of user ", who->uid,
                                       " are saying hello already: try again")};
}

void Acceptor::BeginHello(uid_t uid) {
  ++hellos_;
  ++users_hellos_[uid].under_way;
}

void Acceptor::EndHello(uid_t uid) {
  --hellos_;
  --users_hellos_[uid].under_way;
  std::erase_if(users_hellos_, [now_ns = platform::MonotonicNow()](const auto& user) {
    return user.second.under_way + user.second.waiting == 0 && user.second.sessions.IsFull(now_ns);
  });
}

asio::awaitable<Failure> Acceptor::KeepPace(uid_t uid) {
  if (MaySeeAll(uid)) co_return Failure();
  UserHellos& own = users_hellos_[uid];  // Not erased: a hello is under way or waiting.
  const std::uint64_t now_ns = platform::MonotonicNow();
  if (own.sessions.Take(1, now_ns)) co_return Failure();
  if (own.waiting == kSessionsWaitingMax) {
    co_return Failure{FailureCode::kResourceExhausted, kNoRank,
                      absl::StrCat(own.waiting, " processes of user ", uid,
                                   " wait for a session already: try again")};
  }
  ++own.waiting;
  ++waiting_;
  EndHello(uid);
  asio::steady_timer turn(io_, std::chrono::nanoseconds(own.sessions.WaitNs(now_ns)));
  co_await turn.async_wait(kTuple);
  BeginHello(uid);
  --own.waiting;
  --waiting_;
  co_return Failure();
}

Failure Acceptor::IdentifyUser(uid_t uid, User& user) {
  const auto found = users_.Find(uid, platform::MonotonicNow());
  if (found && found->ok()) {
    user = **found;
    return {};
  }
  if (found && absl::IsPermissionDenied(found->status())) {
    return {FailureCode::kPermissionDenied, kNoRank, std::string(found->status().message())};
  }
  if (found && absl::IsResourceExhausted(found->status())) {
    return {FailureCode::kResourceExhausted, kNoRank,
            absl::StrCat("cannot look up user ", uid, ": ", found->status().message())};
  }
  return {FailureCode::kUnavailable, kNoRank,
          absl::StrCat("cannot look up user ", uid, " (",
                       found ? found->status().message() : "no answer in time",
                       "): fix the system's user directory, or set clients { users: BY_UID }")};
}

asio::awaitable<void> Acceptor::Greet(LocalStream::socket socket) {
  const auto credentials = queue::FindPeer(socket.native_handle());
  const int unknown = credentials ? 0 : errno;
  if (const Failure full = MaySayHello(socket.native_handle(), credentials); !full.ok()) {
    Refuse(socket, full, credentials);
    co_return;
  }
  const uid_t uid = credentials ? credentials->uid : ~uid_t{0};
  BeginHello(uid);
  asio::steady_timer deadline(io_, std::chrono::nanoseconds(options_.hello_timeout_ns));
  queue::ClientHello hello{};
  const auto first =
      co_await (asio::async_read(socket, asio::buffer(&hello, sizeof hello), kTuple) ||
                deadline.async_wait(kTuple));
  const bool late = first.index() == 1;
  Failure failure;
  if (!late && std::get<0>(std::get<0>(first))) {
    failure = Invalid("it left before its hello was complete");
  } else if (late) {
    failure = Invalid(absl::StrCat("no complete hello of ", sizeof hello, " bytes within ",
                                   options_.hello_timeout_ns / 1'000'000, " ms"));
  } else if (!credentials) {
    failure = {FailureCode::kPermissionDenied, kNoRank,
               absl::StrCat("cannot identify the process: ", std::strerror(unknown))};
  } else {
    failure = CheckWelcome(hello, *credentials);
    if (failure.ok()) failure = co_await KeepPace(uid);
    if (failure.ok() && !users_.Find(uid, platform::MonotonicNow())) {
      users_.AwaitAnswer(uid, deadline);
      co_await deadline.async_wait(kTuple);  // Ends with the answer or the deadline.
      users_.StopWaiting(uid, deadline);
    }
    User user;
    if (failure.ok())
      failure = CheckWelcome(hello, *credentials);  // The daemon may be stopping now.
    if (failure.ok()) failure = IdentifyUser(uid, user);
    if (failure.ok()) failure = listener_.OnHello(socket, hello, *credentials, user);
  }
  EndHello(uid);
  if (!failure.ok()) Refuse(socket, failure, credentials);
}

Failure Acceptor::CheckWelcome(const queue::ClientHello& hello,
                               const queue::PeerCredentials& credentials) const {
  if (hello.magic != queue::kClientHelloMagic) {
    return Invalid("this is not an mlxcomm hello");
  }
  if (hello.version != queue::kHelloVersion) {
    return Invalid(absl::StrCat("hello of version ", hello.version, ", this daemon speaks ",
                                queue::kHelloVersion, ": install the same release of both"));
  }
  const bool known_role = hello.role == queue::ProcessRole::kClient ||
                          hello.role == queue::ProcessRole::kTool ||
                          hello.role == queue::ProcessRole::kLauncher;
  if (!known_role || hello.reserved != 0) {
    return Invalid(absl::StrCat("hello of version ", hello.version, " with role ",
                                static_cast<std::uint32_t>(hello.role), " and reserved bits ",
                                hello.reserved, ", expected role 1 to 3 and none"));
  }
  if (!options_.all_users && !MaySeeAll(credentials.uid)) {
    return {FailureCode::kPermissionDenied, kNoRank,
            absl::StrCat("it does not serve user ", credentials.uid,
                         ": set clients { all_users: true } in its configuration, or use a "
                         "private daemon (unset MLXCOMM_SOCKET)")};
  }
  if (!acceptor_.is_open()) {
    return {FailureCode::kDaemonStopping, kNoRank, "this daemon is stopping"};
  }
  return {};
}

void Acceptor::Refuse(LocalStream::socket& socket, const Failure& failure,
                      const std::optional<queue::PeerCredentials>& who) {
  ++refused_;
  queue::DaemonHello answer{};
  answer.magic = queue::kDaemonHelloMagic;
  answer.version = queue::kHelloVersion;
  answer.failure_code = failure.code;
  failure.message.copy(answer.message, sizeof answer.message - 1);
  // Best effort: a process may have left without reading the refusal.
  (void)queue::SendWithDescriptors(socket.native_handle(), &answer, sizeof answer, nullptr, 0,
                                   kRefusalTimeoutNs);
  spdlog::warn("user {}: refused process {}: {}", who ? absl::StrCat(who->uid) : "unknown",
               who ? who->pid : 0, failure.message);
}

}  // namespace mlxcomm::intake
