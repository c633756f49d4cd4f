// libmlxcomm_attach: the calls of control.proto, behind attach_table.h. No other part of the client
// library knows protobuf and HTTP/2.
#include <algorithm>
#include <cstdio>
#include <string>

#include "client/lib/attach_table.h"
#include "client/lib/control_channel.h"
#include "mlxcomm/v1/control.pb.h"

struct mlxcomm_attachment {
  mlxcomm::client::ControlChannel channel;
};

namespace {

namespace v1 = mlxcomm::v1;
using mlxcomm::Failure;
using mlxcomm::FailureCode;
using mlxcomm::kNoRank;
using mlxcomm::client::ControlChannel;
using mlxcomm::client::GroupFacts;

// The daemon's own deadline comes first; this one is for a daemon that does not answer.
constexpr std::uint64_t kDeadlineMarginNs = 10'000'000'000;
constexpr std::uint64_t kLongestWaitNs = 90'000'000'000'000;
constexpr std::uint64_t kLeavePatienceNs = 1'000'000'000;
constexpr mlxcomm_interrupt kUninterrupted = {nullptr, nullptr};

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

// Why a call was not carried out; `doing` is its purpose.
Failure Refused(const ControlChannel::Ended& end, const std::string& doing) {
  if (end.interrupted) return {FailureCode::kCancelled, kNoRank, "interrupted while " + doing};
  v1::Refusal refusal;
  if (!end.details.empty() && refusal.ParseFromString(end.details) && refusal.code() != 0 &&
      refusal.code() <= static_cast<std::uint32_t>(FailureCode::kInternal)) {
    return {static_cast<FailureCode>(refusal.code()), refusal.rank(), refusal.message()};
  }
  switch (end.status) {
    case ControlChannel::Status::kUnimplemented:
      return {FailureCode::kUnavailable, kNoRank,
              "the daemon is an older one and cannot do this: " + doing +
                  ". Install the same release of both"};
    case ControlChannel::Status::kDeadlineExceeded:
      return {FailureCode::kDaemonLost, kNoRank, "the daemon does not answer, while " + doing};
    case ControlChannel::Status::kInternal:
      return {FailureCode::kInternal, kNoRank,
              "the daemon's answer could not be read, while " + doing +
                  ": install the same release of both"};
    default:
      return {FailureCode::kDaemonLost, kNoRank,
              "the daemon ended while " + doing + ": connect again once it is back"};
  }
}

template <typename Reply>
Failure Made(const Reply& reply, GroupFacts& facts) {
  facts.id = reply.group();
  facts.name = reply.name();
  for (const v1::Member& member : reply.members()) {
    if (member.rank() != facts.members.size()) {
      return {FailureCode::kInternal, kNoRank,
              "the daemon listed a group's ranks out of order: install the same release of both"};
    }
    facts.members.push_back({member.node(), member.pid()});
  }
  return {};
}

Failure Attach(mlxcomm_attachment& attachment, const mlxcomm::client::JoinCall& call,
               mlxcomm_interrupt interrupt, GroupFacts& facts) {
  v1::AttachRequest request;
  v1::AttachReply reply;
  request.set_job(call.job);
  request.set_rank(call.rank);
  request.set_size(call.size);
  request.set_timeout_ms(ToMs(call.timeout_ns));
  request.set_program(call.program);
  request.set_named_by(call.named_by);
  const ControlChannel::Ended end =
      Call(attachment, "/mlxcomm.v1.Control/Attach", request, call.timeout_ns, interrupt, reply);
  if (!Ok(end)) return Refused(end, "waiting for the other ranks of the job");
  if (reply.name().empty()) reply.set_name(call.job);
  facts.rank = call.rank;
  facts.timeout_default_ns = reply.timeout_default_ms() * 1'000'000;
  return Made(reply, facts);
}

Failure Split(mlxcomm_attachment& attachment, const mlxcomm::client::SplitCall& call,
              mlxcomm_interrupt interrupt, GroupFacts& facts) {
  v1::SplitRequest request;
  v1::GroupReply reply;
  request.set_parent(call.parent);
  request.set_number(call.number);
  request.mutable_ranks()->Add(call.ranks.begin(), call.ranks.end());
  request.set_name(call.name);
  const ControlChannel::Ended end =
      Call(attachment, "/mlxcomm.v1.Control/Split", request, call.timeout_ns, interrupt, reply);
  if (!Ok(end)) return Refused(end, "splitting a group");
  facts.rank = reply.rank();
  return Made(reply, facts);
}

Failure Shrink(mlxcomm_attachment& attachment, std::uint64_t group, std::uint64_t timeout_ns,
               mlxcomm_interrupt interrupt, GroupFacts& facts) {
  v1::ShrinkRequest request;
  v1::GroupReply reply;
  request.set_group(group);
  request.set_timeout_ms(ToMs(timeout_ns));
  const ControlChannel::Ended end =
      Call(attachment, "/mlxcomm.v1.Control/Shrink", request, timeout_ns, interrupt, reply);
  if (!Ok(end)) return Refused(end, "waiting for the remaining ranks of a group");
  facts.rank = reply.rank();
  return Made(reply, facts);
}

bool Cancel(mlxcomm_attachment& attachment, std::uint64_t group, std::uint64_t ticket,
            std::uint64_t patience_ns) {
  v1::CancelRequest request;
  request.set_group(group);
  request.set_ticket(ticket);
  return attachment.channel.Notify("/mlxcomm.v1.Control/Cancel", request.SerializeAsString(),
                                   patience_ns);
}

// A daemon that refuses the call, or does not know it, is alive.
bool Awaited(mlxcomm_attachment& attachment, std::uint64_t group, std::uint64_t ticket,
             std::uint64_t patience_ns, mlxcomm_interrupt interrupt, std::span<char> text,
             int& ended) {
  v1::AwaitedRequest request;
  request.set_group(group);
  request.set_ticket(ticket);
  v1::AwaitedReply reply;
  const ControlChannel::Ended end = attachment.channel.Call(
      "/mlxcomm.v1.Control/Awaited", request.SerializeAsString(), patience_ns, interrupt);
  if (!Ok(end) || !reply.ParseFromString(end.reply)) reply.Clear();
  const bool is_circle = !reply.circle().empty();
  const std::string& shown = is_circle ? reply.circle() : reply.text();
  std::snprintf(text.data(), text.size(), "%s", shown.c_str());
  ended = is_circle ? mlxcomm::client::kAwaitedCircle : reply.ended();
  return end.status != ControlChannel::Status::kDeadlineExceeded || end.interrupted;
}

// Their results do not matter: a daemon that is gone, or has ended the group, has forgotten this
// rank.
void Release(mlxcomm_attachment& attachment, std::uint64_t group) {
  v1::ReleaseRequest request;
  request.set_group(group);
  attachment.channel.Call("/mlxcomm.v1.Control/Release", request.SerializeAsString(),
                          kLeavePatienceNs, kUninterrupted);
}

void Detach(mlxcomm_attachment& attachment, const char* why) {
  v1::DetachRequest request;
  if (why != nullptr) request.set_why(why);
  attachment.channel.Call("/mlxcomm.v1.Control/Detach", request.SerializeAsString(),
                          kLeavePatienceNs, kUninterrupted);
}

void Close(mlxcomm_attachment* attachment) { delete attachment; }

}  // namespace

// The name is the symbol's, as in C. NOLINTBEGIN(readability-identifier-naming)
extern "C" __attribute__((visibility("default")))
const mlxcomm_attach_table mlxcomm_attach_table_v6;
const mlxcomm_attach_table mlxcomm_attach_table_v6 = {Open,    Attach,  Split,  Shrink, Cancel,
                                                      Awaited, Release, Detach, Close};
// NOLINTEND(readability-identifier-naming)
