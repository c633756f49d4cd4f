#include "daemon/intake/session.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <cerrno>
#include <new>
#include <utility>

#include <asio/post.hpp>

#include "absl/strings/str_cat.h"
#include "daemon/intake/intake.h"
#include "daemon/platform/handler_memory.h"
#include "daemon/platform/system_facts.h"
#include "proto/queue/descriptor_passing.h"
#include "proto/queue/doorbell.h"
#include "proto/queue/socket_options.h"

namespace mlxcomm::intake {
namespace {

// Has its own handler memory, because it waits again after every ring.
struct Rung : platform::UsesHandlerMemory {
  Intake& intake;
  SessionId id;

  Rung(Intake& to, SessionId session) : intake(to), id(session) {}
  void operator()(const asio::error_code& failed) const {
    if (failed != asio::error::operation_aborted) intake.OnRung(id);
  }
};

// The text must fit into a hello (proto/queue/hello.h).
absl::Status NoArena(const absl::Status& reason) {
  const std::uint64_t memory = platform::AddressSpaceMax();
  return absl::ResourceExhaustedError(absl::StrCat(
      "arena: ", reason.message(), ". Ask for less (arena_bytes)",
      memory == 0 ? std::string()
                  : absl::StrCat(", or raise mlxcommd's address space limit (ulimit -v: ",
                                 memory / 1024, " KiB)")));
}

// One long request fills the 8 KiB that a socket has by default on macOS. Best effort.
void PrepareControl(int socket) {
  constexpr int kBytes = 256 * 1024;
  ::setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &kBytes, sizeof kBytes);
  ::setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &kBytes, sizeof kBytes);
  ::fcntl(socket, F_SETFL, O_NONBLOCK);
  ::fcntl(socket, F_SETFD, FD_CLOEXEC);
}

}  // namespace

bool ControlConnection::MakePair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return false;
  relay.Reset(ends[0]);
  grpc.Reset(ends[1]);
  for (const int end : ends) PrepareControl(end);
  queue::SilenceSignals(grpc.get());
  return true;
}

void ControlConnection::SetProcess(FileDescriptor connection) {
  process = std::move(connection);
  PrepareControl(process.get());
}

absl::StatusOr<std::unique_ptr<Session>> Session::Create(asio::io_context& io, SessionId id,
                                                         const Peer& peer, const Token& token,
                                                         FileDescriptor doorbell,
                                                         std::uint64_t arena_bytes,
                                                         Intake& intake) {
  std::unique_ptr<Session> session(new Session(io, id, peer, token, intake));
  if (session->is_client()) {
    if (absl::Status status = session->MakeSegments(arena_bytes); !status.ok()) return status;
  }
  session->doorbell_ = std::move(doorbell);
  asio::error_code error;
  session->rings_.assign(session->doorbell_.get(), error);
  if (error) return absl::ResourceExhaustedError(error.message());
  return session;
}

absl::Status Session::MakeSegments(std::uint64_t arena_bytes) {
  absl::StatusOr<platform::SharedSegment> arena =
      platform::SharedSegment::Create("mlxcomm-arena", arena_bytes);
  if (!arena.ok()) return NoArena(arena.status());
  absl::StatusOr<platform::SharedSegment> segment =
      platform::SharedSegment::Create("mlxcomm-queue", queue::kQueueSegmentBytes);
  if (!segment.ok()) return segment.status();
  arena_ = std::make_shared<const platform::SharedSegment>(*std::move(arena));
  queue_ = std::make_shared<const platform::SharedSegment>(*std::move(segment));
  std::byte* const base = queue_->data();
  auto* const header = new (base) queue::QueueHeader{};
  header->magic = queue::kQueueMagic;
  header->version = queue::kQueueVersion;
  header->submission_slots = queue::kSubmissionSlots;
  header->completion_slots = queue::kCompletionSlots;
  arena_pages_ = std::make_shared<ArenaPages>(queue_);
  submissions_.emplace(
      &header->submissions,
      reinterpret_cast<const queue::SubmissionEntry*>(base + queue::kSubmissionsOffset),
      queue::kSubmissionSlots);
  completions_.emplace(&header->completions,
                       reinterpret_cast<queue::CompletionEntry*>(base + queue::kCompletionsOffset),
                       queue::kCompletionSlots);
  return absl::OkStatus();
}

// The handlers hold the session's id, because the session may be destroyed when they run.
void Session::Watch() {
  ListenForRings();
  const auto gone = [&intake = intake_, id = id_] { intake.OnProcessGone(id); };
  platform::ProcessExit exit = platform::ProcessExit::Watch(peer_.pid);
  if (!exit.valid()) {
    // ESRCH: the process has exited, but a child may keep the doorbell open. After other errors,
    // only a closed doorbell shows the exit.
    if (errno == ESRCH) asio::post(exit_.get_executor(), gone);
    return;
  }
  asio::error_code error;
  exit_.assign(exit.descriptor(), error);
  if (error) return;
  process_exit_ = std::move(exit);
  exit_.async_wait(asio::posix::descriptor_base::wait_read, [gone](const asio::error_code& failed) {
    if (failed) return;  // A failed watch does not mean that the process has exited.
    gone();
  });
}

Session::~Session() { Forget(); }

void Session::Forget() {
  IgnoreRings();
  if (exit_.is_open()) exit_.release();
  process_exit_ = {};
}

void Session::ListenForRings() {
  if (std::exchange(listens_, true)) return;
  asio::error_code error;
  if (!rings_.is_open()) rings_.assign(doorbell_.get(), error);
  if (error) {
    return intake_.End(id_, absl::ResourceExhaustedError(
                                absl::StrCat("its doorbell cannot be watched: ", error.message())));
  }
  rings_.async_wait(asio::posix::descriptor_base::wait_read, Rung(intake_, id_));
}

// Removes the descriptor from the reactor, because each byte would wake it.
void Session::IgnoreRings() {
  if (rings_.is_open()) rings_.release();
  listens_ = false;
}

bool Session::TakeRings() {
  listens_ = false;
  return queue::DrainDoorbell(doorbell_.get()) != queue::DoorbellState::kOtherSideGone;
}

void Session::End() {
  if (std::exchange(ended_, true)) return;
  Forget();
  doorbell_.Reset();
  if (connection_.valid()) ::shutdown(connection_.get(), SHUT_RDWR);
  connection_.Reset();
}

queue::RingResult Session::PopSubmission(queue::SubmissionEntry& entry) {
  const queue::RingResult result = submissions_->Pop(entry);
  if (result == queue::RingResult::kDone) {
    ++in_flight_;
    ++submissions_taken_;
    rings_for_nothing_ = 0;
  }
  return result;
}

bool Session::PushCompletion(const queue::CompletionEntry& entry) {
  if (in_flight_ > 0) --in_flight_;
  if (completions_->Push(entry) != queue::RingResult::kDone) return false;
  if (completions_->ConsumerSleeps()) queue::RingDoorbell(doorbell_.get());
  return true;
}

// Does not wait: if the doorbell is full, the client does not get the descriptor.
bool Session::PassDescriptor(int descriptor) {
  const char byte = 1;
  return queue::SendWithDescriptors(doorbell_.get(), &byte, sizeof byte, &descriptor, 1,
                                    /*timeout_ns=*/0);
}

CopiedResults Session::results_copied() const {
  const queue::CopiedResults& reported =
      reinterpret_cast<const queue::QueueHeader*>(queue_->data())->copied_results;
  return {reported.results.load(std::memory_order_relaxed),
          reported.bytes.load(std::memory_order_relaxed),
          reported.nanoseconds.load(std::memory_order_relaxed)};
}

}  // namespace mlxcomm::intake
