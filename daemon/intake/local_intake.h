// The one implementation of Intake: a listening Unix socket, the hellos under way,
// and the table of sessions.
//
// Owner: Daemon, as Intake. Thread: engine; the table that Find() reads has a
// mutex, for gRPC's threads ask it. Memory: at most kHellosMax hellos and
// clients_max + kToolsMax sessions.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <asio/awaitable.hpp>
#include <asio/local/stream_protocol.hpp>

#include "absl/container/flat_hash_map.h"
#include "daemon/intake/intake.h"
#include "daemon/intake/session.h"
#include "daemon/platform/peer_credentials.h"

namespace mlxcomm::intake {

class LocalIntake final : public Intake, private SessionObserver {
 public:
  static constexpr std::uint32_t kHellosMax = 64;
  static constexpr std::uint32_t kToolsMax = 64;
  static constexpr std::size_t kSubmissionsPerTurn = 64;

  LocalIntake(asio::io_context& io, IntakeOptions options, IntakeListener& listener)
      : io_(io), options_(std::move(options)), listener_(listener), acceptor_(io) {}
  ~LocalIntake() override;
  absl::Status Listen();

  std::size_t Poll() override;
  bool PrepareToSleep() override;
  void WakeUp() override;
  void Complete(SessionId session, std::uint64_t ticket, std::uint64_t group,
                const Failure& failure, bool group_failed) override;
  void End(SessionId session, const absl::Status& why) override;
  void ReleaseMemory(SessionId session) override;
  std::optional<SessionIdentity> Find(std::string_view token,
                                      std::string_view grpc_peer) const override;
  IntakeCounters counters() const override;
  void StopAccepting() override;

 private:
  using Stream = asio::local::stream_protocol;
  struct Known {
    SessionIdentity identity;
    std::string grpc_peer;
  };

  asio::awaitable<void> AcceptLoop();
  asio::awaitable<void> Greet(Stream::socket socket);
  // Empty: welcome.
  Failure CheckWelcome(const queue::ClientHello& hello,
                       const platform::PeerCredentials& credentials) const;
  Failure Open(Stream::socket& socket, const queue::ClientHello& hello,
               const platform::PeerCredentials& credentials);
  void Refuse(Stream::socket& socket, const Failure& failure, std::uint32_t pid);
  void OnProcessGone(SessionId session) override;
  bool TakeSubmission(Session& session);
  void EndForGarbage(Session& session, const std::string& what);
  std::uint64_t ArenaBytes(std::uint64_t wanted) const;

  asio::io_context& io_;
  IntakeOptions options_;
  IntakeListener& listener_;
  Stream::acceptor acceptor_;
  bool owns_path_ = false;
  std::uint32_t hellos_ = 0;
  SessionId next_session_ = 1;
  absl::flat_hash_map<SessionId, std::unique_ptr<Session>> sessions_;
  std::vector<Session*> polled_;  // Open clients, for Poll without hashing.
  mutable std::mutex known_mutex_;
  absl::flat_hash_map<std::string, Known> known_;  // By token.
  std::atomic<std::uint64_t> clients_{0};
  std::uint32_t tools_ = 0;
  std::atomic<std::uint64_t> refused_{0};
  std::atomic<std::uint64_t> garbage_{0};
  std::atomic<std::uint64_t> arena_bytes_{0};
  std::uint64_t refusals_logged_in_second_ = 0;
  std::uint64_t refusal_second_ = 0;
};

}  // namespace mlxcomm::intake
