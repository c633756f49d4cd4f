// Intake: the local processes of this node. It accepts and identifies them on the Unix socket,
// gives each its arena, queue and doorbell, passes the connection to gRPC, and carries submissions
// and completions.
//
//   connect ─credentials, hello─▶ session open ─doorbell EOF / process exit / garbage─▶ ended
//                                                                       │
//                                             ReleaseMemory() ◀─node: nothing uses the arena
//
// Owner: Daemon. Thread: the loop's; Find() and counters() from any. Memory: at most clients_max +
// kToolsMax + kToolsKept sessions, with their arenas and queues until ReleaseMemory(). The
// io_context must not run after the intake is destroyed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/intake/acceptor.h"
#include "daemon/intake/arena_pages.h"
#include "daemon/intake/processes.h"
#include "daemon/intake/session.h"
#include "daemon/intake/socket_file.h"
#include "daemon/intake/submission.h"
#include "daemon/intake/user_directory.h"
#include "daemon/intake/user_limits.h"
#include "daemon/platform/shared_memory.h"
#include "daemon/platform/token_bucket.h"
#include "proto/queue/hello.h"
#include "proto/queue/layout.h"
#include "proto/queue/scheduling_policy.h"
#include "proto/types/failure.h"

namespace mlxcomm::intake {

class IntakeListener {
 public:
  virtual ~IntakeListener() = default;
  virtual void OnSessionOpened(SessionId session, const Peer& peer) = 0;
  // Passes ownership of the connection after the hello to control.
  virtual void OnConnection(SessionId session, ControlConnection connection) = 0;
  virtual void OnSubmission(collective::Call& call) = 0;
  // A rank wants the group's page closed; Processes::AnswerClose follows.
  virtual void OnCloseAsked(SessionId /*session*/, std::uint64_t /*group*/) {}
  // The process has exited, or its session was ended. Called once for each opened session, whose
  // memory stays mapped until ReleaseMemory(session).
  virtual void OnSessionEnded(SessionId session, const absl::Status& why) = 0;
  // A client's arena, which stays mapped as long as a pointer to it lives.
  virtual void OnArenaMade(const std::shared_ptr<const platform::SharedSegment>& /*arena*/,
                           const std::shared_ptr<ArenaPages>& /*pages*/) {}
  virtual void OnArenaReleased(const std::byte* /*arena*/) {}
};

struct IntakeOptions {
  std::string socket_path;
  std::uint32_t clients_max = 64;
  std::uint64_t arena_bytes_max = 0;  // Limit of one client; 0: the machine's memory.
  std::uint64_t hello_timeout_ns = 2'000'000'000;
  std::uint64_t rendezvous_timeout_ns = 0;  // Sent in DaemonHello; 0: not sent.
  // Sent in DaemonHello.
  queue::Scheduling scheduling = queue::Scheduling::kAuto;
  std::uint16_t spin_ms = 0;
  bool all_users = false;  // False admits only root and the daemon's own user.
  // Ranks of one machine carry out small operations directly (jobs/direct_groups.h).
  bool ranks_meet = true;
  UserOptions users;
  // 0 means three quarters of the limits for all if all_users is set, otherwise all.
  Amounts per_user;
  // Limits all clients together; `clients` is not used. 0: twice the arena bytes of clients_max
  // clients, because clients that have ended keep theirs for a moment; and the operations that
  // clients_max clients can have in flight.
  Amounts all;
};

struct UseOfLimits {
  Amounts used;
  Amounts all;
  Amounts per_user;
  std::vector<UserUse> users;
};

struct IntakeCounters {
  std::uint64_t clients = 0;  // Open sessions of training processes.
  std::uint64_t refused = 0;  // Bad hello, wrong user, limits.
  std::uint64_t ended_for_garbage = 0;
  std::uint64_t arena_bytes = 0;  // Address space of open clients.
};

class Intake final : public Processes, private HelloListener {
 public:
  static constexpr std::uint32_t kToolsMax = 64;
  static constexpr std::uint32_t kToolsKept = 16;        // More, for users who see all jobs.
  static constexpr std::uint32_t kToolsPerUserMax = 16;  // Limits users without sees_all.
  static constexpr std::size_t kSubmissionsPerTurn = 64;
  static constexpr std::size_t kSubmissionsOfUserPerTurn = 256;
  // Calls of a user that fail at submission. Each of 32 ranks may make a thousand calls in a failed
  // group.
  static constexpr platform::Rate kFailedCalls = {.burst = 32'768, .per_second = 8'000};
  // A session pauses this long when its user exceeds kFailedCalls, or when it rings without
  // submissions.
  static constexpr std::uint64_t kPauseNs = 10'000'000;
  // Doorbells are emptied before the loop sleeps, and at the latest after this many turns, because
  // a closed doorbell shows that its process has exited.
  static constexpr std::uint32_t kTurnsUndrainedMax = 64;

  // Listens on the socket (SocketFile). ALREADY_EXISTS: another daemon has it. `listen_socket`:
  // handed over by the previous program.
  static absl::StatusOr<std::unique_ptr<Intake>> Create(asio::io_context& io, IntakeOptions options,
                                                        IntakeListener& listener,
                                                        ListenSocket listen_socket = {});
  ~Intake() override;  // Removes the socket file.

  // Passes a limited number of submissions of each queue and each user to the listener, and returns
  // how many. Call it once each turn; it also allows the next few processes to connect.
  std::size_t Poll();
  // Empties the doorbells that rang, which may end sessions, and announces on all queues that the
  // loop will sleep in the io_context, so that doorbells wake it. False if a submission has arrived
  // in the meantime.
  bool PrepareToSleep();
  void WakeUp();

  // Processes
  void Complete(SessionId session, std::uint64_t ticket, std::uint64_t group,
                const Failure& failure, bool group_failed) override;
  void AnswerClose(SessionId session, std::uint64_t group) override;
  void ReleaseMemory(SessionId session) override;
  std::byte* MakePage(std::uint64_t group, std::size_t bytes,
                      const std::vector<SessionId>& sessions) override;
  void GivePage(std::uint64_t group, const std::vector<SessionId>& sessions) override;
  void DropPage(std::uint64_t group) override { pages_.erase(group); }
  std::optional<collective::Call> TakeOver(SessionId session,
                                           const queue::SubmissionEntry& entry) override;
  CopiedResults ResultsCopiedBy(SessionId session) const override;

  // Ends a session and closes its doorbell and connection; OnSessionEnded follows in a later turn.
  void End(SessionId session, const absl::Status& why);

  // The session that may use this token on this connection, named as gRPC names it: "fd:N" up to
  // 1.5x. Later releases name every Unix socket "unix:"; then the token alone decides.
  std::optional<SessionIdentity> Find(std::string_view token, std::string_view grpc_peer) const;
  IntakeCounters counters() const {
    return {clients_, acceptor_.refused(), garbage_, arena_bytes_};
  }
  UseOfLimits use() const {
    return {limits_.used(), limits_.all(), limits_.per_user(), limits_.Users()};
  }

  // Refuses new clients with `failure`. Tools, and processes that are connected, are served as
  // before.
  void RefuseClients(const Failure& failure) { refusal_ = failure; }
  // Closes and removes the socket: no process can connect any more.
  void StopAccepting() { acceptor_.Stop(); }

  // See Acceptor.
  void Rest() { acceptor_.Rest(); }
  bool is_at_rest() const { return acceptor_.is_at_rest(); }
  void GoOn() { acceptor_.GoOn(); }
  absl::StatusOr<ListenSocket> HandOver() { return acceptor_.HandOver(); }

  // Called by a session: its process rang its doorbell or has exited. OnRung is not called again
  // until TakeRings() and ListenForRings().
  void OnRung(SessionId session);
  void OnProcessGone(SessionId session) {
    End(session, absl::UnavailableError("its process ended"));
  }

 private:
  Intake(asio::io_context& io, IntakeOptions options, IntakeListener& listener);
  struct Known {
    SessionIdentity identity;
    std::string grpc_peer;
  };

  // HelloListener
  Failure OnHello(LocalStream::socket& socket, const queue::ClientHello& hello,
                  const queue::PeerCredentials& credentials, const User& user) override;
  Failure CheckTools(const Peer& peer) const;
  // `use`: a client's use, which counts it already; null for tools.
  Failure Open(LocalStream::socket& socket, const Peer& peer, std::uint64_t arena_bytes,
               UserUse* use);
  void Adopt(std::unique_ptr<Session> session, ControlConnection connection);
  void DrainRings();
  void ChargeFailures(Session& session);
  void Pause(Session& session);
  void AwaitPauses();
  void EndPauses();
  bool TakeSubmission(Session& session);
  std::optional<collective::Call> Check(Session& session, const queue::SubmissionEntry& entry,
                                        bool adopted);
  void EndForGarbage(Session& session, const std::string& what);
  bool AreOfOneAccount(const std::vector<SessionId>& sessions) const;

  asio::io_context& io_;
  IntakeOptions options_;
  IntakeListener& listener_;
  Acceptor acceptor_;
  Failure refusal_;  // Returned to new clients; ok: they are served.
  SessionId next_session_ = 1;
  absl::flat_hash_map<SessionId, std::unique_ptr<Session>> sessions_;
  std::map<std::uint64_t, platform::SharedSegment> pages_;  // Keyed by group.
  std::vector<Session*> polled_;  // Open clients, for Poll without hashing.
  std::vector<Session*> paused_;
  std::map<uid_t, platform::TokenBucket> failed_calls_;  // The buckets that are not full.
  asio::steady_timer pauses_end_;
  std::vector<SessionId> rung_;  // Sessions whose doorbell rang and is not yet emptied.
  std::uint32_t turns_undrained_ = 0;
  std::uint64_t turn_ = 0;
  mutable std::mutex known_mutex_;
  absl::flat_hash_map<std::string, Known> known_;  // Keyed by token.
  std::atomic<std::uint64_t> clients_{0};
  std::uint32_t tools_ = 0;
  UserLimits limits_;
  std::atomic<std::uint64_t> garbage_{0};
  std::atomic<std::uint64_t> arena_bytes_{0};
};

}  // namespace mlxcomm::intake
