#include "daemon/intake/guard/connection_relay.h"

#include <chrono>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <spdlog/spdlog.h>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/dispatch.hpp>
#include <asio/experimental/awaitable_operators.hpp>
#include <asio/local/stream_protocol.hpp>
#include <asio/post.hpp>

#include "absl/strings/str_cat.h"
#include "daemon/platform/await_tuple.h"
#include "daemon/platform/machine.h"
#include "proto/queue/socket_options.h"

namespace mlxcomm::guard {
namespace {

using namespace asio::experimental::awaitable_operators;  // NOLINT: operators only.
using platform::kTuple;
using Stream = asio::local::stream_protocol::socket;
constexpr uid_t kUnknownUser = std::numeric_limits<uid_t>::max();

// Returns how much the socket took at once.
std::size_t WriteSome(Stream& to, std::span<const std::byte> bytes, asio::error_code& error) {
  std::size_t written = 0;
  error = {};
  while (written < bytes.size() && !error) {
    written += to.write_some(asio::buffer(bytes.data() + written, bytes.size() - written), error);
  }
  if (error == asio::error::would_block) error = {};
  return written;
}

}  // namespace

struct ConnectionRelay::Connection {
  Stream process;
  Stream grpc;
  uid_t uid;
  pid_t pid;
  User& user;
  FrameMeter meter;
  asio::steady_timer slowed;  // Delays requests.
  asio::steady_timer unread;  // Deadline of waiting answers.
  asio::steady_timer taken;   // Never fires; cancelled once no answers wait.
  bool answers_wait = false;
  std::uint32_t directions = 2;
  std::list<Connection>::iterator self;

  Connection(asio::io_context& io, uid_t owner, pid_t process_id, User& meters,
             std::uint64_t now_ns)
      : process(io),
        grpc(io),
        uid(owner),
        pid(process_id),
        user(meters),
        meter(meters.meter, now_ns),
        slowed(io),
        unread(io),
        taken(io, asio::steady_timer::time_point::max()) {}
  bool open() const { return process.is_open(); }
};

ConnectionRelay::ConnectionRelay(std::uint64_t unread_timeout_ns)
    : unread_timeout_ns_(unread_timeout_ns), second_(io_), thread_([this] { io_.run(); }) {}

ConnectionRelay::~ConnectionRelay() {
  asio::post(io_, [this] { CloseAll(); });
  thread_.join();
}

void ConnectionRelay::Post(absl::AnyInvocable<void()> work) { asio::post(io_, std::move(work)); }

void ConnectionRelay::Carry(FileDescriptor process, FileDescriptor grpc) {
  asio::dispatch(io_, [this, process = std::move(process), grpc = std::move(grpc)]() mutable {
    Begin(std::move(process), std::move(grpc));
  });
}

void ConnectionRelay::Charge(uid_t uid, double work) {
  asio::post(io_, [this, uid, work] {
    const auto user = users_.find(uid);
    if (user != users_.end()) user->second.meter.Count(work, 0, platform::MonotonicNow());
  });
}

EndCounts ConnectionRelay::ended() const {
  EndCounts counts{};
  for (std::size_t i = 0; i < kEndReasons; ++i) counts[i] = ended_[i];
  return counts;
}

ConnectionRelay::User& ConnectionRelay::Arrive(uid_t uid, std::uint64_t now_ns) {
  std::erase_if(users_, [now_ns](auto& entry) {
    return entry.second.connections == 0 && entry.second.meter.IsRested(now_ns);
  });
  User& user = users_.try_emplace(uid, User{UserMeter(now_ns)}).first->second;
  ++user.connections;
  return user;
}

void ConnectionRelay::Begin(FileDescriptor process, FileDescriptor grpc) {
  if (!work_.owns_work()) return;
  const auto who = queue::FindPeer(process.get());
  const uid_t uid = who ? who->uid : kUnknownUser;
  const std::uint64_t now_ns = platform::MonotonicNow();
  connections_.emplace_front(io_, uid, who ? who->pid : 0, Arrive(uid, now_ns), now_ns);
  Connection& connection = connections_.front();
  connection.self = connections_.begin();
  for (const auto& [stream, descriptor] :
       {std::pair{&connection.process, &process}, std::pair{&connection.grpc, &grpc}}) {
    asio::error_code error;
    queue::SilenceSignals(descriptor->get());
    stream->assign(asio::local::stream_protocol(), descriptor->get(), error);
    if (!error) descriptor->Release();
    if (!error) stream->non_blocking(true, error);
    if (error) {
      spdlog::error("cannot serve the calls of process {}: {}", connection.pid, error.message());
      connection.directions = 1;
      return Leave(connection);
    }
  }
  asio::co_spawn(io_, CarryRequests(connection), asio::detached);
  asio::co_spawn(io_, CarryAnswers(connection), asio::detached);
}

// Reads one chunk a turn of the thread, so that no connection holds up the others.
asio::awaitable<void> ConnectionRelay::CarryRequests(Connection& connection) {
  while (connection.open()) {
    co_await connection.process.async_wait(Stream::wait_read, kTuple);
    while (connection.answers_wait) co_await connection.taken.async_wait(kTuple);
    if (!connection.open()) break;
    asio::error_code error;
    const std::size_t bytes = connection.process.read_some(asio::buffer(requests_), error);
    if (error == asio::error::would_block) continue;
    if (error) break;
    const EndReason reason =
        connection.meter.Take({requests_.data(), bytes}, platform::MonotonicNow());
    if (reason != EndReason::kNone) {
      Close(connection, reason);
      break;
    }
    // gRPC has closed its end: pass on what it wrote before that.
    if (!co_await PassRequests(connection, bytes)) co_return Leave(connection, /*closes=*/false);
  }
  Leave(connection);
}

// False if gRPC takes no more, or the connection was closed.
asio::awaitable<bool> ConnectionRelay::PassRequests(Connection& connection, std::size_t bytes) {
  const std::span<const std::byte> chunk(requests_.data(), bytes);
  const std::uint64_t wait_ns = connection.user.meter.WaitNs(platform::MonotonicNow());
  asio::error_code error;
  std::size_t passed = wait_ns == 0 ? WriteSome(connection.grpc, chunk, error) : 0;
  if (error || passed == bytes) co_return !error;
  const std::vector<std::byte> rest(chunk.begin() + static_cast<std::ptrdiff_t>(passed),
                                    chunk.end());
  if (wait_ns > 0) {
    connection.slowed.expires_after(std::chrono::nanoseconds(wait_ns));
    co_await connection.slowed.async_wait(kTuple);
  }
  passed = 0;
  while (connection.open()) {
    passed += WriteSome(connection.grpc, std::span(rest).subspan(passed), error);
    if (error || passed == rest.size()) co_return !error;
    co_await connection.grpc.async_wait(Stream::wait_write, kTuple);
  }
  co_return false;
}

asio::awaitable<void> ConnectionRelay::CarryAnswers(Connection& connection) {
  while (connection.open()) {
    co_await connection.grpc.async_wait(Stream::wait_read, kTuple);
    if (!connection.open()) break;
    asio::error_code error;
    const std::size_t bytes = connection.grpc.read_some(asio::buffer(answers_), error);
    if (error == asio::error::would_block) continue;
    if (error) break;
    connection.meter.TakeAnswers({answers_.data(), bytes});
    if (!co_await PassAnswers(connection, bytes)) break;
  }
  Leave(connection);
}

asio::awaitable<bool> ConnectionRelay::PassAnswers(Connection& connection, std::size_t bytes) {
  const std::span<const std::byte> chunk(answers_.data(), bytes);
  asio::error_code error;
  std::size_t passed = WriteSome(connection.process, chunk, error);
  if (error || passed == bytes) co_return !error;
  const std::vector<std::byte> rest(chunk.begin() + static_cast<std::ptrdiff_t>(passed),
                                    chunk.end());
  connection.answers_wait = true;
  connection.unread.expires_after(std::chrono::nanoseconds(UnreadTimeoutNs(connection)));
  for (passed = 0; connection.open() && !error && passed < rest.size();) {
    const auto first = co_await (connection.process.async_wait(Stream::wait_write, kTuple) ||
                                 connection.unread.async_wait(kTuple));
    if (!connection.open()) break;
    passed += WriteSome(connection.process, std::span(rest).subspan(passed), error);
    if (first.index() == 1 && passed < rest.size()) Close(connection, EndReason::kUnread);
  }
  connection.answers_wait = false;
  connection.taken.cancel();
  co_return !error && connection.open();
}

std::uint64_t ConnectionRelay::UnreadTimeoutNs(const Connection& connection) const {
  return unread_timeout_ns_ * (connection.meter.calls_made() > 1 ? 1 : kOneCallPatience);
}

void ConnectionRelay::Close(Connection& connection, EndReason reason) {
  if (!connection.open()) return;
  if (reason != EndReason::kNone) Report(connection, reason);
  if (connection.meter.open_calls() >= kOpenCallsMany) ReleaseMemorySoon();
  asio::error_code ignored;
  // The intake has a duplicate of its descriptor.
  connection.process.shutdown(Stream::shutdown_both, ignored);
  connection.process.close(ignored);
  connection.grpc.close(ignored);
  connection.slowed.cancel();
  connection.unread.cancel();
  connection.taken.cancel();
}

// Ends one direction; the other follows at once, or at its own end.
void ConnectionRelay::Leave(Connection& connection, bool closes) {
  if (closes) Close(connection, EndReason::kNone);
  if (--connection.directions > 0) return;
  --connection.user.connections;
  connections_.erase(connection.self);
}

void ConnectionRelay::Report(const Connection& connection, EndReason reason) {
  ++ended_[static_cast<std::size_t>(reason)];
  const std::string waited =
      reason == EndReason::kUnread
          ? absl::StrCat(" for ", UnreadTimeoutNs(connection) / 1'000'000, " ms")
          : "";
  spdlog::warn("user {}: ended the control connection of process {}: {}{}", connection.uid,
               connection.pid, kEndReasonTexts[static_cast<std::size_t>(reason)].sentence, waited);
  ReleaseMemorySoon();
}

void ConnectionRelay::ReleaseMemorySoon() {
  if (std::exchange(releases_soon_, true)) return;
  second_.expires_after(std::chrono::seconds(1));
  second_.async_wait([this](const asio::error_code& cancelled) {
    if (cancelled) return;
    releases_soon_ = false;
    platform::ReleaseFreeMemory();
  });
}

void ConnectionRelay::CloseAll() {
  for (Connection& connection : connections_) {
    asio::error_code error;
    while (connection.open() && !connection.answers_wait && !error) {
      const std::size_t bytes = connection.grpc.read_some(asio::buffer(answers_), error);
      if (error) break;
      if (WriteSome(connection.process, {answers_.data(), bytes}, error) < bytes) break;
    }
    Close(connection, EndReason::kNone);
  }
  second_.cancel();
  work_.reset();
}

}  // namespace mlxcomm::guard
