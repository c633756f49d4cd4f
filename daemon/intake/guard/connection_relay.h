// Carries control connections between processes and gRPC, so that none makes gRPC hold unbounded
// memory.
//
//   process ─▶ FrameMeter: end? wait? ─▶ gRPC ─▶ answers ─▶ process
//      '── not read while answers wait ◀── the process does not read them; after a deadline: ended
//
// All connections share a buffer for requests and one for answers. The relay keeps only what the
// other side does not take at once, one chunk in each direction, and reads no more there until it
// is gone. A user's meter lives as long as its connections, and then until it is full again.
// README.md lists what ends a connection.
//
// Owner: ControlServer. Thread: Post, Carry, Charge and ended() from any; the rest on its own.
// Memory: two chunks for each connection with a slow side; a meter for each user.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <thread>

#include <sys/types.h>

#include <asio/awaitable.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "absl/functional/any_invocable.h"
#include "daemon/intake/guard/end_reason.h"
#include "daemon/intake/guard/frame_meter.h"
#include "proto/system/file_descriptor.h"

namespace mlxcomm::guard {

class ConnectionRelay {
 public:
  static constexpr std::size_t kRequestChunkBytes = 16 * 1024;
  static constexpr std::size_t kAnswerChunkBytes = 64 * 1024;
  // Answers that are unread for this long end the connection. A connection with a single call may
  // be a stream of events whose reader pauses: it gets kOneCallPatience times as long.
  static constexpr std::uint64_t kUnreadTimeoutNs = 10'000'000'000;
  static constexpr std::uint64_t kOneCallPatience = 60;
  static constexpr std::size_t kOpenCallsMany = 4;

  explicit ConnectionRelay(std::uint64_t unread_timeout_ns = kUnreadTimeoutNs);
  // Passes on the answers that the processes take at once, then closes all connections.
  ~ConnectionRelay();

  // Runs `work` on the relay's thread, unless that has ended.
  void Post(absl::AnyInvocable<void()> work);
  // `process` and `grpc` do not block. Both are closed when either side ends.
  void Carry(FileDescriptor process, FileDescriptor grpc);
  // Charges work beyond frames to the user, which slows its next requests. Unknown users have no
  // meter.
  void Charge(uid_t uid, double work);
  EndCounts ended() const;

 private:
  struct Connection;
  struct User {
    UserMeter meter;
    std::uint32_t connections = 0;
  };

  void Begin(FileDescriptor process, FileDescriptor grpc);
  User& Arrive(uid_t uid, std::uint64_t now_ns);
  asio::awaitable<void> CarryRequests(Connection& connection);
  asio::awaitable<void> CarryAnswers(Connection& connection);
  asio::awaitable<bool> PassRequests(Connection& connection, std::size_t bytes);
  asio::awaitable<bool> PassAnswers(Connection& connection, std::size_t bytes);
  void Close(Connection& connection, EndReason reason);
  void Leave(Connection& connection, bool closes = true);
  std::uint64_t UnreadTimeoutNs(const Connection& connection) const;
  void Report(const Connection& connection, EndReason reason);
  void ReleaseMemorySoon();
  void CloseAll();

  const std::uint64_t unread_timeout_ns_;
  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  std::array<std::byte, kRequestChunkBytes> requests_;
  std::array<std::byte, kAnswerChunkBytes> answers_;
  std::map<uid_t, User> users_;
  std::list<Connection> connections_;
  std::array<std::atomic<std::uint64_t>, kEndReasons> ended_{};
  asio::steady_timer second_;  // Runs from when a connection ends until its memory is released.
  bool releases_soon_ = false;
  std::thread thread_;
};

}  // namespace mlxcomm::guard
