// Listens on the Unix socket, reads each process's hello, and refuses processes that it may not
// serve, with the reason and the remedy.
//
//   connect ─▶ hello within its deadline ─▶ form, user ─▶ OnHello() ─▶ (the listener's)
//                      │                        │             │
//                      └────────────────────────┴─────────────┴──▶ refused, counted, logged
//
// An unknown process costs one socket and one small frame until the deadline. The constants below
// limit open hellos, and connections in a turn, so that a flood does not block the loop.
//
// Owner: Intake. Thread: the loop's; refused() from any. Memory: the open hellos. The io_context
// must not run after the acceptor is destroyed.
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
  // Called for a valid hello from a user who may connect. Takes over the socket's descriptor, or
  // returns the refusal to send.
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

// Refuses a new descriptor among the last 64 (at most a quarter) of the process's limit, which are
// reserved for root and the daemon's user.
Failure CheckFilesLeft(int descriptor);

class Acceptor {
 public:
  static constexpr std::uint32_t kHellosMax = 64;
  static constexpr std::uint32_t kHellosPerUserMax = 16;
  static constexpr std::uint32_t kHellosKept = 16;
  static constexpr std::uint32_t kAcceptsPerTurn = 16;
  // Opening a session maps memory and makes descriptors, which delays payload. Sessions beyond this
  // rate wait; beyond kSessionsWaitingMax they are refused. Root and the daemon's user are not
  // limited.
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

  // ALREADY_EXISTS: another process listens at the path. A socket without a listener is replaced.
  // `listen_socket`: handed over by the previous program.
  absl::Status Listen(ListenSocket listen_socket = {});
  // Stops accepting and lets open hellos finish; new connections wait in the backlog until GoOn().
  void Rest();
  bool is_at_rest() const { return rests_ && !accepts_ && hellos_ + waiting_ == 0; }
  void GoOn() {
    rests_ = false;
    BeginToAccept();
  }
  // Returns the listen socket for the next program. Call it at rest.
  absl::StatusOr<ListenSocket> HandOver();
  // Call it once each turn of the loop, before it sleeps: allows the next kAcceptsPerTurn
  // connections.
  void OnTurn() {
    accepted_in_turn_ = 0;
    BeginToAccept();
  }
  // Closes the listen socket and removes its file. Open hellos are refused.
  void Stop();
  std::uint64_t refused() const { return refused_; }

 private:
  struct UserHellos {
    std::uint32_t under_way = 0;
    std::uint32_t waiting = 0;  // Delayed by `sessions`; not under way.
    platform::TokenBucket sessions{kSessionsOfUser};
  };

  absl::Status ListenAgain();
  absl::Status ListenAt(ListenSocket listen_socket);
  void BeginToAccept();
  asio::awaitable<void> AcceptLoop();
  asio::awaitable<void> Greet(LocalStream::socket socket);
  asio::awaitable<Failure> KeepPace(uid_t uid);
  void BeginHello(uid_t uid);
  void EndHello(uid_t uid);
  Failure IdentifyUser(uid_t uid, User& user);
  Failure MaySayHello(int descriptor, const std::optional<queue::PeerCredentials>& who) const;
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
  bool accepts_ = false;  // AcceptLoop() is running.
  bool rests_ = false;
  std::uint32_t accepted_in_turn_ = 0;
  std::uint32_t hellos_ = 0;
  std::uint32_t waiting_ = 0;
  std::map<uid_t, UserHellos> users_hellos_;
  UserDirectory users_;
  std::atomic<std::uint64_t> refused_{0};
};

}  // namespace mlxcomm::intake
