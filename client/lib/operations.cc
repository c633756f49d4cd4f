#include "client/lib/operations.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "client/lib/answer.h"
#include "proto/types/operation_shape.h"

namespace mlxcomm::client {
namespace {

// Tickets of groups of one rank, which no connection knows.
constexpr std::uint64_t kLocalTicket = std::uint64_t{1} << 63;
constexpr std::uint64_t kTimeoutNsMax = std::uint64_t{1} << 62;

Failure CheckTypes(const Request& request) {
  const auto type = static_cast<DataType>(request.type);
  if (static_cast<unsigned>(request.type) > 255 || !IsValid(type)) {
    return Invalid("type " + std::to_string(request.type) + ": expected one of mlxcomm_data_type");
  }
  if (!Reduces(request.kind)) return {};
  if (!IsValid(request.op) || request.op == ReduceOperator::kNone) {
    return Invalid("op " + std::to_string(static_cast<int>(request.op)) +
                   ": expected one of mlxcomm_operator");
  }
  if (HasMeaning(type, request.op)) return {};
  return Invalid(std::string("op ") + ReduceOperatorName(request.op) + ": has no meaning for " +
                 DataTypeName(type) + " (mean: floats and complex; and, or: bool and integers)");
}

Failure CheckPeer(const mlxcomm_group& group, const Request& request) {
  const std::string size = std::to_string(group.size());
  if (HasRoot(request.kind) && request.peer >= group.size()) {
    return Invalid("root " + std::to_string(request.peer) + ": expected a rank below " + size);
  }
  if (!IsPointToPoint(request.kind)) return {};
  const char* const name = request.kind == OperationKind::kSend ? "destination " : "source ";
  if (group.alone()) {
    return Invalid(name + std::to_string(request.peer) +
                   ": expected another rank, and the group has one alone");
  }
  if (request.peer < group.size() && request.peer != group.rank()) return {};
  return Invalid(name + std::to_string(request.peer) + ": expected another rank than " +
                 std::to_string(group.rank()) + ", below " + size);
}

// The table as the daemon reads it.
Failure ReadCounts(const mlxcomm_group& group, const Request& request,
                   std::vector<std::uint64_t>& counts) {
  if (!HasCounts(request.kind)) return {};
  const bool both = request.kind == OperationKind::kAllToAllV;
  if (request.counts == nullptr || (both && request.receive_counts == nullptr)) {
    return Invalid(std::string(both ? "send_counts and receive_counts" : "counts") +
                   ": expected a table of " + std::to_string(group.size()) + " entries, got NULL");
  }
  counts.assign(request.counts, request.counts + group.size());
  if (!both) return {};
  counts.insert(counts.end(), request.receive_counts, request.receive_counts + group.size());
  const std::uint64_t sent = counts[group.rank()];
  const std::uint64_t received = counts[group.size() + group.rank()];
  if (sent == received) return {};
  return Invalid("send_counts[" + std::to_string(group.rank()) + "] is " + std::to_string(sent) +
                 ", receive_counts of the same is " + std::to_string(received) +
                 ": expected the same, for a rank receives what it sends itself");
}

Failure CheckBuffer(const mlxcomm_group& group, const char* name, const void* data,
                    std::uint64_t elements, std::uint64_t element_bytes) {
  if (elements == 0) return {};
  Connection& session = *group.connection->session;
  const std::uint64_t most = session.arena().total_bytes();
  if (elements > most / element_bytes) {
    return Invalid(std::string(name) + ": " + std::to_string(elements) + " elements of " +
                   std::to_string(element_bytes) + " bytes are more than the arena's " +
                   std::to_string(most) + " bytes (arena_bytes)");
  }
  if (data == nullptr) {
    return Invalid(std::string(name) + ": expected " + std::to_string(elements) +
                   " elements, got NULL");
  }
  if (!session.Contains(data, elements * element_bytes)) {
    return Invalid(std::string(name) +
                   ": expected memory of this connection's arena (mlxcomm_buffer_allocate)");
  }
  if (reinterpret_cast<std::uintptr_t>(data) % element_bytes != 0) {
    return Invalid(std::string(name) + ": expected alignment to its elements of " +
                   std::to_string(element_bytes) + " bytes");
  }
  return {};
}

Failure CheckOverlap(const Request& request, Connection::Extent extent) {
  const auto* const in = static_cast<const std::byte*>(request.input);
  const auto* const out = static_cast<const std::byte*>(request.output);
  if (extent.input_bytes == 0 || extent.output_bytes == 0) return {};
  if (in >= out + extent.output_bytes || out >= in + extent.input_bytes) return {};
  if (!MayBeInPlace(request.kind)) {
    return Invalid(std::string("output: overlaps the input, which ") +
                   OperationKindName(request.kind) + " does not allow");
  }
  if (in == out) return {};
  return Invalid("output: overlaps the input; expected the same place or another one");
}

// Everything that can be said about a request before it is submitted.
Failure CheckRequest(const mlxcomm_group& group, const Request& request,
                     std::vector<std::uint64_t>& counts, OperationShape& shape,
                     Connection::Extent& extent) {
  if (Failure failure = CheckTypes(request); !failure.ok()) return failure;
  if (Failure failure = CheckPeer(group, request); !failure.ok()) return failure;
  if (Failure failure = ReadCounts(group, request, counts); !failure.ok()) return failure;
  const ShapeRequest asked{request.kind, request.count, group.rank(),
                           group.size(), request.peer,  counts};
  if (!ShapeOf(asked, shape)) {
    return Invalid(std::string(HasCounts(request.kind) ? "counts" : "count") + ": expected up to " +
                   std::to_string(kElementsMax) + " elements in all");
  }
  const std::uint64_t bytes = DataTypeBytes(static_cast<DataType>(request.type));
  Failure failure = CheckBuffer(group, "input", request.input, shape.input_elements, bytes);
  if (failure.ok()) {
    failure = CheckBuffer(group, "output", request.output, shape.output_elements, bytes);
  }
  if (!failure.ok()) return failure;
  extent = {shape.input_elements * bytes, shape.output_elements * bytes};
  return CheckOverlap(request, extent);
}

}  // namespace

Failure Begin(mlxcomm_group& group, const Request& request, std::uint64_t& ticket) {
  if (Failure failure = Latched(group); !failure.ok()) return failure;
  std::vector<std::uint64_t> counts;
  OperationShape shape;
  Connection::Extent extent;
  if (Failure failure = CheckRequest(group, request, counts, shape, extent); !failure.ok()) {
    return failure;
  }
  Connection& session = *group.connection->session;
  queue::SubmissionEntry entry{};
  entry.group = group.facts.id;
  if (extent.input_bytes > 0) entry.input_offset = session.OffsetOf(request.input);
  if (extent.output_bytes > 0) entry.output_offset = session.OffsetOf(request.output);
  entry.count = request.count;
  entry.timeout_ns = request.timeout_ns == 0 ? group.timeout_ns.load() : request.timeout_ns;
  entry.peer_rank = request.peer;
  entry.tag = request.tag;
  entry.kind = request.kind;
  entry.data_type = static_cast<DataType>(request.type);
  entry.reduce_operator = request.op;
  entry.plan = group.plan.load();
  if (group.alone()) {
    if (Failure failure = session.CopyAlone(entry, extent); !failure.ok()) return failure;
    const std::lock_guard lock(group.mutex);
    ticket = kLocalTicket | group.local_tickets_end++;
    return {};
  }
  const std::uint64_t timeout_ns =
      entry.timeout_ns == 0 ? group.facts.timeout_default_ns : entry.timeout_ns;
  Failure failure = session.Submit(entry, extent, counts, std::min(timeout_ns, kTimeoutNsMax),
                                   ticket);  // 0: without one.
  if (failure.code == FailureCode::kDaemonLost) Latch(group, failure);
  return failure;
}

namespace {

// Of a group of one rank: it had ended before its ticket was given out.
bool HasEndedAlone(const mlxcomm_group& group, std::uint64_t ticket) {
  if ((ticket & kLocalTicket) == 0) return false;
  const std::lock_guard lock(group.mutex);
  return (ticket & ~kLocalTicket) < group.local_tickets_end;
}

Failure Settled(mlxcomm_group& group, const Connection::Outcome& outcome) {
  if (outcome.group_failed) Latch(group, outcome.failure);
  return outcome.failure;
}

mlxcomm_code Submit(mlxcomm_group* group, const Request& request, std::uint64_t* ticket,
                    mlxcomm_error* error) {
  return Guarded(error, [&] {
    if (Failure failure = CheckUsable(group); !failure.ok()) return Tell(failure, error);
    if (ticket == nullptr) return Tell(Invalid("ticket: expected a pointer, got NULL"), error);
    return Tell(Begin(*group, request, *ticket), error);
  });
}

// kNone, which a user cannot ask for, where it is none.
ReduceOperator OperatorOf(mlxcomm_operator op) {
  return static_cast<unsigned>(op) > 255 ? ReduceOperator::kNone : static_cast<ReduceOperator>(op);
}

}  // namespace

Failure Finish(mlxcomm_group& group, std::uint64_t ticket) {
  if (HasEndedAlone(group, ticket)) return {};
  return Settled(group, group.connection->session->Wait(group.facts.id, ticket));
}

}  // namespace mlxcomm::client

using mlxcomm::Failure;
using mlxcomm::OperationKind;
using mlxcomm::client::CheckUsable;
using mlxcomm::client::Guarded;
using mlxcomm::client::OperatorOf;
using mlxcomm::client::Submit;
using mlxcomm::client::Tell;

extern "C" {

MLXCOMM_API mlxcomm_code mlxcomm_all_reduce(mlxcomm_group* group, const void* input, void* output,
                                            uint64_t count, mlxcomm_data_type type,
                                            mlxcomm_operator op, uint64_t timeout_ns,
                                            uint64_t* ticket, mlxcomm_error* error) {
  return Submit(group,
                {.kind = OperationKind::kAllReduce,
                 .input = input,
                 .output = output,
                 .count = count,
                 .type = type,
                 .op = OperatorOf(op),
                 .timeout_ns = timeout_ns},
                ticket, error);
}

MLXCOMM_API mlxcomm_code mlxcomm_reduce(mlxcomm_group* group, const void* input, void* output,
                                        uint64_t count, mlxcomm_data_type type, mlxcomm_operator op,
                                        uint32_t root, uint64_t timeout_ns, uint64_t* ticket,
                                        mlxcomm_error* error) {
  return Submit(group,
                {.kind = OperationKind::kReduce,
                 .input = input,
                 .output = output,
                 .count = count,
                 .type = type,
                 .op = OperatorOf(op),
                 .peer = root,
                 .timeout_ns = timeout_ns},
                ticket, error);
}

MLXCOMM_API mlxcomm_code mlxcomm_reduce_scatter(mlxcomm_group* group, const void* input,
                                                void* output, uint64_t count,
                                                mlxcomm_data_type type, mlxcomm_operator op,
                                                uint64_t timeout_ns, uint64_t* ticket,
                                                mlxcomm_error* error) {
  return Submit(group,
                {.kind = OperationKind::kReduceScatter,
                 .input = input,
                 .output = output,
                 .count = count,
                 .type = type,
                 .op = OperatorOf(op),
                 .timeout_ns = timeout_ns},
                ticket, error);
}

MLXCOMM_API mlxcomm_code mlxcomm_broadcast(mlxcomm_group* group, const void* input, void* output,
                                           uint64_t count, mlxcomm_data_type type, uint32_t root,
                                           uint64_t timeout_ns, uint64_t* ticket,
                                           mlxcomm_error* error) {
  return Submit(group,
                {.kind = OperationKind::kBroadcast,
                 .input = input,
                 .output = output,
                 .count = count,
                 .type = type,
                 .peer = root,
                 .timeout_ns = timeout_ns},
                ticket, error);
}

MLXCOMM_API mlxcomm_code mlxcomm_all_gather(mlxcomm_group* group, const void* input, void* output,
                                            uint64_t count, mlxcomm_data_type type,
                                            uint64_t timeout_ns, uint64_t* ticket,
                                            mlxcomm_error* error) {
  return Submit(group,
                {.kind = OperationKind::kAllGather,
                 .input = input,
                 .output = output,
                 .count = count,
                 .type = type,
                 .timeout_ns = timeout_ns},
                ticket, error);
}

MLXCOMM_API mlxcomm_code mlxcomm_all_gather_v(mlxcomm_group* group, const void* input, void* output,
                                              const uint64_t* counts, mlxcomm_data_type type,
                                              uint64_t timeout_ns, uint64_t* ticket,
                                              mlxcomm_error* error) {
  return Submit(group,
                {.kind = OperationKind::kAllGatherV,
                 .input = input,
                 .output = output,
                 .type = type,
                 .timeout_ns = timeout_ns,
                 .counts = counts},
                ticket, error);
}

MLXCOMM_API mlxcomm_code mlxcomm_gather(mlxcomm_group* group, const void* input, void* output,
                                        uint64_t count, mlxcomm_data_type type, uint32_t root,
                                        uint64_t timeout_ns, uint64_t* ticket,
                                        mlxcomm_error* error) {
  return Submit(group,
                {.kind = OperationKind::kGather,
                 .input = input,
                 .output = output,
                 .count = count,
                 .type = type,
                 .peer = root,
                 .timeout_ns = timeout_ns},
                ticket, error);
}

MLXCOMM_API mlxcomm_code mlxcomm_scatter(mlxcomm_group* group, const void* input, void* output,
                                         uint64_t count, mlxcomm_data_type type, uint32_t root,
                                         uint64_t timeout_ns, uint64_t* ticket,
                                         mlxcomm_error* error) {
  return Submit(group,
                {.kind = OperationKind::kScatter,
                 .input = input,
                 .output = output,
                 .count = count,
                 .type = type,
                 .peer = root,
                 .timeout_ns = timeout_ns},
                ticket, error);
}

MLXCOMM_API mlxcomm_code mlxcomm_all_to_all(mlxcomm_group* group, const void* input, void* output,
                                            uint64_t count, mlxcomm_data_type type,
                                            uint64_t timeout_ns, uint64_t* ticket,
                                            mlxcomm_error* error) {
  return Submit(group,
                {.kind = OperationKind::kAllToAll,
                 .input = input,
                 .output = output,
                 .count = count,
                 .type = type,
                 .timeout_ns = timeout_ns},
                ticket, error);
}

MLXCOMM_API mlxcomm_code mlxcomm_all_to_all_v(mlxcomm_group* group, const void* input, void* output,
                                              const uint64_t* send_counts,
                                              const uint64_t* receive_counts,
                                              mlxcomm_data_type type, uint64_t timeout_ns,
                                              uint64_t* ticket, mlxcomm_error* error) {
  return Submit(group,
                {.kind = OperationKind::kAllToAllV,
                 .input = input,
                 .output = output,
                 .type = type,
                 .timeout_ns = timeout_ns,
                 .counts = send_counts,
                 .receive_counts = receive_counts},
                ticket, error);
}

MLXCOMM_API mlxcomm_code mlxcomm_send(mlxcomm_group* group, const void* input, uint64_t count,
                                      mlxcomm_data_type type, uint32_t destination, uint32_t tag,
                                      uint64_t timeout_ns, uint64_t* ticket, mlxcomm_error* error) {
  return Submit(group,
                {.kind = OperationKind::kSend,
                 .input = input,
                 .count = count,
                 .type = type,
                 .peer = destination,
                 .tag = tag,
                 .timeout_ns = timeout_ns},
                ticket, error);
}

MLXCOMM_API mlxcomm_code mlxcomm_recv(mlxcomm_group* group, void* output, uint64_t count,
                                      mlxcomm_data_type type, uint32_t source, uint32_t tag,
                                      uint64_t timeout_ns, uint64_t* ticket, mlxcomm_error* error) {
  return Submit(group,
                {.kind = OperationKind::kReceive,
                 .output = output,
                 .count = count,
                 .type = type,
                 .peer = source,
                 .tag = tag,
                 .timeout_ns = timeout_ns},
                ticket, error);
}

MLXCOMM_API mlxcomm_code mlxcomm_barrier(mlxcomm_group* group, uint64_t timeout_ns,
                                         uint64_t* ticket, mlxcomm_error* error) {
  return Submit(group, {.kind = OperationKind::kBarrier, .timeout_ns = timeout_ns}, ticket, error);
}

MLXCOMM_API mlxcomm_code mlxcomm_wait(mlxcomm_group* group, uint64_t ticket, mlxcomm_error* error) {
  return Guarded(error, [&] {
    if (Failure failure = CheckUsable(group); !failure.ok()) return Tell(failure, error);
    return Tell(mlxcomm::client::Finish(*group, ticket), error);
  });
}

MLXCOMM_API mlxcomm_code mlxcomm_test(mlxcomm_group* group, uint64_t ticket, int* done,
                                      mlxcomm_error* error) {
  return Guarded(error, [&] {
    if (Failure failure = CheckUsable(group); !failure.ok()) return Tell(failure, error);
    if (done == nullptr) {
      return Tell(mlxcomm::client::Invalid("done: expected a pointer, got NULL"), error);
    }
    *done = 1;
    if (mlxcomm::client::HasEndedAlone(*group, ticket)) return Tell({}, error);
    const auto outcome = group->connection->session->Test(group->facts.id, ticket);
    if (outcome.has_value()) return Tell(mlxcomm::client::Settled(*group, *outcome), error);
    *done = 0;
    return Tell({}, error);
  });
}

MLXCOMM_API mlxcomm_code mlxcomm_cancel(mlxcomm_group* group, uint64_t ticket, uint64_t timeout_ns,
                                        mlxcomm_error* error) {
  return Guarded(error, [&] {
    if (Failure failure = CheckUsable(group); !failure.ok()) return Tell(failure, error);
    if (mlxcomm::client::HasEndedAlone(*group, ticket)) return Tell({}, error);
    const auto outcome = group->connection->session->Cancel(group->facts.id, ticket, timeout_ns);
    return Tell(mlxcomm::client::Settled(*group, outcome), error);
  });
}

}  // extern "C"
