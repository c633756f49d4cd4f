// libmlxcomm_attach: the calls of control.proto, behind attach_table.h. The only
// part of the client library that knows gRPC.
#include <fcntl.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>

#include <grpcpp/create_channel_posix.h>
#include <grpcpp/grpcpp.h>

#include "client/lib/attach_table.h"
#include "client/lib/mlxcomm.h"
#include "mlxcomm/v1/control.grpc.pb.h"
#include "proto/queue/hello.h"

struct mlxcomm_attachment {
  std::unique_ptr<mlxcomm::v1::Control::Stub> stub;
  std::string token;
};

namespace {

using mlxcomm::v1::AttachReply;
using mlxcomm::v1::AttachRequest;

// The daemon's own deadline comes first; this one is for a daemon that does not
// answer at all.
constexpr std::uint64_t kDeadlineMarginNs = 10'000'000'000;
constexpr std::uint64_t kLongestWaitNs = 90'000'000'000'000;

void Authenticate(grpc::ClientContext& context, const mlxcomm_attachment& attachment) {
  context.AddMetadata(mlxcomm::queue::kTokenMetadataKey, attachment.token);
}

void Tell(mlxcomm_error* error, int code, int rank, const std::string& message) {
  if (error == nullptr) return;
  error->code = static_cast<mlxcomm_code>(code);
  error->rank = rank;
  std::snprintf(error->message, sizeof error->message, "%s", message.c_str());
}

mlxcomm_attachment* Open(int connection, const std::uint8_t* token, std::size_t token_bytes) {
  ::fcntl(connection, F_SETFL, ::fcntl(connection, F_GETFL) | O_NONBLOCK);
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  auto channel = grpc::CreateCustomInsecureChannelFromFd("mlxcommd", connection, arguments);
  auto attachment = std::make_unique<mlxcomm_attachment>();
  attachment->stub = mlxcomm::v1::Control::NewStub(channel);
  attachment->token.assign(reinterpret_cast<const char*>(token), token_bytes);
  return attachment.release();
}

int Outcome(const grpc::Status& status, bool interrupted, const AttachReply& reply,
            mlxcomm_attached* attached, mlxcomm_error* error) {
  if (status.ok()) {
    attached->group = reply.group();
    attached->timeout_default_ns = reply.timeout_default_ms() * 1'000'000;
    return MLXCOMM_OK;
  }
  mlxcomm::v1::Refusal refusal;
  int code = MLXCOMM_DAEMON_LOST;
  int rank = -1;
  std::string message = "the daemon ended while the job was forming: " + status.error_message();
  if (interrupted) {
    code = MLXCOMM_CANCELLED;
    message = "interrupted while waiting for the other ranks";
  } else if (!status.error_details().empty() && refusal.ParseFromString(status.error_details())) {
    code = static_cast<int>(refusal.code());
    rank = refusal.rank();
    message = refusal.message();
  } else if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    message = "the daemon does not answer";
  }
  Tell(error, code, rank, message);
  return code;
}

int Attach(mlxcomm_attachment* attachment, const char* job, std::uint32_t rank, std::uint32_t size,
           std::uint64_t timeout_ns, const char* program, mlxcomm_interrupt interrupt,
           mlxcomm_attached* attached, mlxcomm_error* error) {
  AttachRequest request;
  AttachReply reply;
  request.set_job(job);
  request.set_rank(rank);
  request.set_size(size);
  request.set_timeout_ms((std::min(timeout_ns, kLongestWaitNs) + 999'999) / 1'000'000);
  request.set_program(program);
  grpc::ClientContext context;
  Authenticate(context, *attachment);
  const std::uint64_t wait_ns =
      timeout_ns == 0 ? kLongestWaitNs
                      : std::min(timeout_ns, kLongestWaitNs) + kDeadlineMarginNs;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::microseconds(wait_ns / 1000));
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  bool interrupted = false;
  grpc::Status status;
  attachment->stub->async()->Attach(&context, &request, &reply, [&](grpc::Status ended) {
    const std::lock_guard lock(mutex);
    status = std::move(ended);
    done = true;
    changed.notify_one();
  });
  std::unique_lock lock(mutex);
  while (!changed.wait_for(lock, std::chrono::milliseconds(50), [&] { return done; })) {
    if (interrupted || interrupt.interrupted == nullptr) continue;
    lock.unlock();
    interrupted = interrupt.interrupted(interrupt.context) != 0;
    if (interrupted) context.TryCancel();
    lock.lock();
  }
  return Outcome(status, interrupted, reply, attached, error);
}

void Detach(mlxcomm_attachment* attachment) {
  grpc::ClientContext context;
  Authenticate(context, *attachment);
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(1));
  mlxcomm::v1::DetachReply reply;
  // A daemon that is gone has forgotten this rank already.
  (void)attachment->stub->Detach(&context, mlxcomm::v1::DetachRequest(), &reply);
}

void Close(mlxcomm_attachment* attachment) { delete attachment; }

}  // namespace

extern "C" __attribute__((visibility("default"))) const mlxcomm_attach_table
    mlxcomm_attach_table_v1;
const mlxcomm_attach_table mlxcomm_attach_table_v1 = {Open, Attach, Detach, Close};
