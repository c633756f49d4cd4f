// trespasser SOCKET GROUP: sends a hello like a training process, and then tries every call on a
// group that is not its own, without the library, which would refuse. Prints the answers, one line
// for each call: "split: INVALID_ARGUMENT ...".
#include <cstdint>
#include <cstdio>

#include "tests/users/raw_client.h"

namespace {

using namespace mlxcomm;  // NOLINT: a program.

template <typename Request, typename Reply>
void Try(RawClient& client, const char* what, const Request& request, Reply reply,
         grpc::Status (v1::Control::Stub::*call)(grpc::ClientContext*, const Request&, Reply*)) {
  const grpc::Status status = client.Call(call, request, reply);
  v1::Refusal refusal;
  if (!refusal.ParseFromString(status.error_details())) {
    std::printf("%s: a refusal that cannot be read\n", what);
    return;
  }
  std::printf("%s: %s %s\n", what,
              status.ok() ? "OK" : FailureCodeName(static_cast<FailureCode>(refusal.code())),
              status.error_message().c_str());
}

// Submits an operation of that group directly to its own queue.
void Submit(RawClient& client, std::uint64_t group) {
  queue::SubmissionEntry entry{};
  entry.ticket = 1;
  entry.group = group;
  entry.kind = OperationKind::kBarrier;
  entry.data_type = DataType::kFloat32;
  entry.reduce_operator = ReduceOperator::kSum;
  client.Submit(entry);
  const auto reported = client.AwaitCompletion();
  if (!reported) return;
  std::printf("submit: %s %.*s\n",
              FailureCodeName(static_cast<FailureCode>(reported->failure_code)),
              reported->message_bytes, reported->message);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::uint64_t group = std::stoull(argv[2]);
  Failure failure;
  const auto trespasser = RawClient::Dial(argv[1], 1 << 16, failure);
  if (trespasser == nullptr) {
    std::printf("hello: %s %s\n", FailureCodeName(failure.code), failure.message.c_str());
    return 3;
  }
  v1::SplitRequest split;
  split.set_parent(group);
  split.add_ranks(0);
  Try(*trespasser, "split", split, v1::GroupReply(), &v1::Control::Stub::Split);
  v1::ShrinkRequest shrink;
  shrink.set_group(group);
  Try(*trespasser, "shrink", shrink, v1::GroupReply(), &v1::Control::Stub::Shrink);
  v1::ReleaseRequest release;
  release.set_group(group);
  Try(*trespasser, "release", release, v1::ReleaseReply(), &v1::Control::Stub::Release);
  v1::CancelRequest cancel;
  cancel.set_group(group);
  for (std::uint64_t ticket = 0; ticket < 64; ++ticket) {
    cancel.set_ticket(ticket);
    Try(*trespasser, "cancel", cancel, v1::CancelReply(), &v1::Control::Stub::Cancel);
  }
  Submit(*trespasser, group);
  return 0;
}
