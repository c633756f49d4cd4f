#include "daemon/intake/local_intake.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/experimental/as_tuple.hpp>
#include <asio/experimental/awaitable_operators.hpp>
#include <asio/read.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>
#include <openssl/rand.h>
#include <spdlog/spdlog.h>

#include "absl/strings/str_cat.h"
#include "daemon/intake/submission_check.h"
#include "daemon/platform/machine.h"
#include "proto/queue/descriptor_passing.h"
#include "proto/queue/dial.h"
#include "proto/queue/doorbell.h"

namespace mlxcomm::intake {
namespace {

using namespace asio::experimental::awaitable_operators;  // NOLINT: operators only.

constexpr auto kTuple = asio::experimental::as_tuple(asio::use_awaitable);
// What a hello's answer may take: it fits any socket buffer.
constexpr std::uint64_t kAnswerTimeoutNs = 10'000'000;

// Somebody answers at the path: it must not be taken away from them.
bool IsServed(const std::string& path) {
  queue::Dialed dialed;
  const Failure failure = queue::Dial(path, queue::ProcessRole::kTool, 0, 500'000'000, dialed);
  for (int i = 0; i < dialed.descriptor_count; ++i) ::close(dialed.descriptors[i]);
  if (dialed.connection >= 0) ::close(dialed.connection);
  return failure.ok() || failure.code != FailureCode::kUnavailable;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Intake>> Intake::Create(asio::io_context& io,
                                                       IntakeOptions options,
                                                       IntakeListener& listener) {
  auto intake = std::make_unique<LocalIntake>(io, std::move(options), listener);
  if (absl::Status status = intake->Listen(); !status.ok()) return status;
  return std::unique_ptr<Intake>(std::move(intake));
}

absl::Status LocalIntake::Listen() {
  const std::filesystem::path path(options_.socket_path);
  std::error_code folder_error;
  if (path.has_parent_path() && !std::filesystem::exists(path.parent_path())) {
    std::filesystem::create_directories(path.parent_path(), folder_error);
    ::chmod(path.parent_path().c_str(), options_.all_users ? 0755 : 0700);
  }
  if (folder_error) {
    return absl::FailedPreconditionError(absl::StrCat(
        "socket folder ", path.parent_path().string(), ": ", folder_error.message()));
  }
  if (std::filesystem::exists(path, folder_error) && IsServed(options_.socket_path)) {
    return absl::AlreadyExistsError(absl::StrCat(
        "another mlxcommd answers at ", options_.socket_path,
        ": stop it first, or give this one another socket_path"));
  }
  ::unlink(options_.socket_path.c_str());
  asio::error_code error;
  acceptor_.open(Stream(), error);
  const mode_t before = ::umask(options_.all_users ? 0111 : 0177);
  if (!error) acceptor_.bind(Stream::endpoint(options_.socket_path), error);
  ::umask(before);
  if (!error) acceptor_.listen(128, error);
  if (error) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot listen on ", options_.socket_path, ": ", error.message()));
  }
  owns_path_ = true;
  asio::co_spawn(io_, AcceptLoop(), asio::detached);
  return absl::OkStatus();
}

LocalIntake::~LocalIntake() {
  StopAccepting();
  for (const auto& [id, session] : sessions_) session->End();
}

void LocalIntake::StopAccepting() {
  asio::error_code ignored;
  acceptor_.close(ignored);
  if (std::exchange(owns_path_, false)) ::unlink(options_.socket_path.c_str());
}

asio::awaitable<void> LocalIntake::AcceptLoop() {
  for (;;) {
    auto [error, socket] = co_await acceptor_.async_accept(kTuple);
    if (!acceptor_.is_open()) co_return;
    if (error) {  // Out of descriptors, say: wait rather than spin.
      asio::steady_timer pause(io_, std::chrono::milliseconds(100));
      co_await pause.async_wait(kTuple);
      continue;
    }
    if (hellos_ >= kHellosMax) {
      Refuse(socket, {FailureCode::kResourceExhausted, kNoRank, "too many hellos at once"}, 0);
      continue;
    }
    asio::co_spawn(io_, Greet(std::move(socket)), asio::detached);
  }
}

asio::awaitable<void> LocalIntake::Greet(Stream::socket socket) {
  ++hellos_;
  const auto credentials = platform::GetPeerCredentials(socket.native_handle());
  asio::steady_timer deadline(io_, std::chrono::nanoseconds(options_.hello_timeout_ns));
  queue::ClientHello hello{};
  const auto first = co_await (
      asio::async_read(socket, asio::buffer(&hello, sizeof hello), kTuple) ||
      deadline.async_wait(kTuple));
  const bool error = first.index() == 1 || std::get<0>(std::get<0>(first));
  --hellos_;
  const auto pid = static_cast<std::uint32_t>(credentials.ok() ? credentials->pid : 0);
  if (error || !credentials.ok()) {
    Refuse(socket, {FailureCode::kInvalidArgument, kNoRank, "no complete hello in time"}, pid);
    co_return;
  }
  Failure failure = CheckWelcome(hello, *credentials);
  if (failure.ok()) failure = Open(socket, hello, *credentials);
  if (!failure.ok()) Refuse(socket, failure, pid);
}

Failure LocalIntake::CheckWelcome(const queue::ClientHello& hello,
                                  const platform::PeerCredentials& credentials) const {
  const bool known_role =
      hello.role == queue::ProcessRole::kClient || hello.role == queue::ProcessRole::kTool;
  if (hello.magic != queue::kClientHelloMagic) {
    return {FailureCode::kInvalidArgument, kNoRank, "this is not an mlxcomm hello"};
  }
  if (hello.version != queue::kHelloVersion || !known_role || hello.reserved != 0) {
    return {FailureCode::kInvalidArgument, kNoRank,
            absl::StrCat("hello of version ", hello.version, ", this daemon speaks ",
                         queue::kHelloVersion, ": install the same release of both")};
  }
  if (!options_.all_users && credentials.uid != 0 && credentials.uid != ::geteuid()) {
    return {FailureCode::kPermissionDenied, kNoRank,
            absl::StrCat("it does not serve user ", credentials.uid,
                         ": set clients { all_users: true } in its configuration, or use a "
                         "private daemon (unset MLXCOMM_SOCKET)")};
  }
  if (hello.role == queue::ProcessRole::kClient && clients_ >= options_.clients_max) {
    return {FailureCode::kResourceExhausted, kNoRank,
            absl::StrCat("it serves ", clients_.load(), " clients already, its limit "
                         "(clients { clients_max })")};
  }
  if (hello.role == queue::ProcessRole::kTool && tools_ >= kToolsMax) {
    return {FailureCode::kResourceExhausted, kNoRank, "too many tools are connected"};
  }
  return {};
}

std::uint64_t LocalIntake::ArenaBytes(std::uint64_t wanted) const {
  const std::uint64_t limit =
      options_.arena_bytes_max != 0 ? options_.arena_bytes_max : platform::PhysicalMemoryBytes();
  return std::max<std::uint64_t>(wanted == 0 ? limit : std::min(wanted, limit), 1);
}

Failure LocalIntake::Open(Stream::socket& socket, const queue::ClientHello& hello,
                          const platform::PeerCredentials& credentials) {
  int ends[2] = {-1, -1};
  Session::Token token{};
  if (!queue::MakeDoorbellPair(ends) ||
      RAND_bytes(token.data(), static_cast<int>(token.size())) != 1) {
    return {FailureCode::kResourceExhausted, kNoRank,
            absl::StrCat("no doorbell: ", std::strerror(errno))};
  }
  platform::FileDescriptor theirs(ends[1]);
  const Peer peer{hello.role, credentials.uid, credentials.gid, credentials.pid};
  auto created = Session::Create(io_, next_session_, peer, token,
                                 platform::FileDescriptor(ends[0]), ArenaBytes(hello.arena_bytes),
                                 *this);
  if (!created.ok()) {
    return {FailureCode::kResourceExhausted, kNoRank, std::string(created.status().message())};
  }
  Session& session = **created;
  queue::DaemonHello answer{};
  answer.magic = queue::kDaemonHelloMagic;
  answer.version = queue::kHelloVersion;
  answer.arena_bytes = session.arena_bytes();
  answer.token = token;
  int descriptors[queue::kClientDescriptors] = {theirs.get(), -1, -1};
  int count = queue::kToolDescriptors;
  if (session.is_client()) {
    descriptors[0] = session.arena_descriptor();
    descriptors[1] = session.queue_descriptor();
    descriptors[2] = theirs.get();
    count = queue::kClientDescriptors;
  }
  if (!queue::SendWithDescriptors(socket.native_handle(), &answer, sizeof answer, descriptors,
                                  count, kAnswerTimeoutNs)) {
    return {FailureCode::kUnavailable, kNoRank, "it left during the hello"};
  }
  asio::error_code ignored;
  platform::FileDescriptor connection(socket.release(ignored));
  ::fcntl(connection.get(), F_SETFL, O_NONBLOCK);
  session.KeepConnection(
      platform::FileDescriptor(::fcntl(connection.get(), F_DUPFD_CLOEXEC, 0)));
  const SessionId id = next_session_++;
  {
    const std::lock_guard lock(known_mutex_);
    known_[std::string(reinterpret_cast<const char*>(token.data()), token.size())] = {
        {id, peer}, absl::StrCat("fd:", connection.get())};
  }
  if (session.is_client()) {
    ++clients_;
    arena_bytes_ += session.arena_bytes();
    polled_.push_back(&session);
  } else {
    ++tools_;
  }
  sessions_.emplace(id, *std::move(created));
  session.Watch();
  listener_.OnSessionOpened(id, peer);
  listener_.OnConnection(id, std::move(connection));
  return {};
}

void LocalIntake::Refuse(Stream::socket& socket, const Failure& failure, std::uint32_t pid) {
  ++refused_;
  queue::DaemonHello answer{};
  answer.magic = queue::kDaemonHelloMagic;
  answer.version = queue::kHelloVersion;
  answer.failure_code = failure.code;
  failure.message.copy(answer.message, sizeof answer.message - 1);
  // Best effort: whoever does not even read the refusal has gone.
  (void)queue::SendWithDescriptors(socket.native_handle(), &answer, sizeof answer, nullptr, 0,
                                   kAnswerTimeoutNs);
  constexpr std::uint64_t kLoggedPerSecond = 5;
  const std::uint64_t second = platform::MonotonicNow() / 1'000'000'000;
  if (second != refusal_second_) {
    if (refusals_logged_in_second_ > kLoggedPerSecond) {
      spdlog::warn("refused {} more local processes",
                   refusals_logged_in_second_ - kLoggedPerSecond);
    }
    refusal_second_ = second;
    refusals_logged_in_second_ = 0;
  }
  if (refusals_logged_in_second_++ < kLoggedPerSecond) {
    spdlog::warn("refused local process {}: {}", pid, failure.message);
  }
}

std::size_t LocalIntake::Poll() {
  std::size_t taken = 0;
  for (std::size_t i = 0; i < polled_.size(); ++i) {
    Session& session = *polled_[i];
    for (std::size_t n = 0; n < kSubmissionsPerTurn && !session.ended(); ++n) {
      if (!TakeSubmission(session)) break;
      ++taken;
    }
  }
  std::erase_if(polled_, [](const Session* session) { return session->ended(); });
  return taken;
}

bool LocalIntake::TakeSubmission(Session& session) {
  queue::SubmissionEntry entry;
  switch (session.PopSubmission(entry)) {
    case queue::RingResult::kNothing: return false;
    case queue::RingResult::kCorrupt:
      EndForGarbage(session, "its queue's positions are impossible");
      return false;
    case queue::RingResult::kDone: break;
  }
  const CheckedSubmission checked =
      CheckSubmission(entry, session.arena(), session.arena_bytes());
  switch (checked.finding) {
    case Finding::kFine: listener_.OnSubmission(session.id(), checked.submission); break;
    case Finding::kWrong:
      Complete(session.id(), entry.ticket, entry.group,
               {FailureCode::kInvalidArgument, kNoRank, checked.message}, false);
      break;
    case Finding::kGarbage:
      EndForGarbage(session, "a submission that no client library writes");
      return false;
  }
  return true;
}

void LocalIntake::EndForGarbage(Session& session, const std::string& what) {
  ++garbage_;
  End(session.id(), absl::InvalidArgumentError(absl::StrCat("garbage in its queue: ", what)));
}

bool LocalIntake::PrepareToSleep() {
  for (std::size_t i = 0; i < polled_.size(); ++i) {
    if (polled_[i]->ended() || polled_[i]->PrepareToSleep()) continue;
    for (std::size_t k = 0; k < i; ++k) polled_[k]->WakeUp();
    return false;
  }
  return true;
}

void LocalIntake::WakeUp() {
  for (Session* const session : polled_) {
    if (!session->ended()) session->WakeUp();
  }
}

void LocalIntake::Complete(SessionId id, std::uint64_t ticket, std::uint64_t group,
                           const Failure& failure, bool group_failed) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end() || found->second->ended()) return;
  queue::CompletionEntry entry;
  entry.ticket = ticket;
  entry.group = group;
  entry.rank_at_fault = failure.rank;
  entry.failure_code = static_cast<std::uint8_t>(failure.code);
  entry.group_failed = group_failed ? 1 : 0;
  std::fill(std::begin(entry.reserved), std::end(entry.reserved), std::uint8_t{0});
  entry.message_bytes = static_cast<std::uint16_t>(
      failure.message.copy(entry.message, queue::kMessageBytesMax));
  if (!found->second->PushCompletion(entry)) {
    EndForGarbage(*found->second, "it never reads its completions");
  }
}

void LocalIntake::OnProcessGone(SessionId session) {
  End(session, absl::UnavailableError("its process ended"));
}

// The listener hears of it in a turn of its own, so that it may end a session from
// inside any callback.
void LocalIntake::End(SessionId id, const absl::Status& why) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end() || found->second->ended()) return;
  Session& session = *found->second;
  session.End();
  {
    const std::lock_guard lock(known_mutex_);
    known_.erase(std::string(reinterpret_cast<const char*>(session.token().data()),
                             session.token().size()));
  }
  if (session.is_client()) {
    --clients_;
    arena_bytes_ -= session.arena_bytes();
  } else {
    --tools_;
  }
  asio::post(io_, [this, id, why] { listener_.OnSessionEnded(id, why); });
}

void LocalIntake::ReleaseMemory(SessionId id) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end() || !found->second->ended()) return;
  std::erase(polled_, found->second.get());
  sessions_.erase(found);
}

std::optional<SessionIdentity> LocalIntake::Find(std::string_view token,
                                                 std::string_view grpc_peer) const {
  const std::lock_guard lock(known_mutex_);
  const auto found = known_.find(std::string(token));
  if (found == known_.end() || found->second.grpc_peer != grpc_peer) return std::nullopt;
  return found->second.identity;
}

IntakeCounters LocalIntake::counters() const {
  return {clients_, refused_, garbage_, arena_bytes_};
}

}  // namespace mlxcomm::intake
