// A local process for the intake: a socket, any bytes to send, and, once accepted, its segments.
// Never blocks, so that a test can be process and daemon in one thread.
//
// Owner: the test. Thread: the test's. Memory: maps the segments it was given.
#pragma once

#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

#include <asio/io_context.hpp>

#include "proto/queue/descriptor_passing.h"
#include "proto/queue/doorbell.h"
#include "proto/queue/hello.h"
#include "proto/queue/ring.h"
#include "proto/system/file_descriptor.h"
#include "tests/unit/temporary_folder.h"

namespace mlxcomm::intake {

class SocketFolder : public TemporaryFolder {
 public:
  std::string socket() const { return path() + "/socket"; }
};

inline bool IsReadable(int descriptor) {
  pollfd waited{descriptor, POLLIN, 0};
  return ::poll(&waited, 1, 0) == 1;
}

// Runs the daemon's side until `done`, at most a minute.
template <typename Done, typename Turn>
[[nodiscard]] bool RunUntil(asio::io_context& io, const Turn& turn, const Done& done) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!done()) {
    if (std::chrono::steady_clock::now() > give_up) return false;
    io.restart();
    io.run_one_for(std::chrono::milliseconds(1));
    io.poll();
    turn();
  }
  return true;
}

inline queue::ClientHello GoodHello(queue::ProcessRole role = queue::ProcessRole::kClient,
                                    std::uint64_t arena_bytes = 1 << 16) {
  return {queue::kClientHelloMagic, queue::kHelloVersion, role, arena_bytes, 0};
}

class LocalProcess {
 public:
  // Connects, and waits in the backlog.
  explicit LocalProcess(const std::string& path) : connection_(::socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    connected_ = ::connect(connection_.get(), reinterpret_cast<const sockaddr*>(&address),
                           sizeof address) == 0;
  }
  LocalProcess(const LocalProcess&) = delete;
  LocalProcess& operator=(const LocalProcess&) = delete;
  ~LocalProcess() {
    if (arena_ != nullptr) ::munmap(arena_, hello_.arena_bytes);
    if (queue_ != nullptr) ::munmap(queue_, queue::kQueueSegmentBytes);
  }

  bool connected() const { return connected_; }
  int connection() const { return connection_.get(); }
  int doorbell() const { return doorbell_.get(); }
  void CloseConnection() { connection_.Reset(); }
  void CloseDoorbell() { doorbell_.Reset(); }

  bool Send(const void* data, std::size_t bytes) {
    return queue::SendWithDescriptors(connection_.get(), data, bytes, nullptr, 0, 1'000'000'000);
  }
  bool Send(const queue::ClientHello& hello) { return Send(&hello, sizeof hello); }
  bool HasAnswer() const { return IsReadable(connection_.get()); }

  // Call it after HasAnswer(). False: an incomplete answer.
  bool TakeAnswer() {
    int descriptors[queue::kClientDescriptors];
    if (!queue::ReceiveWithDescriptors(connection_.get(), &hello_, sizeof hello_, descriptors,
                                       queue::kClientDescriptors, &descriptor_count_,
                                       1'000'000'000)) {
      return false;
    }
    if (descriptor_count_ == 0) return true;
    doorbell_.Reset(descriptors[descriptor_count_ - 1]);
    if (descriptor_count_ == queue::kClientDescriptors) Map(descriptors[0], descriptors[1]);
    return true;
  }
  const queue::DaemonHello& answer() const { return hello_; }
  int descriptor_count() const { return descriptor_count_; }
  std::string token() const {
    return {reinterpret_cast<const char*>(hello_.token.data()), hello_.token.size()};
  }

  std::byte* arena() const { return static_cast<std::byte*>(arena_); }
  std::byte* queue_segment() const { return static_cast<std::byte*>(queue_); }
  queue::QueueHeader& header() const { return *static_cast<queue::QueueHeader*>(queue_); }
  queue::SubmissionProducer& submissions() { return *submissions_; }
  queue::CompletionConsumer& completions() { return *completions_; }

  // Like the client library: rings for a sleeping daemon.
  bool Submit(const queue::SubmissionEntry& entry) {
    if (submissions_->Push(entry) != queue::RingResult::kDone) return false;
    if (submissions_->ConsumerSleeps()) queue::RingDoorbell(doorbell_.get());
    return true;
  }

 private:
  void Map(int arena, int segment) {
    const FileDescriptor arena_object(arena);
    const FileDescriptor queue_object(segment);
    const int access = PROT_READ | PROT_WRITE;
    arena_ = ::mmap(nullptr, hello_.arena_bytes, access, MAP_SHARED, arena, 0);
    queue_ = ::mmap(nullptr, queue::kQueueSegmentBytes, access, MAP_SHARED, segment, 0);
    if (arena_ == MAP_FAILED || queue_ == MAP_FAILED) std::abort();
    submissions_.emplace(
        &header().submissions,
        reinterpret_cast<queue::SubmissionEntry*>(queue_segment() + queue::kSubmissionsOffset),
        queue::kSubmissionSlots);
    completions_.emplace(&header().completions,
                         reinterpret_cast<const queue::CompletionEntry*>(queue_segment() +
                                                                         queue::kCompletionsOffset),
                         queue::kCompletionSlots);
  }

  FileDescriptor connection_;
  FileDescriptor doorbell_;
  bool connected_ = false;
  queue::DaemonHello hello_{};
  int descriptor_count_ = 0;
  void* arena_ = nullptr;
  void* queue_ = nullptr;
  std::optional<queue::SubmissionProducer> submissions_;
  std::optional<queue::CompletionConsumer> completions_;
};

}  // namespace mlxcomm::intake
