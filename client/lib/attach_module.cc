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
#include <unordered_set>

#include <grpcpp/create_channel_posix.h>
#include <grpcpp/grpcpp.h>

#include "client/lib/attach_table.h"
#include "client/lib/mlxcomm.h"
#include "mlxcomm/v1/control.grpc.pb.h"
#include "proto/queue/hello.h"

namespace {

namespace v1 = mlxcomm::v1;
using AsyncStub = v1::Control::StubInterface::async_interface;

// Lives until gRPC has said how it ended.
struct CancelCall {
  grpc::ClientContext context;
  v1::CancelRequest request;
  v1::CancelReply reply;
};

}  // namespace

struct mlxcomm_attachment {
  std::unique_ptr<v1::Control::Stub> stub;
  std::string token;
  std::mutex mutex;
  std::condition_variable changed;
  std::unordered_set<CancelCall*> cancels;  // Under way.
};

namespace {

// The daemon's own deadline comes first; this one is for a daemon that does not
// answer at all.
constexpr std::uint64_t kDeadlineMarginNs = 10'000'000'000;
constexpr std::uint64_t kLongestWaitNs = 90'000'000'000'000;
constexpr auto kLeavePatience = std::chrono::seconds(1);
constexpr auto kCancelPatience = std::chrono::seconds(10);

void Authenticate(grpc::ClientContext& context, const mlxcomm_attachment& attachment) {
  context.AddMetadata(mlxcomm::queue::kTokenMetadataKey, attachment.token);
}

int Tell(mlxcomm_error* error, int code, int rank, const std::string& message) {
  if (error != nullptr) {
    error->code = static_cast<mlxcomm_code>(code);
    error->rank = rank;
    std::snprintf(error->message, sizeof error->message, "%s", message.c_str());
  }
  return code;
}

std::uint64_t ToMs(std::uint64_t ns) {
  return (std::min(ns, kLongestWaitNs) + 999'999) / 1'000'000;
}

mlxcomm_attachment* Open(int connection, const std::uint8_t* token, std::size_t token_bytes) {
  ::fcntl(connection, F_SETFL, ::fcntl(connection, F_GETFL) | O_NONBLOCK);
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  auto channel = grpc::CreateCustomInsecureChannelFromFd("mlxcommd", connection, arguments);
  auto attachment = std::make_unique<mlxcomm_attachment>();
  attachment->stub = v1::Control::NewStub(channel);
  attachment->token.assign(reinterpret_cast<const char*>(token), token_bytes);
  return attachment.release();
}

struct Ended {
  grpc::Status status;
  bool interrupted = false;
};

// One call that may take as long as timeout_ns (0: as long as the daemon wants).
template <typename Request, typename Reply>
Ended Call(mlxcomm_attachment& attachment,
           void (AsyncStub::*method)(grpc::ClientContext*, const Request*, Reply*,
                                     std::function<void(grpc::Status)>),
           const Request& request, std::uint64_t timeout_ns, mlxcomm_interrupt interrupt,
           Reply& reply) {
  grpc::ClientContext context;
  Authenticate(context, attachment);
  const std::uint64_t wait_ns =
      timeout_ns == 0 ? kLongestWaitNs : std::min(timeout_ns, kLongestWaitNs) + kDeadlineMarginNs;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::microseconds(wait_ns / 1000));
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  Ended end;
  (attachment.stub->async()->*method)(&context, &request, &reply, [&](grpc::Status status) {
    const std::lock_guard lock(mutex);
    end.status = std::move(status);
    done = true;
    changed.notify_one();
  });
  std::unique_lock lock(mutex);
  while (!changed.wait_for(lock, std::chrono::milliseconds(50), [&] { return done; })) {
    if (end.interrupted || interrupt.interrupted == nullptr) continue;
    lock.unlock();
    const bool interrupted = interrupt.interrupted(interrupt.context) != 0;
    if (interrupted) context.TryCancel();
    lock.lock();
    end.interrupted = interrupted;
  }
  return end;
}

// Why a call was not carried out; `doing` is what it was for.
int Refused(const Ended& end, const std::string& doing, mlxcomm_error* error) {
  if (end.interrupted) return Tell(error, MLXCOMM_CANCELLED, -1, "interrupted while " + doing);
  v1::Refusal refusal;
  const std::string& details = end.status.error_details();
  if (!details.empty() && refusal.ParseFromString(details) && refusal.code() != MLXCOMM_OK &&
      refusal.code() <= MLXCOMM_INTERNAL) {
    return Tell(error, static_cast<int>(refusal.code()), refusal.rank(), refusal.message());
  }
  switch (end.status.error_code()) {
    case grpc::StatusCode::UNIMPLEMENTED:
      return Tell(error, MLXCOMM_UNAVAILABLE, -1,
                  "the daemon is an older one and cannot do this: " + doing +
                      ". Install the same release of both");
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return Tell(error, MLXCOMM_DAEMON_LOST, -1, "the daemon does not answer, while " + doing);
    default:
      return Tell(error, MLXCOMM_DAEMON_LOST, -1,
                  "the daemon ended while " + doing + ": connect anew once it is back");
  }
}

template <typename Reply>
int Made(const Reply& reply, mlxcomm_group_told told, mlxcomm_group_listener listener,
         mlxcomm_error* error) {
  for (int i = 0; i < reply.members_size(); ++i) {
    if (reply.members(i).rank() == static_cast<std::uint32_t>(i)) continue;
    return Tell(error, MLXCOMM_INTERNAL, -1,
                "the daemon told of a group's ranks out of order: install the same release of both");
  }
  told.group = reply.group();
  told.members = static_cast<std::size_t>(reply.members_size());
  listener.group(listener.context, &told);
  for (const v1::Member& member : reply.members()) {
    listener.member(listener.context, member.node().c_str(), member.pid());
  }
  return MLXCOMM_OK;
}

int Made(const v1::GroupReply& reply, mlxcomm_group_listener listener, mlxcomm_error* error) {
  return Made(reply, mlxcomm_group_told{0, reply.rank(), 0, reply.name().c_str(), 0}, listener,
              error);
}

int Attach(mlxcomm_attachment* attachment, const char* job, std::uint32_t rank, std::uint32_t size,
           std::uint64_t timeout_ns, const char* program, mlxcomm_interrupt interrupt,
           mlxcomm_group_listener listener, mlxcomm_error* error) {
  v1::AttachRequest request;
  v1::AttachReply reply;
  request.set_job(job);
  request.set_rank(rank);
  request.set_size(size);
  request.set_timeout_ms(ToMs(timeout_ns));
  request.set_program(program);
  const Ended end =
      Call(*attachment, &AsyncStub::Attach, request, timeout_ns, interrupt, reply);
  if (!end.status.ok()) return Refused(end, "waiting for the other ranks of the job", error);
  const std::uint64_t default_ns = reply.timeout_default_ms() * 1'000'000;
  return Made(reply, mlxcomm_group_told{0, rank, default_ns, job, 0}, listener, error);
}

int Split(mlxcomm_attachment* attachment, std::uint64_t parent, std::uint64_t number,
          const std::uint32_t* ranks, std::size_t rank_count, const char* name,
          std::uint64_t timeout_ns, mlxcomm_interrupt interrupt, mlxcomm_group_listener listener,
          mlxcomm_error* error) {
  v1::SplitRequest request;
  v1::GroupReply reply;
  request.set_parent(parent);
  request.set_number(number);
  request.mutable_ranks()->Add(ranks, ranks + rank_count);
  request.set_name(name);
  const Ended end = Call(*attachment, &AsyncStub::Split, request, timeout_ns, interrupt, reply);
  if (!end.status.ok()) return Refused(end, "splitting a group", error);
  return Made(reply, listener, error);
}

int Shrink(mlxcomm_attachment* attachment, std::uint64_t group, std::uint64_t timeout_ns,
           mlxcomm_interrupt interrupt, mlxcomm_group_listener listener, mlxcomm_error* error) {
  v1::ShrinkRequest request;
  v1::GroupReply reply;
  request.set_group(group);
  request.set_timeout_ms(ToMs(timeout_ns));
  const Ended end = Call(*attachment, &AsyncStub::Shrink, request, timeout_ns, interrupt, reply);
  if (!end.status.ok()) {
    return Refused(end, "waiting for the ranks that are left of a group", error);
  }
  return Made(reply, listener, error);
}

void Cancel(mlxcomm_attachment* attachment, std::uint64_t group, std::uint64_t ticket,
            std::uint64_t patience_ns) {
  auto* const call = new CancelCall;
  Authenticate(call->context, *attachment);
  call->context.set_deadline(std::chrono::system_clock::now() + kCancelPatience);
  call->request.set_group(group);
  call->request.set_ticket(ticket);
  std::unique_lock lock(attachment->mutex);
  attachment->cancels.insert(call);
  lock.unlock();
  attachment->stub->async()->Cancel(
      &call->context, &call->request, &call->reply, [attachment, call](grpc::Status) {
        const std::unique_ptr<CancelCall> ended(call);
        const std::lock_guard held(attachment->mutex);
        attachment->cancels.erase(call);
        attachment->changed.notify_all();
      });
  lock.lock();
  attachment->changed.wait_for(lock, std::chrono::nanoseconds(patience_ns),
                               [&] { return !attachment->cancels.contains(call); });
}

void Release(mlxcomm_attachment* attachment, std::uint64_t group) {
  grpc::ClientContext context;
  Authenticate(context, *attachment);
  context.set_deadline(std::chrono::system_clock::now() + kLeavePatience);
  v1::ReleaseRequest request;
  v1::ReleaseReply reply;
  request.set_group(group);
  // A daemon that is gone, or that has ended the group, has forgotten this rank already.
  (void)attachment->stub->Release(&context, request, &reply);
}

void Detach(mlxcomm_attachment* attachment) {
  grpc::ClientContext context;
  Authenticate(context, *attachment);
  context.set_deadline(std::chrono::system_clock::now() + kLeavePatience);
  v1::DetachReply reply;
  (void)attachment->stub->Detach(&context, v1::DetachRequest(), &reply);  // As Release.
}

void Close(mlxcomm_attachment* attachment) {
  {
    std::unique_lock lock(attachment->mutex);
    for (CancelCall* const call : attachment->cancels) call->context.TryCancel();
    attachment->changed.wait(lock, [&] { return attachment->cancels.empty(); });
  }
  delete attachment;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const mlxcomm_attach_table
    mlxcomm_attach_table_v2;
const mlxcomm_attach_table mlxcomm_attach_table_v2 = {Open,   Attach,  Split,  Shrink,
                                                      Cancel, Release, Detach, Close};
