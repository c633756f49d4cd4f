// Every operation on one path, from the caller's arguments to its end. proto/types/operation.h
// defines what each kind takes, reads and writes; this checks it.
#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/lib/answer.h"
#include "client/lib/handles.h"
#include "client/lib/mlxcomm.h"
#include "proto/types/operation_shape.h"

namespace mlxcomm::client {
namespace {

// Tickets of groups of one rank, which Calls does not know.
constexpr std::uint64_t kLocalTicket = std::uint64_t{1} << 63;
constexpr std::uint64_t kTimeoutNsMax = std::uint64_t{1} << 62;
constexpr std::uint32_t kCheckMax = 0xffffff;

// Converts a C program's number. A number that does not fit becomes one that no table has.
template <typename Value>
constexpr Value NumberAs(unsigned number) {
  return static_cast<Value>(number > 255 ? 255 : number);
}
static_assert(!IsValid(static_cast<OperationKind>(255)) && !IsValid(static_cast<DataType>(255)) &&
              !IsValid(static_cast<ReduceOperator>(255)));

Refusal CheckTypes(const Request& request, queue::SubmissionEntry& entry) {
  entry.kind = NumberAs<OperationKind>(request.kind);
  if (!IsValid(entry.kind)) {
    return Invalid(WhyWrong("kind", "one of mlxcomm_kind", std::to_string(request.kind)));
  }
  // A barrier has no type.
  entry.data_type = IsEmpty(entry.kind) ? DataType::kFloat32 : NumberAs<DataType>(request.type);
  if (!IsValid(entry.data_type)) {
    return Invalid(WhyWrong("type", "one of mlxcomm_data_type", std::to_string(request.type)));
  }
  if (!Reduces(entry.kind)) return std::nullopt;
  entry.reduce_operator = NumberAs<ReduceOperator>(request.op);
  if (!IsValid(entry.reduce_operator) || entry.reduce_operator == ReduceOperator::kNone) {
    return Invalid(WhyWrong("op", "one of mlxcomm_operator", std::to_string(request.op)));
  }
  if (HasMeaning(entry.data_type, entry.reduce_operator)) return std::nullopt;
  return Invalid(WhyMeaningless(entry.reduce_operator, entry.data_type));
}

Refusal ReadCounts(const mlxcomm_group& group, OperationKind kind, const Request& request,
                   std::vector<std::uint64_t>& counts) {
  if (!HasCounts(kind)) return std::nullopt;
  const bool both = CountsPerRank(kind) == 2;
  if (request.counts == nullptr || (both && request.receive_counts == nullptr)) {
    return Invalid(std::string(both ? "send_counts and receive_counts" : "counts") +
                   ": expected a table of " + std::to_string(group.size()) + " entries, got NULL");
  }
  counts.assign(request.counts, request.counts + group.size());
  if (!both) return std::nullopt;
  counts.insert(counts.end(), request.receive_counts, request.receive_counts + group.size());
  const std::uint64_t sent = counts[group.rank()];
  const std::uint64_t received = counts[group.size() + group.rank()];
  if (sent == received) return std::nullopt;
  const std::string at = "[" + std::to_string(group.rank()) + "]";
  return Invalid(
      WhyWrong("receive_counts" + at,
               std::to_string(sent) + " as in send_counts" + at + ", what this rank keeps",
               std::to_string(received)));
}

Refusal CheckBuffer(const mlxcomm_group& group, const char* name, const void* data,
                    std::uint64_t elements, std::uint64_t element_bytes) {
  if (elements == 0) return std::nullopt;
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
  return std::nullopt;
}

Refusal CheckOverlap(const Request& request, const Submission& call) {
  const auto* const in = static_cast<const std::byte*>(request.input);
  const auto* const out = static_cast<const std::byte*>(request.output);
  if (call.input_bytes == 0 || call.output_bytes == 0) return std::nullopt;
  if (in >= out + call.output_bytes || out >= in + call.input_bytes) return std::nullopt;
  if (!MayBeInPlace(call.entry.kind)) {
    return Invalid(std::string("output: overlaps the input, which ") +
                   OperationKindName(call.entry.kind) + " does not allow");
  }
  if (in == out) return std::nullopt;
  return Invalid("output: overlaps the input; expected the same place or another one");
}

Refusal CheckRequest(const mlxcomm_group& group, const Request& request, Submission& call) {
  queue::SubmissionEntry& entry = call.entry;
  if (Refusal refusal = CheckTypes(request, entry)) return refusal;
  std::string wrong = WhyWrongPeer(entry.kind, request.peer, group.rank(), group.size());
  if (!wrong.empty()) return Invalid(std::move(wrong));
  if (Refusal refusal = ReadCounts(group, entry.kind, request, call.counts)) return refusal;
  entry.count = HasCounts(entry.kind) || IsEmpty(entry.kind) ? 0 : request.count;
  OperationShape shape;
  if (!ShapeOf({entry.kind, entry.count, call.rank, call.size, request.peer, call.counts}, shape)) {
    return Invalid(std::string(HasCounts(entry.kind) ? "counts" : "count") + ": expected up to " +
                   std::to_string(kElementsMax) + " elements in all");
  }
  const std::uint64_t bytes = DataTypeBytes(entry.data_type);
  if (Refusal refusal = CheckBuffer(group, "input", request.input, shape.input_elements, bytes)) {
    return refusal;
  }
  if (Refusal refusal =
          CheckBuffer(group, "output", request.output, shape.output_elements, bytes)) {
    return refusal;
  }
  call.input_bytes = shape.input_elements * bytes;
  call.output_bytes = shape.output_elements * bytes;
  return CheckOverlap(request, call);
}

Refusal Prepare(const mlxcomm_group& group, const Request& request, Submission& call) {
  if (HasFailed(group)) return Latched(group);
  call.rank = group.rank();
  call.size = group.size();
  if (Refusal refusal = CheckRequest(group, request, call)) return refusal;
  const Connection& session = *group.connection->session;
  queue::SubmissionEntry& entry = call.entry;
  entry.group = group.facts.id;
  if (call.input_bytes > 0) entry.input_offset = session.OffsetOf(request.input);
  if (call.output_bytes > 0) entry.output_offset = session.OffsetOf(request.output);
  entry.timeout_ns = request.timeout_ns == 0 ? group.timeout_ns.load() : request.timeout_ns;
  const bool to_peer = IsPointToPoint(entry.kind);
  entry.peer_rank = to_peer || HasRoot(entry.kind) ? request.peer : 0;
  entry.tag = to_peer ? request.tag : 0;
  entry.plan = group.plan.load();
  if (!to_peer) entry.set_check_word(request.check & kCheckMax);
  const std::uint64_t timeout_ns =
      entry.timeout_ns == 0 ? group.facts.timeout_default_ns : entry.timeout_ns;
  call.timeout_ns = std::min(timeout_ns, kTimeoutNsMax);
  return std::nullopt;
}

// True for a group of one rank, whose operations end before their tickets are given out.
bool HasEndedAlone(const mlxcomm_group& group, std::uint64_t ticket) {
  if ((ticket & kLocalTicket) == 0) return false;
  const std::lock_guard lock(group.mutex);
  return (ticket & ~kLocalTicket) < group.local_tickets_end;
}

Calls& CallsOf(const mlxcomm_group& group) { return group.connection->session->calls(); }

Failure Settled(mlxcomm_group& group, Outcome outcome) {
  if (outcome.group_failed) Latch(group, outcome.failure);
  return std::move(outcome.failure);
}

// nullopt if it has been carried out.
Refusal CarryOut(mlxcomm_group& group, const Request& request) {
  Submission call;
  if (Refusal refusal = Prepare(group, request, call)) return refusal;
  if (group.alone()) return CallsOf(group).CopyAlone(call);
  std::optional<Outcome> outcome = CallsOf(group).CarryOut(call);
  if (!outcome.has_value()) return std::nullopt;
  return Settled(group, *std::move(outcome));
}

mlxcomm_code Submit(mlxcomm_group* group, const Request& request, std::uint64_t* ticket,
                    mlxcomm_error* error) {
  return Guarded(error, [&] {
    if (Refusal refusal = CheckUsable(group)) return Report(*refusal, error);
    if (ticket != nullptr) return Report(Begin(*group, request, *ticket), error);
    const Refusal refusal = CarryOut(*group, request);
    return refusal.has_value() ? Report(*refusal, error) : ReportSuccess(error);
  });
}

// Up to this size, between two nodes with a rank on each, data is combined into the output as it
// arrives (daemon/collective/plans/plans.h, ExchangeAllReduce). In place, it would have to wait in
// other memory until the input has been sent.
constexpr std::uint64_t kCombinedAsItComesMax = 1024 * 1024;

}  // namespace

Failure Begin(mlxcomm_group& group, const Request& request, std::uint64_t& ticket) {
  Submission call;
  if (Refusal refusal = Prepare(group, request, call)) return *std::move(refusal);
  Refusal refusal = group.alone() ? CallsOf(group).CopyAlone(call)
                                  : CallsOf(group).Submit(call, /*waits=*/false, ticket);
  if (refusal.has_value()) {
    if (refusal->code == FailureCode::kDaemonLost) Latch(group, *refusal);
    return *std::move(refusal);
  }
  if (!group.alone()) return {};
  const std::lock_guard lock(group.mutex);
  ticket = kLocalTicket | group.local_tickets_end++;
  return {};
}

Failure Finish(mlxcomm_group& group, std::uint64_t ticket) {
  if (HasEndedAlone(group, ticket)) return {};
  return Settled(group, CallsOf(group).Wait(group.facts.id, ticket));
}

extern "C" {

MLXCOMM_API mlxcomm_code mlxcomm_submit(mlxcomm_group* group, const mlxcomm_request* request,
                                        uint64_t* ticket, mlxcomm_error* error) {
  return Guarded(error, [&] {
    if (request == nullptr || request->struct_size != sizeof *request) {
      return Report(Invalid("request: expected one whose struct_size is sizeof(mlxcomm_request), " +
                            std::to_string(sizeof *request)),
                    error);
    }
    return Submit(group, *request, ticket, error);
  });
}

MLXCOMM_API const char* mlxcomm_kind_name(mlxcomm_kind kind) {
  const auto* const row = kOperations.Find(NumberAs<OperationKind>(kind));
  return row == nullptr ? nullptr : row->name;
}

MLXCOMM_API int mlxcomm_prefers_in_place(const mlxcomm_group* group, mlxcomm_kind kind,
                                         uint64_t bytes) {
  if (!MayBeInPlace(NumberAs<OperationKind>(kind))) return 0;
  if (kind != MLXCOMM_ALL_REDUCE || bytes > kCombinedAsItComesMax) return 1;
  const auto& members = group->facts.members;
  return group->size() != 2 || members[0].node == members[1].node ? 1 : 0;
}

MLXCOMM_API mlxcomm_code mlxcomm_wait(mlxcomm_group* group, uint64_t ticket, mlxcomm_error* error) {
  return Guarded(error, [&] {
    if (Refusal refusal = CheckUsable(group)) return Report(*refusal, error);
    return Report(Finish(*group, ticket), error);
  });
}

MLXCOMM_API void mlxcomm_go_on(mlxcomm_group* group, uint64_t ticket) {
  if (CheckUsable(group).has_value() || group->alone()) return;
  CallsOf(*group).GoOn(group->facts.id, ticket);
}

MLXCOMM_API mlxcomm_code mlxcomm_test(mlxcomm_group* group, uint64_t ticket, int* done,
                                      mlxcomm_error* error) {
  return Guarded(error, [&] {
    if (Refusal refusal = CheckUsable(group)) return Report(*refusal, error);
    if (done == nullptr) {
      return Report(Invalid("done: expected a pointer, got NULL"), error);
    }
    *done = 1;
    if (HasEndedAlone(*group, ticket)) return ReportSuccess(error);
    const auto outcome = CallsOf(*group).Test(group->facts.id, ticket);
    if (outcome.has_value()) return Report(Settled(*group, *outcome), error);
    *done = 0;
    return ReportSuccess(error);
  });
}

MLXCOMM_API mlxcomm_code mlxcomm_cancel(mlxcomm_group* group, uint64_t ticket, uint64_t timeout_ns,
                                        mlxcomm_error* error) {
  return Guarded(error, [&] {
    if (Refusal refusal = CheckUsable(group)) return Report(*refusal, error);
    if (HasEndedAlone(*group, ticket)) return ReportSuccess(error);
    const auto outcome = CallsOf(*group).Cancel(group->facts.id, ticket, timeout_ns);
    return Report(Settled(*group, outcome), error);
  });
}

}  // extern "C"
}  // namespace mlxcomm::client
