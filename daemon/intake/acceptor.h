// The door of the intake: listens on the Unix socket, reads each process's hello, and refuses processes
// that it may not serve, with the reason and the remedy.
//
//   connect ─▶ hello within its deadline ─▶ form, user ─▶ OnHello() ─▶ (the listener's)
//                      │                        │             │
//                      └────────────────────────┴─────────────┴──▶ refused, counted, logged
//
// An unknown process costs one socket and one small frame until the deadline; at most kHellosMax hellos
// are open at once, kHellosPerUserMax of one user, and kHellosKept more of root and the daemon's own user.
// At most kAcceptsPerTurn are accepted before the next OnTurn(), so that a flood does not hold up the loop.
//
// Owner: Intake. Thread: the loop's; refused() from any. Memory: these hellos. The io_context
// must not run again once the acceptor has been destroyed.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include <asio/awaitable.hpp>
#include <asio/io_context.hpp>
#include <asio/local/stream_protocol.hpp>
#include <asio/steady_timer.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/intake/socket_file.h"
#include "daemon/intake/user_directory.h"
#include "daemon/platform/token_bucket.h"
#include "proto/queue/hello.h"
#include "proto/queue/socket_options.h"
#include "proto/types/failure.h"

namespace mlxcomm::intake {

using LocalStream = asio::local::stream_protocol;

class HelloListener {
 public:
  virtual ~HelloListener() = default;
  // A hello of the right form, from a user who is served. Takes over the socket's descriptor, or
  // returns the reason for a refusal, which the process then gets.
  virtual Failure OnHello(LocalStream::socket& socket, const queue::ClientHello& hello,
                          const queue::PeerCredentials& credentials, const User& user) = 0;
};

struct AcceptorOptions {
  std::string socket_path;
  std::uint64_t hello_timeout_ns = 0;
  bool all_users = false;
  UserOptions users;
  UserDirectory::Lookup lookup = &UserDirectory::AskSystem;
};

// Of the files that this process may open, at most 64 and at most a quarter are reserved for root and the
// daemon's user: a new descriptor with such a number is not for others.
Failure CheckFilesLeft(int descriptor);

class Acceptor {
 public:
  static constexpr std::uint32_t kHellosMax = 64;
  static constexpr std::uint32_t kHellosPerUserMax = 16;
  static constexpr std::uint32_t kHellosKept = 16;
  static constexpr std::uint32_t kAcceptsPerTurn = 16;
  // A session is memory to map and descriptors to make. A user's sessions that come faster wait, and leave
  // the loop to payload; further ones are refused. Root and the daemon's user are not limited.
  static constexpr platform::Rate kSessionsOfUser = {.burst = 128, .per_second = 100};
  static constexpr std::uint32_t kSessionsWaitingMax = 128;

  Acceptor(asio::io_context& io, AcceptorOptions options, HelloListener& listener)
      : io_(io),
        options_(std::move(options)),
        listener_(listener),
        file_(options_.socket_path, options_.all_users),
        acceptor_(io),
        users_(io, options_.users, options_.lookup) {}
  ~Acceptor() { Stop(); }

  // ALREADY_EXISTS: another process listens at the path. A socket without a listener is replaced. With the
  // door of the program before this one it goes on where that ended.
  absl::Status Listen(ListenSocket listen_socket = {});
  // Accepts nobody, and lets hellos under way end; who connects waits. GoOn() ends it.
  void Rest();
  bool is_at_rest() const { return rests_ && !accepts_ && hellos_ + waiting_ == 0; }
  void GoOn() {
    rests_ = false;
    BeginToAccept();
  }
  // At rest: what the next program needs to go on.
  absl::StatusOr<ListenSocket> HandOver();
  // Call it once each turn of the loop, before it sleeps: more processes may connect.
  void OnTurn() {
    accepted_in_turn_ = 0;
    BeginToAccept();
  }
  // Closes the door and removes the socket's file. Hellos under way are refused.
  void Stop();
  std::uint64_t refused() const { return refused_; }

 private:
  struct UserHellos {
    std::uint32_t under_way = 0;
    std::uint32_t waiting = 0;  // For their turn: they are not under way.
    platform::TokenBucket sessions{kSessionsOfUser};
  };

  absl::Status ListenAgain();
  absl::Status ListenAt(ListenSocket listen_socket);
  void BeginToAccept();
  asio::awaitable<void> AcceptLoop();
  asio::awaitable<void> Greet(LocalStream::socket socket);
  // Returns when either is done: the lookup of the user, or the hello's deadline.
  asio::awaitable<void> LearnUser(uid_t uid, asio::steady_timer& deadline);
  asio::awaitable<Failure> KeepPace(uid_t uid);
  void BeginHello(uid_t uid);
  void EndHello(uid_t uid);
  Failure IdentifyUser(uid_t uid, User& user);
  Failure MaySayHello(int descriptor, const std::optional<queue::PeerCredentials>& who) const;
  // Empty: accepted.
  Failure CheckWelcome(const queue::ClientHello& hello,
                       const queue::PeerCredentials& credentials) const;
  void Refuse(LocalStream::socket& socket, const Failure& failure,
              const std::optional<queue::PeerCredentials>& who);

  asio::io_context& io_;
  AcceptorOptions options_;
  HelloListener& listener_;
  SocketFile file_;
  LocalStream::acceptor acceptor_;
  bool cannot_accept_ = false;
  bool accepts_ = false;  // AcceptLoop() is under way.
  bool rests_ = false;
  std::uint32_t accepted_in_turn_ = 0;
  std::uint32_t hellos_ = 0;
  std::uint32_t waiting_ = 0;
  std::map<uid_t, UserHellos> users_hellos_;
  UserDirectory users_;
  std::atomic<std::uint64_t> refused_{0};
};

}  // namespace mlxcomm::intake
