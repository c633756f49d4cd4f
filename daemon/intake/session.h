// One local process: its segments, its doorbell, and the watch for its exit.
//
//   open ──doorbell EOF, process exit, garbage, End()──▶ ended ──ReleaseMemory()──▶ (gone)
//
// Owner: Intake. Thread: the loop's. Memory: its two segments, until it is destroyed; the arena as
// long as a rail holds it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include <sys/types.h>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/intake/arena_pages.h"
#include "daemon/intake/submission.h"
#include "daemon/intake/user_directory.h"
#include "daemon/intake/user_limits.h"
#include "daemon/platform/process_exit.h"
#include "daemon/platform/shared_memory.h"
#include "proto/queue/hello.h"
#include "proto/queue/layout.h"
#include "proto/queue/ring.h"
#include "proto/system/file_descriptor.h"

namespace mlxcomm::intake {

struct Peer {
  queue::ProcessRole role = queue::ProcessRole::kClient;
  uid_t uid = 0;
  pid_t pid = 0;
  User user;
};

struct SessionIdentity {
  SessionId session = 0;
  Peer peer;
};

// The connection of a process after its hello, and the pair of sockets behind it, which is made
// before the hello is answered, so that a daemon without free descriptors can still refuse.
struct ControlConnection {
  FileDescriptor process;  // Invalid until the hello is answered.
  FileDescriptor relay;    // The other end of `grpc`.
  FileDescriptor grpc;     // Its number identifies the session's calls (Intake::Find).

  // Makes the nonblocking pair. If false, errno has the reason.
  bool MakePair();
  void SetProcess(FileDescriptor connection);
};

class Intake;

class Session {
 public:
  using Token = std::array<std::uint8_t, queue::kTokenBytes>;
  // One less than the slots for completions, so that each operation's completion fits.
  static constexpr std::uint32_t kInFlightMax = queue::kCompletionSlots - 1;
  // A library may ring for a submission that the loop has already polled, but not this often.
  static constexpr std::uint32_t kRingsForNothingMax = 64;

  // Makes arena and queue for a kClient. `doorbell` is the daemon's end of the pair. The intake is
  // called for rings and for the process's exit, and must outlive the io_context's last turn.
  static absl::StatusOr<std::unique_ptr<Session>> Create(asio::io_context& io, SessionId id,
                                                         const Peer& peer, const Token& token,
                                                         FileDescriptor doorbell,
                                                         std::uint64_t arena_bytes, Intake& intake);
  ~Session();

  SessionId id() const { return id_; }
  const Peer& peer() const { return peer_; }
  // A client's user's use.
  void set_use(UserUse* use, std::uint64_t arena_bytes) {
    use_ = use;
    counted_arena_bytes_ = arena_bytes;
  }
  UserUse* use() const { return use_; }
  std::uint64_t counted_arena_bytes() const { return counted_arena_bytes_; }  // It is not rounded.
  const Token& token() const { return token_; }
  bool is_client() const { return peer_.role == queue::ProcessRole::kClient; }
  const std::shared_ptr<const platform::SharedSegment>& arena_segment() const { return arena_; }
  const std::shared_ptr<ArenaPages>& arena_pages() const { return arena_pages_; }
  std::byte* arena() const { return arena_->data(); }
  std::uint64_t arena_bytes() const { return arena_ ? arena_->bytes() : 0; }
  int arena_descriptor() const { return arena_->descriptor(); }
  int queue_descriptor() const { return queue_->descriptor(); }
  CopiedResults results_copied() const;  // Clients only.

  // Starts to watch the doorbell and the process.
  void Watch();
  // Empties the doorbell, up to a bound. False if the other end is closed.
  bool TakeRings();
  // Allows the next OnRung(), which limits the cost of a process that rings without end. Watch()
  // makes the first call.
  void ListenForRings();
  void IgnoreRings();
  // Keeps a duplicate of the process's connection, which control owns, for End() to shut down.
  void KeepConnection(FileDescriptor duplicate) { connection_ = std::move(duplicate); }
  bool ended() const { return ended_; }
  void End();

  // A paused session's queue and doorbell are not read for kPauseNs.
  bool is_paused() const { return paused_; }
  void set_paused(bool paused) { paused_ = paused; }
  void CountFailure() { ++failures_; }
  // Calls that have failed at submission since the last call, at most the submissions since then.
  std::uint32_t TakeFailures() {
    return std::min(std::exchange(failures_, 0), std::exchange(submissions_taken_, 0));
  }
  // Counts a ring. Returns true after too many without a submission.
  bool RingsForNothing() { return ++rings_for_nothing_ > kRingsForNothingMax; }

  // The queue; only for open clients. Each submission counts as in flight; the caller checks
  // kInFlightMax.
  queue::RingResult PopSubmission(queue::SubmissionEntry& entry);
  // False if the ring is full, because the client does not read its completions.
  [[nodiscard]] bool PushCompletion(const queue::CompletionEntry& entry);
  bool PrepareToSleep() { return submissions_->PrepareToSleep(); }
  void WakeUp() { submissions_->WakeUp(); }
  std::uint32_t in_flight() const { return in_flight_; }
  // For answers without a submission from the queue, and for submissions that are not operations.
  void CountInFlight() { ++in_flight_; }
  void UncountInFlight() { --in_flight_; }
  bool PassDescriptor(int descriptor);

 private:
  Session(asio::io_context& io, SessionId id, const Peer& peer, const Token& token, Intake& intake)
      : id_(id), peer_(peer), token_(token), intake_(intake), rings_(io), exit_(io) {}
  absl::Status MakeSegments(std::uint64_t arena_bytes);
  void Forget();

  SessionId id_;
  Peer peer_;
  Token token_;
  Intake& intake_;
  FileDescriptor doorbell_;
  asio::posix::stream_descriptor rings_;  // The doorbell while it is watched; does not own it.
  platform::ProcessExit process_exit_;
  asio::posix::stream_descriptor exit_;  // Does not own its descriptor.
  FileDescriptor connection_;
  std::shared_ptr<const platform::SharedSegment> arena_;  // Rails may keep it.
  std::shared_ptr<const platform::SharedSegment> queue_;
  std::shared_ptr<ArenaPages> arena_pages_;
  std::optional<queue::SubmissionConsumer> submissions_;
  std::optional<queue::CompletionProducer> completions_;
  UserUse* use_ = nullptr;
  std::uint64_t counted_arena_bytes_ = 0;
  std::uint32_t in_flight_ = 0;
  std::uint32_t rings_for_nothing_ = 0;
  std::uint32_t failures_ = 0;           // Counted since TakeFailures().
  std::uint32_t submissions_taken_ = 0;  // Counted since TakeFailures().
  bool listens_ = false;                 // Since ListenForRings(), until TakeRings().
  bool paused_ = false;
  bool ended_ = false;
};

}  // namespace mlxcomm::intake
