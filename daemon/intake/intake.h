// Intake: the local processes of this node. It accepts them on the Unix socket, checks who they are, gives
// each its arena, queue and doorbell, passes the connection to gRPC, and carries submissions and
// completions.
//
//   connect ─credentials, hello─▶ session open ─doorbell EOF / process exit / garbage─▶ ended
//                                                                       │
//                                             ReleaseMemory() ◀─node: nothing uses the arena
//
// What a client writes into shared memory is copied once, then checked: an entry that no correct
// client could write ends the session; one that is wrong but possible is answered with
// INVALID_ARGUMENT (see README.md, Intake).
//
// Owner: Daemon. Thread: the loop's, for calls and callbacks; Find() and counters() from any thread.
// Memory: arenas and queues are the intake's until ReleaseMemory(); no allocation for a submission or
// completion.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include <asio/io_context.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/intake/arena_pages.h"
#include "daemon/intake/control_connection.h"
#include "daemon/intake/socket_file.h"
#include "daemon/intake/submission.h"
#include "daemon/intake/user_directory.h"
#include "daemon/intake/user_limits.h"
#include "daemon/platform/shared_memory.h"
#include "proto/queue/hello.h"
#include "proto/queue/layout.h"
#include "proto/queue/scheduling_policy.h"
#include "proto/types/failure.h"

namespace mlxcomm::intake {

struct Peer {
  queue::ProcessRole role = queue::ProcessRole::kClient;
  uid_t uid = 0;
  gid_t gid = 0;
  pid_t pid = 0;
  User user;
};

class IntakeListener {
 public:
  virtual ~IntakeListener() = default;
  virtual void OnSessionOpened(SessionId session, const Peer& peer) = 0;
  // The connection after the hello, for gRPC; its owner from here on.
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

// What control needs to know about the calling session.
struct SessionIdentity {
  SessionId session = 0;
  Peer peer;
};

class Intake {
 public:
  // Listens on the socket (made 0600, or 0666 with all_users; a missing folder is created; a lock
  // lies beside it). ALREADY_EXISTS: another daemon has it. A stale socket file is replaced. `door`: of the
  // program whose place this one takes.
  static absl::StatusOr<std::unique_ptr<Intake>> Create(asio::io_context& io, IntakeOptions options,
                                                        IntakeListener& listener, Door door = {});
  virtual ~Intake() = default;  // Removes the socket file.

  // Takes up to a fixed number of submissions from each queue and passes them to the listener.
  // Returns how many there were. Call it once each turn: between two calls, only a limited number
  // of new processes is accepted, too.
  virtual std::size_t Poll() = 0;
  // Empties the doorbells that rang, which may end sessions, and announces on all queues that the
  // loop will sleep in the io_context; false: something has come in between. While announced,
  // doorbells wake it.
  virtual bool PrepareToSleep() = 0;
  virtual void WakeUp() = 0;

  // Publishes the end of an operation and rings the doorbell if the client sleeps. Does nothing for
  // a session that has ended.
  virtual void Complete(SessionId session, std::uint64_t ticket, std::uint64_t group,
                        const Failure& failure, bool group_failed) = 0;

  // As if the entry had come from the client's queue, which has written it elsewhere; none: it was
  // refused or has ended the session, or there is no such session any more.
  virtual std::optional<Submission> TakeOver(SessionId session,
                                             const queue::SubmissionEntry& entry) = 0;
  // Answers a SubmissionPurpose::kClose: a completion without a ticket.
  virtual void AnswerClose(SessionId session, std::uint64_t group) = 0;
  // Passes a descriptor to the client, over its doorbell. False: not now, or there is none.
  virtual bool PassDescriptor(SessionId session, int descriptor) = 0;
  // False: processes of several accounts of this machine, or a session has ended.
  virtual bool AreOfOneAccount(const std::vector<SessionId>& sessions) const = 0;

  // Ends a session: its doorbell and connection are closed; OnSessionEnded
  // follows, always later.
  virtual void End(SessionId session, const absl::Status& why) = 0;
  // A client's arena, until its memory is released; null for others. It stays mapped as long as the
  // pointer lives.
  virtual std::shared_ptr<const platform::SharedSegment> ArenaOf(SessionId session) const = 0;
  // As ArenaOf.
  virtual std::shared_ptr<ArenaPages> PagesOf(SessionId session) const = 0;
  // For a client, until its memory is released; zeros for others.
  virtual CopiedResults ResultsCopiedBy(SessionId session) const = 0;
  // Releases an ended session's memory: no part of the daemon may touch it any more.
  virtual void ReleaseMemory(SessionId session) = 0;

  // The session that may use this token on this connection, as gRPC names it: "fd:N" up to 1.5x.
  // Later releases call every Unix socket "unix:"; there the token alone decides, 128 random bits
  // that only the process has got.
  virtual std::optional<SessionIdentity> Find(std::string_view token,
                                              std::string_view grpc_peer) const = 0;
  virtual IntakeCounters counters() const = 0;
  virtual UseOfLimits use() const = 0;  // On the loop's thread.

  // New clients get this; tools, and those that are connected, are served on. On the loop's thread.
  virtual void RefuseClients(const Failure& failure) = 0;
  // No new processes at all; the socket has gone.
  virtual void StopAccepting() = 0;

  // As of the acceptor: new processes wait outside, for this program or the next one.
  virtual void Rest() = 0;
  virtual bool is_at_rest() const = 0;
  virtual void GoOn() = 0;
  virtual absl::StatusOr<Door> HandOver() = 0;
};

}  // namespace mlxcomm::intake
