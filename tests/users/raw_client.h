// A process on its daemon without the library, which would refuse what hostile programs do: it has
// sent its hello, and exposes its descriptors, its memory and the connection's calls.
//
// Owner: the program. Thread: calls from any; the queue from one. Memory: both segments, mapped.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <grpcpp/create_channel_posix.h>
#include <grpcpp/grpcpp.h>

#include "mlxcomm/v1/control.grpc.pb.h"
#include "proto/queue/dial.h"
#include "proto/queue/doorbell.h"
#include "proto/queue/ring.h"
#include "proto/queue/socket_options.h"

namespace mlxcomm {

class RawClient {
 public:
  static constexpr std::uint64_t kPatienceNs = 60'000'000'000;
  static constexpr std::uint32_t kInFlightMax = queue::kCompletionSlots - 1;  // As the daemon's.

  // nullptr: refused, with the reason.
  static std::unique_ptr<RawClient> Dial(const char* socket, std::uint64_t arena_bytes,
                                         Failure& failure) {
    queue::Dialed dialed;
    failure = queue::Dial(socket, queue::ProcessRole::kClient, arena_bytes, kPatienceNs, dialed);
    return failure.ok() ? std::unique_ptr<RawClient>(new RawClient(dialed)) : nullptr;
  }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;
  ~RawClient() {
    UnmapArena();
    ::munmap(queue_, queue::kQueueSegmentBytes);
    CloseDoorbell();
    for (const int descriptor : {arena_descriptor(), queue_descriptor(), watched_})
      ::close(descriptor);
  }

  template <typename Request, typename Reply>
  grpc::Status Call(grpc::Status (v1::Control::Stub::*call)(grpc::ClientContext*, const Request&,
                                                            Reply*),
                    const Request& request, Reply& reply) {
    grpc::ClientContext context;
    context.AddMetadata(queue::kTokenMetadataKey, token_);
    // gRPC needs times in the clock's own unit, which is larger on macOS.
    context.set_deadline(std::chrono::time_point_cast<std::chrono::system_clock::duration>(
        std::chrono::system_clock::now() + std::chrono::nanoseconds(kPatienceNs)));
    return ((*stub_).*call)(&context, request, &reply);
  }

  void Submit(const queue::SubmissionEntry& entry) {
    if (in_flight_ == kInFlightMax || submissions_->Push(entry) != queue::RingResult::kDone) return;
    ++in_flight_;
    Ring();
  }
  void Ring() { queue::RingDoorbell(doorbell_); }
  // False if the bell is full.
  bool Ring(const std::string& bytes) {
    return ::send(doorbell_, bytes.data(), bytes.size(), MSG_DONTWAIT | queue::kNoSignal) > 0;
  }
  std::optional<queue::CompletionEntry> TakeCompletion() {
    queue::CompletionEntry completion;
    if (completions_->Pop(completion) != queue::RingResult::kDone) return std::nullopt;
    --in_flight_;
    return completion;
  }
  // nullopt if there was none in time.
  std::optional<queue::CompletionEntry> AwaitCompletion() {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::nanoseconds(kPatienceNs);
    for (;;) {
      if (auto completion = TakeCompletion()) return completion;
      if (std::chrono::steady_clock::now() > give_up) return std::nullopt;
      ::usleep(100);
    }
  }
  // Returns whether the daemon ends the session in time.
  bool AwaitEnd(std::uint64_t patience_ns = kPatienceNs) const {
    pollfd waited{watched_, 0, 0};
    return ::poll(&waited, 1, static_cast<int>(patience_ns / 1'000'000)) == 1;
  }
  void CloseDoorbell() {
    if (doorbell_ >= 0) ::close(doorbell_);
    doorbell_ = -1;
  }
  void UnmapArena() {
    if (arena_ != nullptr) ::munmap(arena_, arena_bytes());
    arena_ = nullptr;
  }

  int arena_descriptor() const { return dialed_.descriptors[0]; }
  int queue_descriptor() const { return dialed_.descriptors[1]; }
  std::uint64_t arena_bytes() const { return dialed_.hello.arena_bytes; }
  std::byte* arena() const { return arena_; }
  std::byte* queue() const { return queue_; }
  queue::QueueHeader& header() { return *reinterpret_cast<queue::QueueHeader*>(queue_); }

 private:
  explicit RawClient(const queue::Dialed& dialed)
      : token_(dialed.hello.token.begin(), dialed.hello.token.end()),
        dialed_(dialed),
        watched_(::dup(dialed.connection)),
        doorbell_(dialed.descriptors[2]),
        arena_(Map(dialed.descriptors[0], dialed.hello.arena_bytes)),
        queue_(Map(dialed.descriptors[1], queue::kQueueSegmentBytes)) {
    ::fcntl(dialed.connection, F_SETFL, O_NONBLOCK);
    stub_ = v1::Control::NewStub(grpc::CreateInsecureChannelFromFd("mlxcommd", dialed.connection));
    submissions_.emplace(
        &header().submissions,
        reinterpret_cast<queue::SubmissionEntry*>(queue_ + queue::kSubmissionsOffset),
        queue::kSubmissionSlots);
    completions_.emplace(
        &header().completions,
        reinterpret_cast<const queue::CompletionEntry*>(queue_ + queue::kCompletionsOffset),
        queue::kCompletionSlots);
  }
  static std::byte* Map(int descriptor, std::uint64_t bytes) {
    return static_cast<std::byte*>(
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0));
  }

  std::string token_;
  queue::Dialed dialed_;
  std::uint32_t in_flight_ = 0;
  int watched_;  // The connection, which belongs to gRPC.
  int doorbell_;
  std::byte* arena_;
  std::byte* queue_;
  std::unique_ptr<v1::Control::Stub> stub_;
  std::optional<queue::SubmissionProducer> submissions_;
  std::optional<queue::CompletionConsumer> completions_;
};

}  // namespace mlxcomm
