#include "daemon/intake/acceptor.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <utility>

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/experimental/as_tuple.hpp>
#include <asio/experimental/awaitable_operators.hpp>
#include <asio/read.hpp>
#include <asio/use_awaitable.hpp>
#include <spdlog/spdlog.h>

#include "absl/strings/str_cat.h"
#include "daemon/platform/file_descriptor.h"
#include "proto/queue/descriptor_passing.h"

namespace mlxcomm::intake {
namespace {

using namespace asio::experimental::awaitable_operators;  // NOLINT: operators only.

constexpr auto kTuple = asio::experimental::as_tuple(asio::use_awaitable);
// What a refusal may take: it fits any socket buffer.
constexpr std::uint64_t kRefusalTimeoutNs = 10'000'000;

// Makes the path free to bind to. A daemon that is merely slow, or stopped, still
// listens: only a refused connection proves a socket stale.
absl::Status ClearPath(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return absl::InvalidArgumentError(
        absl::StrCat("socket_path: \"", path, "\" has ", path.size(), " bytes, expected 1 to ",
                     sizeof address.sun_path - 1));
  }
  struct stat facts {};
  if (::lstat(path.c_str(), &facts) != 0) {
    if (errno == ENOENT) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(path, ": ", std::strerror(errno)));
  }
  if (!S_ISSOCK(facts.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat(
        path, " exists and is not a socket: remove it, or choose another socket_path"));
  }
  path.copy(address.sun_path, path.size());
  const platform::FileDescriptor probe(::socket(AF_UNIX, SOCK_STREAM, 0));
  ::fcntl(probe.get(), F_SETFL, O_NONBLOCK);  // A full backlog must not hold us up.
  const bool connected = ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address),
                                   sizeof address) == 0;
  if (connected || errno == EAGAIN || errno == EINPROGRESS) {
    return absl::AlreadyExistsError(absl::StrCat(
        "another mlxcommd listens at ", path,
        ": stop it first, or give this one another socket_path"));
  }
  if (errno == ENOENT) return absl::OkStatus();
  if (errno != ECONNREFUSED || ::unlink(path.c_str()) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        path, " cannot be replaced (", std::strerror(errno), "): choose another socket_path"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Acceptor::MakeFolder() const {
  const std::filesystem::path folder =
      std::filesystem::path(options_.socket_path).parent_path();
  std::error_code error;
  if (folder.empty() || std::filesystem::exists(folder, error)) return absl::OkStatus();
  if (!error && std::filesystem::create_directories(folder, error)) {
    ::chmod(folder.c_str(), options_.all_users ? 0755 : 0700);
  }
  if (!error) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the socket's folder ", folder.string(), ": ", error.message()));
}

absl::Status Acceptor::Listen() {
  if (absl::Status status = MakeFolder(); !status.ok()) return status;
  if (absl::Status status = ClearPath(options_.socket_path); !status.ok()) return status;
  asio::error_code error;
  acceptor_.open(LocalStream(), error);
  if (!error) ::fcntl(acceptor_.native_handle(), F_SETFD, FD_CLOEXEC);
  const mode_t before = ::umask(options_.all_users ? 0111 : 0177);
  if (!error) acceptor_.bind(LocalStream::endpoint(options_.socket_path), error);
  ::umask(before);
  owns_path_ = !error;
  if (!error) acceptor_.listen(128, error);
  if (error) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot listen on ", options_.socket_path, ": ", error.message()));
  }
  asio::co_spawn(io_, AcceptLoop(), asio::detached);
  return absl::OkStatus();
}

void Acceptor::Stop() {
  asio::error_code ignored;
  acceptor_.close(ignored);
  if (std::exchange(owns_path_, false)) ::unlink(options_.socket_path.c_str());
}

asio::awaitable<void> Acceptor::AcceptLoop() {
  for (;;) {
    auto [error, socket] = co_await acceptor_.async_accept(kTuple);
    if (!acceptor_.is_open()) co_return;
    if (error) {  // Out of descriptors, say: wait rather than spin.
      asio::steady_timer pause(io_, std::chrono::milliseconds(100));
      co_await pause.async_wait(kTuple);
      continue;
    }
    ::fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);
    if (hellos_ >= kHellosMax) {
      Refuse(socket,
             {FailureCode::kResourceExhausted, kNoRank,
              absl::StrCat(kHellosMax, " processes are saying hello already: try again")},
             0);
      continue;
    }
    asio::co_spawn(io_, Greet(std::move(socket)), asio::detached);
  }
}

asio::awaitable<void> Acceptor::Greet(LocalStream::socket socket) {
  ++hellos_;
  const auto credentials = platform::GetPeerCredentials(socket.native_handle());
  asio::steady_timer deadline(io_, std::chrono::nanoseconds(options_.hello_timeout_ns));
  queue::ClientHello hello{};
  const auto first = co_await (
      asio::async_read(socket, asio::buffer(&hello, sizeof hello), kTuple) ||
      deadline.async_wait(kTuple));
  --hellos_;
  const bool late = first.index() == 1;
  Failure failure;
  if (!late && std::get<0>(std::get<0>(first))) {
    failure = {FailureCode::kInvalidArgument, kNoRank, "it left before its hello was complete"};
  } else if (late) {
    failure = {FailureCode::kInvalidArgument, kNoRank,
               absl::StrCat("no complete hello of ", sizeof hello, " bytes within ",
                            options_.hello_timeout_ns / 1'000'000, " ms")};
  } else if (!credentials.ok()) {
    failure = {FailureCode::kPermissionDenied, kNoRank,
               absl::StrCat("the system does not say who it is: ",
                            credentials.status().message())};
  } else {
    failure = CheckWelcome(hello, *credentials);
    if (failure.ok()) failure = listener_.OnHello(socket, hello, *credentials);
  }
  if (!failure.ok()) Refuse(socket, failure, credentials.ok() ? credentials->pid : 0);
}

Failure Acceptor::CheckWelcome(const queue::ClientHello& hello,
                               const platform::PeerCredentials& credentials) const {
  if (hello.magic != queue::kClientHelloMagic) {
    return {FailureCode::kInvalidArgument, kNoRank, "this is not an mlxcomm hello"};
  }
  if (hello.version != queue::kHelloVersion) {
    return {FailureCode::kInvalidArgument, kNoRank,
            absl::StrCat("hello of version ", hello.version, ", this daemon speaks ",
                         queue::kHelloVersion, ": install the same release of both")};
  }
  const bool known_role =
      hello.role == queue::ProcessRole::kClient || hello.role == queue::ProcessRole::kTool;
  if (!known_role || hello.reserved != 0) {
    return {FailureCode::kInvalidArgument, kNoRank,
            absl::StrCat("hello of version ", hello.version, " with role ",
                         static_cast<std::uint32_t>(hello.role), " and reserved bits ",
                         hello.reserved, ", expected role 1 or 2 and none")};
  }
  if (!options_.all_users && credentials.uid != 0 && credentials.uid != ::geteuid()) {
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

void Acceptor::Refuse(LocalStream::socket& socket, const Failure& failure, pid_t pid) {
  ++refused_;
  queue::DaemonHello answer{};
  answer.magic = queue::kDaemonHelloMagic;
  answer.version = queue::kHelloVersion;
  answer.failure_code = failure.code;
  failure.message.copy(answer.message, sizeof answer.message - 1);
  // Best effort: whoever does not even read the refusal has gone.
  (void)queue::SendWithDescriptors(socket.native_handle(), &answer, sizeof answer, nullptr, 0,
                                   kRefusalTimeoutNs);
  LogRefusal(failure, pid);
}

void Acceptor::LogRefusal(const Failure& failure, pid_t pid) {
  if (++refused_in_window_ <= kRefusalsLoggedPerSecond) {
    spdlog::warn("refused local process {}: {}", pid, failure.message);
  }
  if (refused_in_window_ != 1) return;
  window_.expires_after(std::chrono::seconds(1));
  window_.async_wait([this](const asio::error_code& cancelled) {
    if (cancelled) return;
    const std::uint64_t refused = std::exchange(refused_in_window_, 0);
    if (refused <= kRefusalsLoggedPerSecond) return;
    spdlog::warn("refused {} more local processes", refused - kRefusalsLoggedPerSecond);
  });
}

}  // namespace mlxcomm::intake
