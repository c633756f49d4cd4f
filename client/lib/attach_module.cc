// libmlxcomm_attach: the calls of control.proto, behind attach_table.h. The only
// part of the client library that knows protobuf and HTTP/2.
#include <algorithm>
#include <cstdio>
#include <string>

#include "client/lib/attach_table.h"
#include "client/lib/control_channel.h"
#include "client/lib/mlxcomm.h"
#include "mlxcomm/v1/control.pb.h"

struct mlxcomm_attachment {
  mlxcomm::client::ControlChannel channel;
};

namespace {

namespace v1 = mlxcomm::v1;
using mlxcomm::client::ControlChannel;

// The daemon's own deadline comes first; this one is for a daemon that does not answer.
constexpr std::uint64_t kDeadlineMarginNs = 10'000'000'000;
constexpr std::uint64_t kLongestWaitNs = 90'000'000'000'000;
constexpr std::uint64_t kLeavePatienceNs = 1'000'000'000;
constexpr mlxcomm_interrupt kUninterrupted = {nullptr, nullptr};

int Report(mlxcomm_error* error, int code, int rank, const std::string& message) {
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
  return new mlxcomm_attachment{
      {connection, std::string(reinterpret_cast<const char*>(token), token_bytes)}};
}

// One call that may take as long as timeout_ns (0: as long as the daemon wants).
template <typename Request, typename Reply>
ControlChannel::Ended Call(mlxcomm_attachment& attachment, const char* path, const Request& request,
                           std::uint64_t timeout_ns, mlxcomm_interrupt interrupt, Reply& reply) {
  const std::uint64_t wait_ns =
      timeout_ns == 0 ? kLongestWaitNs : std::min(timeout_ns, kLongestWaitNs) + kDeadlineMarginNs;
  ControlChannel::Ended end =
      attachment.channel.Call(path, request.SerializeAsString(), wait_ns, interrupt);
  if (end.status == ControlChannel::Status::kOk && !reply.ParseFromString(end.reply)) {
    end.status = ControlChannel::Status::kInternal;
  }
  return end;
}

bool Ok(const ControlChannel::Ended& end) { return end.status == ControlChannel::Status::kOk; }

// Why a call was not carried out; `doing` is what it was for.
int Refused(const ControlChannel::Ended& end, const std::string& doing, mlxcomm_error* error) {
  if (end.interrupted) return Report(error, MLXCOMM_CANCELLED, -1, "interrupted while " + doing);
  v1::Refusal refusal;
  if (!end.details.empty() && refusal.ParseFromString(end.details) &&
      refusal.code() != MLXCOMM_OK && refusal.code() <= MLXCOMM_INTERNAL) {
    return Report(error, static_cast<int>(refusal.code()), refusal.rank(), refusal.message());
  }
  switch (end.status) {
    case ControlChannel::Status::kUnimplemented:
      return Report(error, MLXCOMM_UNAVAILABLE, -1,
                    "the daemon is an older one and cannot do this: " + doing +
                        ". Install the same release of both");
    case ControlChannel::Status::kDeadlineExceeded:
      return Report(error, MLXCOMM_DAEMON_LOST, -1, "the daemon does not answer, while " + doing);
    case ControlChannel::Status::kInternal:
      return Report(error, MLXCOMM_INTERNAL, -1,
                    "the daemon's answer could not be read, while " + doing +
                        ": install the same release of both");
    default:
      return Report(error, MLXCOMM_DAEMON_LOST, -1,
                    "the daemon ended while " + doing + ": connect again once it is back");
  }
}

template <typename Reply>
int Made(const Reply& reply, mlxcomm_group_told reported, mlxcomm_group_listener listener,
         mlxcomm_error* error) {
  for (int i = 0; i < reply.members_size(); ++i) {
    if (reply.members(i).rank() == static_cast<std::uint32_t>(i)) continue;
    return Report(
        error, MLXCOMM_INTERNAL, -1,
        "the daemon told of a group's ranks out of order: install the same release of both");
  }
  reported.group = reply.group();
  reported.members = static_cast<std::size_t>(reply.members_size());
  listener.group(listener.context, &reported);
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
           std::uint64_t timeout_ns, const char* program, const char* named_by,
           mlxcomm_interrupt interrupt, mlxcomm_group_listener listener, mlxcomm_error* error) {
  v1::AttachRequest request;
  v1::AttachReply reply;
  request.set_job(job);
  request.set_rank(rank);
  request.set_size(size);
  request.set_timeout_ms(ToMs(timeout_ns));
  request.set_program(program);
  request.set_named_by(named_by);
  const ControlChannel::Ended end =
      Call(*attachment, "/mlxcomm.v1.Control/Attach", request, timeout_ns, interrupt, reply);
  if (!Ok(end)) return Refused(end, "waiting for the other ranks of the job", error);
  const std::uint64_t default_ns = reply.timeout_default_ms() * 1'000'000;
  const char* const name = reply.name().empty() ? job : reply.name().c_str();
  return Made(reply, mlxcomm_group_told{0, rank, default_ns, name, 0}, listener, error);
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
  const ControlChannel::Ended end =
      Call(*attachment, "/mlxcomm.v1.Control/Split", request, timeout_ns, interrupt, reply);
  if (!Ok(end)) return Refused(end, "splitting a group", error);
  return Made(reply, listener, error);
}

int Shrink(mlxcomm_attachment* attachment, std::uint64_t group, std::uint64_t timeout_ns,
           mlxcomm_interrupt interrupt, mlxcomm_group_listener listener, mlxcomm_error* error) {
  v1::ShrinkRequest request;
  v1::GroupReply reply;
  request.set_group(group);
  request.set_timeout_ms(ToMs(timeout_ns));
  const ControlChannel::Ended end =
      Call(*attachment, "/mlxcomm.v1.Control/Shrink", request, timeout_ns, interrupt, reply);
  if (!Ok(end)) {
    return Refused(end, "waiting for the ranks that are left of a group", error);
  }
  return Made(reply, listener, error);
}

int Cancel(mlxcomm_attachment* attachment, std::uint64_t group, std::uint64_t ticket,
           std::uint64_t patience_ns) {
  v1::CancelRequest request;
  request.set_group(group);
  request.set_ticket(ticket);
  return attachment->channel.Notify("/mlxcomm.v1.Control/Cancel", request.SerializeAsString(),
                                    patience_ns)
             ? 1
             : 0;
}

// A daemon that refuses the call, or does not know it, is alive.
int Awaited(mlxcomm_attachment* attachment, std::uint64_t group, std::uint64_t ticket,
            std::uint64_t patience_ns, mlxcomm_interrupt interrupt, char* text,
            std::size_t text_bytes, int* ended) {
  v1::AwaitedRequest request;
  request.set_group(group);
  request.set_ticket(ticket);
  v1::AwaitedReply reply;
  const ControlChannel::Ended end = attachment->channel.Call(
      "/mlxcomm.v1.Control/Awaited", request.SerializeAsString(), patience_ns, interrupt);
  if (!Ok(end) || !reply.ParseFromString(end.reply)) reply.Clear();
  const bool is_circle = !reply.circle().empty();
  std::snprintf(text, text_bytes, "%s", (is_circle ? reply.circle() : reply.text()).c_str());
  *ended = is_circle ? MLXCOMM_AWAITED_CIRCLE : reply.ended();
  return end.status == ControlChannel::Status::kDeadlineExceeded && !end.interrupted ? 0 : 1;
}

// The results of these do not matter: a daemon that is gone, or that has ended the group, has
// forgotten this rank already.
void Release(mlxcomm_attachment* attachment, std::uint64_t group) {
  v1::ReleaseRequest request;
  request.set_group(group);
  attachment->channel.Call("/mlxcomm.v1.Control/Release", request.SerializeAsString(),
                           kLeavePatienceNs, kUninterrupted);
}

void Detach(mlxcomm_attachment* attachment, const char* why) {
  v1::DetachRequest request;
  if (why != nullptr) request.set_why(why);
  attachment->channel.Call("/mlxcomm.v1.Control/Detach", request.SerializeAsString(),
                           kLeavePatienceNs, kUninterrupted);
}

void Close(mlxcomm_attachment* attachment) { delete attachment; }

}  // namespace

// The name is the symbol's, as in C. NOLINTBEGIN(readability-identifier-naming)
extern "C" __attribute__((visibility("default")))
const mlxcomm_attach_table mlxcomm_attach_table_v5;
const mlxcomm_attach_table mlxcomm_attach_table_v5 = {Open,    Attach,  Split,  Shrink, Cancel,
                                                      Awaited, Release, Detach, Close};
// NOLINTEND(readability-identifier-naming)
