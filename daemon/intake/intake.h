// Intake: the local processes of this node. It accepts them on the Unix socket, checks who they are, gives
// each its arena, queue and doorbell, passes the connection to gRPC, and carries submissions and
// completions.
//
//   connect ─credentials, hello─▶ session open ─doorbell EOF / process exit / garbage─▶ ended
//                                                                       │
//                                             ReleaseMemory() ◀─node: nothing uses the arena
//
// README.md, Intake, says how what a client writes into shared memory is checked.
//
// Owner: Daemon. Thread: the loop's; Find() and counters() from any, so what Find() reads has a mutex.
// Memory: at most clients_max + kToolsMax + kToolsKept sessions, their arenas and queues until
// ReleaseMemory(), and what the acceptor has. The io_context must not run again afterwards.
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
  // The connection after the hello, for control; its owner from here on.
  virtual void OnConnection(SessionId session, ControlConnection connection) = 0;
  virtual void OnSubmission(SessionId session, const Submission& submission) = 0;
  // The process has gone, or its session was ended. Its memory stays mapped until
  // ReleaseMemory(session). Called once for each opened session.
  virtual void OnSessionEnded(SessionId session, const absl::Status& why) = 0;
};

struct IntakeOptions {
  std::string socket_path;
  std::uint32_t clients_max = 64;
  std::uint64_t arena_bytes_max = 0;  // For one client; 0: the machine's memory.
  std::uint64_t hello_timeout_ns = 2'000'000'000;
  std::uint64_t rendezvous_timeout_ns = 0;                  // For DaemonHello; 0: not sent.
  queue::Scheduling scheduling = queue::Scheduling::kAuto;  // For DaemonHello: as configured.
  bool all_users = false;  // False: only root and the daemon's own user.
  UserOptions users;
  // 0, as below: three quarters of the limits for all where all_users is set, else all.
  Amounts per_user;
  // For all together; `clients` is not used. 0: arena bytes for clients_max clients, and the same
  // again for those that are ending; operations as many as these may have in flight.
  Amounts all;
};

struct UseOfLimits {
  Amounts used;  // By all together.
  Amounts all;
  Amounts per_user;
  std::vector<UserUse> users;
};

struct IntakeCounters {
  std::uint64_t clients = 0;  // Open sessions of training processes.
  std::uint64_t refused = 0;  // Bad hello, wrong user, limits.
  std::uint64_t ended_for_garbage = 0;
  std::uint64_t arena_bytes = 0;  // Address space given to open clients.
};

class Intake final : private HelloListener {
 public:
  static constexpr std::uint32_t kToolsMax = 64;
  static constexpr std::uint32_t kToolsKept = 16;        // Besides, for those who see all.
  static constexpr std::uint32_t kToolsPerUserMax = 16;  // For users who see only their own jobs.
  static constexpr std::size_t kSubmissionsPerTurn = 64;
  static constexpr std::size_t kSubmissionsOfUserPerTurn = 256;
  // Calls of a user that fail at submission. A job of 32 ranks may make a thousand each in a failed group.
  static constexpr platform::Rate kFailedCalls = {.burst = 32'768, .per_second = 8'000};
  // How long a session pauses when its user has no failed calls left, or when it rings for nothing.
  static constexpr std::uint64_t kPauseNs = 10'000'000;
  // A doorbell is emptied before the loop sleeps again, and at the latest after this many turns:
  // its end shows that a process has gone.
  static constexpr std::uint32_t kUnheardTurnsMax = 64;

  // Listens on the socket (made 0600, or 0666 with all_users; a missing folder is created; a lock
  // lies beside it). ALREADY_EXISTS: another daemon has it. A stale socket file is replaced. `door`: of the
  // program whose place this one takes.
  static absl::StatusOr<std::unique_ptr<Intake>> Create(asio::io_context& io, IntakeOptions options,
                                                        IntakeListener& listener,
                                                        ListenSocket listen_socket = {});
  ~Intake() override;  // Removes the socket file.

  // Takes up to a fixed number of submissions from each queue, and of each user, and passes them to the
  // listener. Returns how many there were. Call it once each turn: between two calls, only a limited number
  // of new processes is accepted, too.
  std::size_t Poll();
  // Empties the doorbells that rang, which may end sessions, and announces on all queues that the
  // loop will sleep in the io_context; false: something has come in between. While announced,
  // doorbells wake it.
  bool PrepareToSleep();
  void WakeUp();

  // Publishes the end of an operation and rings the doorbell if the client sleeps. Does nothing for
  // a session that has ended.
  void Complete(SessionId session, std::uint64_t ticket, std::uint64_t group,
                const Failure& failure, bool group_failed);

  // As if the entry had come from the client's queue, which has written it elsewhere; none: it was
  // refused or has ended the session, or there is no such session any more.
  std::optional<Submission> TakeOver(SessionId session, const queue::SubmissionEntry& entry);
  // Answers a SubmissionPurpose::kClose: a completion without a ticket.
  void AnswerClose(SessionId session, std::uint64_t group);
  // Passes a descriptor to the client, over its doorbell. False: not now, or there is none.
  bool PassDescriptor(SessionId session, int descriptor);
  // False: processes of several accounts of this machine, or a session has ended.
  bool AreOfOneAccount(const std::vector<SessionId>& sessions) const;

  // Ends a session: its doorbell and connection are closed; OnSessionEnded
  // follows, always later.
  void End(SessionId session, const absl::Status& why);
  // A client's arena, until its memory is released; null for others. It stays mapped as long as the
  // pointer lives.
  std::shared_ptr<const platform::SharedSegment> ArenaOf(SessionId session) const;
  // As ArenaOf.
  std::shared_ptr<ArenaPages> PagesOf(SessionId session) const;
  // For a client, until its memory is released; zeros for others.
  CopiedResults ResultsCopiedBy(SessionId session) const;
  // Releases an ended session's memory: no part of the daemon may touch it any more.
  void ReleaseMemory(SessionId session);

  // The session that may use this token on this connection, as gRPC names it: "fd:N" up to 1.5x.
  // Later releases call every Unix socket "unix:"; there the token alone decides, 128 random bits
  // that only the process has got.
  std::optional<SessionIdentity> Find(std::string_view token, std::string_view grpc_peer) const;
  IntakeCounters counters() const {
    return {clients_, acceptor_.refused(), garbage_, arena_bytes_};
  }
  // On the loop's thread.
  UseOfLimits use() const {
    return {limits_.used(), limits_.all(), limits_.per_user(), limits_.Users()};
  }

  // New clients get this; tools, and those that are connected, are served on. On the loop's thread.
  void RefuseClients(const Failure& failure) { refusal_ = failure; }
  // No new processes at all; the socket has gone.
  void StopAccepting() { acceptor_.Stop(); }

  // As of the acceptor: new processes wait outside, for this program or the next one.
  void Rest() { acceptor_.Rest(); }
  bool is_at_rest() const { return acceptor_.is_at_rest(); }
  void GoOn() { acceptor_.GoOn(); }
  absl::StatusOr<ListenSocket> HandOver() { return acceptor_.HandOver(); }

  // Of a session: its process rang, which is not told again until TakeRings() and ListenForRings() have been
  // called; or has gone.
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
  // `use`: a client's, which counts it already.
  Failure Open(LocalStream::socket& socket, const Peer& peer, std::uint64_t arena_bytes,
               UserUse* use);
  void Adopt(std::unique_ptr<Session> session, ControlConnection connection);
  void HearRings();
  static std::size_t& TakenInTurn(UserUse& use, std::uint64_t turn);
  void ChargeFailures(Session& session);
  void Pause(Session& session);
  void AwaitPauses();
  void EndPauses();
  bool TakeSubmission(Session& session);
  std::optional<Submission> Check(Session& session, const queue::SubmissionEntry& entry,
                                  bool adopted);
  void EndForGarbage(Session& session, const std::string& what);

  asio::io_context& io_;
  IntakeOptions options_;
  IntakeListener& listener_;
  Acceptor acceptor_;
  Failure refusal_;  // Of new clients; ok: they are served.
  SessionId next_session_ = 1;
  absl::flat_hash_map<SessionId, std::unique_ptr<Session>> sessions_;
  std::vector<Session*> polled_;  // Open clients, for Poll without hashing.
  std::vector<Session*> paused_;
  std::map<uid_t, platform::TokenBucket> failed_calls_;  // Those that are not full.
  asio::steady_timer pauses_end_;
  std::vector<SessionId> rung_;  // Those whose doorbell rang and was not emptied since.
  std::uint32_t turns_unheard_ = 0;
  std::uint64_t turn_ = 0;
  mutable std::mutex known_mutex_;
  absl::flat_hash_map<std::string, Known> known_;  // By token.
  std::atomic<std::uint64_t> clients_{0};
  std::uint32_t tools_ = 0;
  UserLimits limits_;
  std::atomic<std::uint64_t> garbage_{0};
  std::atomic<std::uint64_t> arena_bytes_{0};
};

}  // namespace mlxcomm::intake
