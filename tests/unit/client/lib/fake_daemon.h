// A minimal daemon for tests: it answers one hello, and the test makes its moves.
//
//   FakeDaemon daemon;  daemon.Welcome();  ... mlxcomm_connect ...
//   daemon.Take(): the next submission      daemon.Complete(...): its end
//   daemon.Die(): what kill -9 looks like from the client
//
// Owner: the test. Thread: its own answers the hello; the rest is the test's. Memory: an arena and
// a queue in unlinked files.
#pragma once

#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "proto/queue/descriptor_passing.h"
#include "proto/queue/doorbell.h"
#include "proto/queue/hello.h"
#include "proto/queue/ring.h"
#include "tests/unit/temporary_folder.h"

namespace mlxcomm::client {

class FakeDaemon {
 public:
  static constexpr std::uint64_t kArenaBytes = std::uint64_t{1} << 20;
  static constexpr std::uint64_t kPatienceNs = 60'000'000'000;

  FakeDaemon() {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    socket_path().copy(address.sun_path, sizeof address.sun_path - 1);
    listener_ = ::socket(AF_UNIX, SOCK_STREAM, 0);
    Demand(::bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    Demand(::listen(listener_, 8) == 0);
    arena_file_ = MakeSegment(kArenaBytes);
    queue_file_ = MakeSegment(queue::kQueueSegmentBytes);
    memory_ = static_cast<std::byte*>(::mmap(nullptr, queue::kQueueSegmentBytes,
                                             PROT_READ | PROT_WRITE, MAP_SHARED, queue_file_, 0));
    arena_ = static_cast<std::byte*>(
        ::mmap(nullptr, kArenaBytes, PROT_READ | PROT_WRITE, MAP_SHARED, arena_file_, 0));
    header_ = new (memory_) queue::QueueHeader{};
    header_->magic = queue::kQueueMagic;
    header_->version = queue::kQueueVersion;
    submissions_.emplace(
        &header_->submissions,
        reinterpret_cast<const queue::SubmissionEntry*>(memory_ + queue::kSubmissionsOffset),
        queue::kSubmissionSlots);
    completions_.emplace(
        &header_->completions,
        reinterpret_cast<queue::CompletionEntry*>(memory_ + queue::kCompletionsOffset),
        queue::kCompletionSlots);
    Demand(queue::MakeDoorbellPair(doorbell_));
  }
  ~FakeDaemon() {
    if (thread_.joinable()) thread_.join();
    for (const int file : {listener_, arena_file_, queue_file_, doorbell_[0], doorbell_[1]}) {
      if (file >= 0) ::close(file);
    }
    ::munmap(memory_, queue::kQueueSegmentBytes);
    ::munmap(arena_, kArenaBytes);
  }
  FakeDaemon(const FakeDaemon&) = delete;
  FakeDaemon& operator=(const FakeDaemon&) = delete;

  std::string socket_path() const { return folder_.path() + "/socket"; }
  queue::Scheduling scheduling = queue::Scheduling::kAuto;  // For its hellos, like spin_ms.
  std::uint16_t spin_ms = 0;

  // Answers the next hello like this, on another thread.
  void Answer(std::function<void(int connection)> how) {
    thread_ = std::thread([this, how = std::move(how)] {
      pollfd waited{listener_, POLLIN, 0};
      if (::poll(&waited, 1, static_cast<int>(kPatienceNs / 1'000'000)) != 1)
        return;  // No client connected.
      const int connection = ::accept(listener_, nullptr, nullptr);
      queue::ClientHello hello;
      int count = 0;
      if (queue::ReceiveWithDescriptors(connection, &hello, sizeof hello, nullptr, 0, &count,
                                        kPatienceNs)) {
        how(connection);
      }
      ::close(connection);
    });
  }
  queue::DaemonHello MakeHello() const {
    queue::DaemonHello hello{};
    hello.magic = queue::kDaemonHelloMagic;
    hello.version = queue::kHelloVersion;
    hello.scheduling = scheduling;
    hello.spin_ms = spin_ms;
    hello.arena_bytes = kArenaBytes;
    return hello;
  }
  void Welcome() {
    Answer([this](int connection) {
      const queue::DaemonHello hello = MakeHello();
      const int descriptors[] = {arena_file_, queue_file_, doorbell_[1]};
      Demand(queue::SendWithDescriptors(connection, &hello, sizeof hello, descriptors, 3,
                                        kPatienceNs));
    });
  }
  // The client has its own copy of the doorbell; our copy would hide our death.
  void Connected() {
    thread_.join();
    ::close(std::exchange(doorbell_[1], -1));
  }

  bool HasSubmission() const { return submissions_->HasNext(); }
  queue::SubmissionEntry Take() {
    queue::SubmissionEntry entry{};
    for (;;) {
      const queue::RingResult result = submissions_->Pop(entry);
      Demand(result != queue::RingResult::kCorrupt);
      if (result == queue::RingResult::kDone) return entry;
      if (!submissions_->PrepareToSleep()) continue;
      Demand(queue::WaitForDoorbell(doorbell_[0], kPatienceNs) == queue::DoorbellState::kRung);
      submissions_->WakeUp();
    }
  }
  void Complete(std::uint64_t ticket, std::uint8_t code = 0, const std::string& message = {},
                std::int32_t rank = kNoRank, bool group_failed = false) {
    queue::CompletionEntry entry{};
    entry.ticket = ticket;
    entry.failure_code = code;
    entry.rank_at_fault = rank;
    entry.group_failed = group_failed ? 1 : 0;
    entry.message_bytes =
        static_cast<std::uint16_t>(message.copy(entry.message, kFailureMessageBytesMax));
    Demand(completions_->Push(entry) == queue::RingResult::kDone);
    if (completions_->ConsumerSleeps()) queue::RingDoorbell(doorbell_[0]);
  }
  // A group's page, over the doorbell.
  void PassPage(int descriptor) {
    const char byte = 1;
    Demand(
        queue::SendWithDescriptors(doorbell_[0], &byte, sizeof byte, &descriptor, 1, kPatienceNs));
  }
  // The client's buffers, as the daemon sees them.
  template <typename T>
  T* At(std::uint64_t offset) {
    return reinterpret_cast<T*>(arena_ + offset);
  }
  bool client_sleeps() const { return header_->completions.consumer_sleeps.load() != 0; }
  queue::QueueHeader& header() { return *header_; }
  void Die() { ::close(std::exchange(doorbell_[0], -1)); }

 private:
  static void Demand(bool fine) {
    if (!fine) std::abort();
  }
  static int MakeSegment(std::size_t bytes) {
    char path[] = "/tmp/mlxcomm-segment-XXXXXX";
    const int file = ::mkstemp(path);
    Demand(file >= 0 && ::ftruncate(file, static_cast<off_t>(bytes)) == 0);
    ::unlink(path);
    return file;
  }

  const TemporaryFolder folder_;
  int listener_ = -1;
  int arena_file_ = -1;
  int queue_file_ = -1;
  int doorbell_[2] = {-1, -1};
  std::byte* memory_ = nullptr;
  std::byte* arena_ = nullptr;
  queue::QueueHeader* header_ = nullptr;
  std::optional<queue::SubmissionConsumer> submissions_;
  std::optional<queue::CompletionProducer> completions_;
  std::thread thread_;
};

}  // namespace mlxcomm::client
