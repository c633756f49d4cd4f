// trespasser SOCKET GROUP: says hello as a training process does, and then tries every call on a
// group that is not its own, without the library, which would refuse. Prints the answers, one line
// for each call: "split: INVALID_ARGUMENT ...".
#include <fcntl.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include <grpcpp/create_channel_posix.h>
#include <grpcpp/grpcpp.h>
#include <sys/mman.h>

#include "mlxcomm/v1/control.grpc.pb.h"
#include "proto/queue/dial.h"
#include "proto/queue/doorbell.h"
#include "proto/queue/ring.h"

namespace {

using namespace mlxcomm;  // NOLINT: a program.

constexpr std::uint64_t kPatienceNs = 60'000'000'000;

class Trespasser {
 public:
  explicit Trespasser(const queue::Dialed& dialed)
      : token_(dialed.hello.token.begin(), dialed.hello.token.end()), dialed_(dialed) {
    ::fcntl(dialed.connection, F_SETFL, O_NONBLOCK);
    stub_ = v1::Control::NewStub(grpc::CreateInsecureChannelFromFd("mlxcommd", dialed.connection));
  }

  template <typename Request, typename Reply>
  void Try(const char* what, const Request& request, Reply reply,
           grpc::Status (v1::Control::Stub::*call)(grpc::ClientContext*, const Request&, Reply*)) {
    grpc::ClientContext context;
    context.AddMetadata(queue::kTokenMetadataKey, token_);
    // gRPC needs times in the clock's own unit, which is larger on macOS.
    context.set_deadline(std::chrono::time_point_cast<std::chrono::system_clock::duration>(
        std::chrono::system_clock::now() + std::chrono::nanoseconds(kPatienceNs)));
    const grpc::Status status = ((*stub_).*call)(&context, request, &reply);
    v1::Refusal refusal;
    if (!refusal.ParseFromString(status.error_details())) {
      std::printf("%s: a refusal that cannot be read\n", what);
      return;
    }
    std::printf("%s: %s %s\n", what,
                status.ok() ? "OK" : FailureCodeName(static_cast<FailureCode>(refusal.code())),
                status.error_message().c_str());
  }

  // Submits an operation of that group straight into the own queue.
  void Submit(std::uint64_t group) {
    auto* const base =
        static_cast<std::byte*>(::mmap(nullptr, queue::kQueueSegmentBytes, PROT_READ | PROT_WRITE,
                                       MAP_SHARED, dialed_.descriptors[1], 0));
    auto& header = *reinterpret_cast<queue::QueueHeader*>(base);
    queue::SubmissionProducer submissions(
        &header.submissions,
        reinterpret_cast<queue::SubmissionEntry*>(base + queue::kSubmissionsOffset),
        queue::kSubmissionSlots);
    queue::CompletionConsumer completions(
        &header.completions,
        reinterpret_cast<const queue::CompletionEntry*>(base + queue::kCompletionsOffset),
        queue::kCompletionSlots);
    queue::SubmissionEntry entry{};
    entry.ticket = 1;
    entry.group = group;
    entry.kind = OperationKind::kBarrier;
    entry.data_type = DataType::kFloat32;
    entry.reduce_operator = ReduceOperator::kSum;
    if (submissions.Push(entry) != queue::RingResult::kDone) return;
    queue::RingDoorbell(dialed_.descriptors[2]);
    queue::CompletionEntry told;
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::nanoseconds(kPatienceNs);
    while (completions.Pop(told) != queue::RingResult::kDone) {
      if (std::chrono::steady_clock::now() > give_up) return;
    }
    std::printf("submit: %s %.*s\n", FailureCodeName(static_cast<FailureCode>(told.failure_code)),
                told.message_bytes, told.message);
  }

 private:
  std::string token_;
  queue::Dialed dialed_;
  std::unique_ptr<v1::Control::Stub> stub_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::uint64_t group = std::stoull(argv[2]);
  queue::Dialed dialed;
  const Failure failure =
      queue::Dial(argv[1], queue::ProcessRole::kClient, 1 << 16, kPatienceNs, dialed);
  if (!failure.ok()) {
    std::printf("hello: %s %s\n", FailureCodeName(failure.code), failure.message.c_str());
    return 3;
  }
  Trespasser trespasser(dialed);
  v1::SplitRequest split;
  split.set_parent(group);
  split.add_ranks(0);
  trespasser.Try("split", split, v1::GroupReply(), &v1::Control::Stub::Split);
  v1::ShrinkRequest shrink;
  shrink.set_group(group);
  trespasser.Try("shrink", shrink, v1::GroupReply(), &v1::Control::Stub::Shrink);
  v1::ReleaseRequest release;
  release.set_group(group);
  trespasser.Try("release", release, v1::ReleaseReply(), &v1::Control::Stub::Release);
  v1::CancelRequest cancel;
  cancel.set_group(group);
  for (std::uint64_t ticket = 0; ticket < 64; ++ticket) {
    cancel.set_ticket(ticket);
    trespasser.Try("cancel", cancel, v1::CancelReply(), &v1::Control::Stub::Cancel);
  }
  trespasser.Submit(group);
  return 0;
}
