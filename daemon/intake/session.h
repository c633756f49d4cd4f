// One local process: its segments, its doorbell, and the watch over its life.
//
//   open ──doorbell EOF, process exit, garbage, End()──▶ ended ──ReleaseMemory()──▶ (gone)
//
// Owner: Intake. Thread: the loop's. Memory: its two segments, until it is destroyed; the
// arena as long as a rail has it.
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
  gid_t gid = 0;
  pid_t pid = 0;
  User user;
};

// What control needs to know about the calling session.
struct SessionIdentity {
  SessionId session = 0;
  Peer peer;
};

// The connection of a process after its hello, with the pair of sockets that stands between it and
// gRPC: process ─▶ relay ─▶ grpc. The pair is made before the hello is answered: a daemon that has
// no descriptor left refuses the hello with these words, and a process that was welcomed has its
// calls served.
struct ControlConnection {
  FileDescriptor process;  // None until the hello is answered.
  FileDescriptor relay;    // What is sent on it comes out of `grpc`.
  FileDescriptor grpc;     // By its number the intake knows a session's calls (Intake::Find).

  // Makes the pair; none of it blocks. False: errno says why.
  bool MakePair();
  void SetProcess(FileDescriptor connection);
};

class Intake;

class Session {
 public:
  using Token = std::array<std::uint8_t, queue::kTokenBytes>;
  // Operations without completion: their completions always find a slot.
  static constexpr std::uint32_t kInFlightMax = queue::kCompletionSlots - 1;
  // A library rings for a submission, or once more for one that the loop has seen by itself.
  static constexpr std::uint32_t kRingsForNothingMax = 64;

  // kClient: makes arena and queue. `doorbell` is the daemon's end of the pair. The intake hears
  // of rings and of the process's end; it outlives the io_context's last turn, which the session need not.
  static absl::StatusOr<std::unique_ptr<Session>> Create(asio::io_context& io, SessionId id,
                                                         const Peer& peer, const Token& token,
                                                         FileDescriptor doorbell,
                                                         std::uint64_t arena_bytes, Intake& intake);
  ~Session();

  SessionId id() const { return id_; }
  const Peer& peer() const { return peer_; }
  // For a client: where its user's use is counted.
  void set_use(UserUse* use, std::uint64_t arena_bytes) {
    use_ = use;
    counted_arena_bytes_ = arena_bytes;
  }
  UserUse* use() const { return use_; }
  std::uint64_t counted_arena_bytes() const { return counted_arena_bytes_; }  // Before rounding.
  const Token& token() const { return token_; }
  bool is_client() const { return peer_.role == queue::ProcessRole::kClient; }
  const std::shared_ptr<const platform::SharedSegment>& arena_segment() const { return arena_; }
  const std::shared_ptr<ArenaPages>& arena_pages() const { return arena_pages_; }
  std::byte* arena() const { return arena_->data(); }
  std::uint64_t arena_bytes() const { return arena_ ? arena_->bytes() : 0; }
  int arena_descriptor() const { return arena_->descriptor(); }
  int queue_descriptor() const { return queue_->descriptor(); }
  CopiedResults results_copied() const;  // Clients only.

  // Watches the doorbell and the process from now on.
  void Watch();
  // Empties the doorbell, up to a bound. False: the other end has gone.
  bool TakeRings();
  // The next OnRung() comes only after this, so that a process that rings without end is heard only
  // now and then. Watch() includes the first call.
  void ListenForRings();
  void IgnoreRings();
  // Keeps a duplicate of the process's connection, which control owns, to be able to cut it.
  void KeepConnection(FileDescriptor duplicate) { connection_ = std::move(duplicate); }
  bool ended() const { return ended_; }
  void End();

  // Its queue is not read and its doorbell not heard for a moment.
  bool is_paused() const { return paused_; }
  void set_paused(bool paused) { paused_ = paused; }
  void CountFailure() { ++failures_; }
  // How many calls have failed at submission since the last time: at most those that came since.
  std::uint32_t TakeFailures() {
    return std::min(std::exchange(failures_, 0), std::exchange(submissions_taken_, 0));
  }
  // Returns whether it has rung too often without a submission. Call it for each ring that is heard.
  bool RingsForNothing() { return ++rings_for_nothing_ > kRingsForNothingMax; }

  // The queue. Not for ended sessions or tools. Each submission counts as in flight, even beyond
  // kInFlightMax: the caller checks that.
  queue::RingResult PopSubmission(queue::SubmissionEntry& entry);
  // False: the client does not read its completions although it may have no more operations in
  // flight than there are slots.
  [[nodiscard]] bool PushCompletion(const queue::CompletionEntry& entry);
  bool PrepareToSleep() { return submissions_->PrepareToSleep(); }
  void WakeUp() { submissions_->WakeUp(); }
  std::uint32_t in_flight() const { return in_flight_; }
  // For what is answered without having come from the queue, and for what came and is no operation.
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
  asio::posix::stream_descriptor rings_;  // The doorbell while rings are heard; does not own it.
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
  std::uint32_t failures_ = 0;           // Since TakeFailures().
  std::uint32_t submissions_taken_ = 0;  // As above.
  bool listens_ = false;                 // For rings that have not been taken yet.
  bool paused_ = false;
  bool ended_ = false;
};

}  // namespace mlxcomm::intake
