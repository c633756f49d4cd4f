// The C interface (mlxcomm.h) over Connection: argument checks, the latched failure
// of a group, and groups of one rank, which need no daemon.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "client/lib/connection.h"
#include "client/lib/mlxcomm.h"
#include "proto/types/operation.h"
#include "proto/types/utf8.h"

using mlxcomm::DataType;
using mlxcomm::Failure;
using mlxcomm::FailureCode;
using mlxcomm::kNoRank;
using mlxcomm::OperationKind;
using mlxcomm::ReduceOperator;
using mlxcomm::client::Connection;

static_assert(MLXCOMM_INTERNAL == static_cast<int>(FailureCode::kInternal));
static_assert(MLXCOMM_RANK_LOST == static_cast<int>(FailureCode::kRankLost));
static_assert(MLXCOMM_CANCELLED == static_cast<int>(FailureCode::kCancelled));
static_assert(MLXCOMM_INT32 == static_cast<int>(DataType::kInt32));
static_assert(MLXCOMM_BFLOAT16 == static_cast<int>(DataType::kBfloat16));
static_assert(MLXCOMM_SUM == static_cast<int>(ReduceOperator::kSum));

struct mlxcomm_connection {
  std::unique_ptr<Connection> session;
  std::atomic<bool> joined = false;
};

struct mlxcomm_group {
  mlxcomm_connection* connection = nullptr;
  std::uint64_t id = 0;
  std::uint32_t rank = 0;
  std::uint32_t size = 1;
  std::uint64_t timeout_default_ns = 0;
  std::uint64_t next_local_ticket = 1;  // Groups of one rank.
  std::mutex mutex;
  Failure failure;  // Latched.
};

namespace {

constexpr std::uint64_t kLocalTicket = std::uint64_t{1} << 63;

// Messages hold names that others chose. mlxcomm.h promises UTF-8, and Python would
// raise another error in place of one that is none.
void CopyText(std::string_view text, char* out, std::size_t capacity) {
  std::size_t used = 0;
  while (!text.empty() && used + 1 < capacity) {
    const std::string_view sound = mlxcomm::Utf8Prefix(text, capacity - 1 - used);
    used += sound.copy(out + used, sound.size());
    text.remove_prefix(sound.size());
    const bool next_is_sound = !mlxcomm::Utf8Prefix(text, 4).empty();
    if (text.empty() || next_is_sound || used + 1 == capacity) break;  // No room, or done.
    out[used++] = '?';
    text.remove_prefix(1);
  }
  out[used] = '\0';
}

mlxcomm_code Tell(const Failure& failure, mlxcomm_error* error) {
  if (error != nullptr) {
    error->code = static_cast<mlxcomm_code>(failure.code);
    error->rank = failure.rank;
    CopyText(failure.message, error->message, sizeof error->message);
  }
  return static_cast<mlxcomm_code>(failure.code);
}

Failure Invalid(std::string message) {
  return {FailureCode::kInvalidArgument, kNoRank, std::move(message)};
}

Failure ForkedAway() {
  return Invalid(
      "this process was forked from the one that connected, and cannot use what that made: start "
      "it by exec instead (Python: multiprocessing's \"spawn\")");
}

Failure Latched(mlxcomm_group& group) {
  const std::lock_guard lock(group.mutex);
  return group.failure;
}

void Latch(mlxcomm_group& group, const Failure& failure) {
  const std::lock_guard lock(group.mutex);
  if (group.failure.ok()) group.failure = failure;
}

struct Request {
  OperationKind kind = OperationKind::kBarrier;
  const void* input = nullptr;
  void* output = nullptr;
  std::uint64_t count = 0;
  mlxcomm_data_type type = MLXCOMM_FLOAT32;
  ReduceOperator op = ReduceOperator::kNone;
  std::uint32_t peer = 0;
  std::uint32_t tag = 0;
  std::uint64_t timeout_ns = 0;
  std::uint64_t output_parts = 1;  // all_gather: as many as ranks.
};

Failure CheckBuffer(const mlxcomm_group& group, const char* name, const void* data,
                    std::uint64_t count, std::uint64_t parts, std::uint64_t element_bytes) {
  const std::uint64_t most = group.connection->session->arena().total_bytes();
  if (count > most / element_bytes / parts) {
    return Invalid(std::string(name) + ": " + std::to_string(parts) + " x " +
                   std::to_string(count) + " elements of " + std::to_string(element_bytes) +
                   " bytes are more than the arena's " + std::to_string(most) + " bytes");
  }
  if (count == 0) return {};
  if (!group.connection->session->Contains(data, parts * count * element_bytes)) {
    return Invalid(std::string(name) +
                   ": expected memory of this connection's arena (mlxcomm_buffer_allocate)");
  }
  if (reinterpret_cast<std::uintptr_t>(data) % element_bytes != 0) {
    return Invalid(std::string(name) + ": not aligned to its elements of " +
                   std::to_string(element_bytes) + " bytes");
  }
  return {};
}

Failure CheckRequest(const mlxcomm_group& group, const Request& request) {
  const auto type = static_cast<DataType>(request.type);
  if (static_cast<int>(request.type) > 255 || !IsValid(type)) {
    return Invalid("data type " + std::to_string(request.type) + ": not one of mlxcomm_data_type");
  }
  const bool reads = request.kind != OperationKind::kReceive;
  const bool writes = request.kind != OperationKind::kSend;
  const std::uint64_t bytes = DataTypeBytes(type);
  Failure failure;
  if (request.kind != OperationKind::kBarrier) {
    if (reads) failure = CheckBuffer(group, "input", request.input, request.count, 1, bytes);
    if (failure.ok() && writes) {
      failure = CheckBuffer(group, "output", request.output, request.count, request.output_parts,
                            bytes);
    }
  }
  if (!failure.ok()) return failure;
  const bool point_to_point =
      request.kind == OperationKind::kSend || request.kind == OperationKind::kReceive;
  if (point_to_point && (request.peer >= group.size || request.peer == group.rank)) {
    return Invalid("peer rank " + std::to_string(request.peer) + ": expected another rank below " +
                   std::to_string(group.size));
  }
  if (request.kind == OperationKind::kAllGather && request.count > 0) {
    const auto* const in = static_cast<const std::byte*>(request.input);
    const auto* const out = static_cast<const std::byte*>(request.output);
    if (in < out + request.output_parts * request.count * bytes && out < in + request.count * bytes) {
      return Invalid("output: overlaps the input, which all_gather does not allow");
    }
  }
  return {};
}

// A group of one rank: the result is the input.
mlxcomm_code FinishAlone(mlxcomm_group& group, const Request& request, std::uint64_t* ticket,
                         mlxcomm_error* error) {
  if (request.output != nullptr && request.input != nullptr && request.output != request.input) {
    std::memmove(request.output, request.input,
                 request.count * DataTypeBytes(static_cast<DataType>(request.type)));
  }
  const std::lock_guard lock(group.mutex);
  *ticket = kLocalTicket | group.next_local_ticket++;
  return Tell({}, error);
}

mlxcomm_code Submit(mlxcomm_group* group, const Request& request, std::uint64_t* ticket,
                    mlxcomm_error* error) {
  if (group == nullptr || ticket == nullptr) {
    return Tell(Invalid("group and ticket: expected a pointer, got NULL"), error);
  }
  Connection& session = *group->connection->session;
  if (!session.usable()) return Tell(ForkedAway(), error);
  if (const Failure failure = Latched(*group); !failure.ok()) return Tell(failure, error);
  if (const Failure failure = CheckRequest(*group, request); !failure.ok()) {
    return Tell(failure, error);
  }
  if (group->size == 1) return FinishAlone(*group, request, ticket, error);
  mlxcomm::queue::SubmissionEntry entry{};
  entry.group = group->id;
  if (request.count > 0 && request.input != nullptr) {
    entry.input_offset = session.OffsetOf(request.input);
  }
  if (request.count > 0 && request.output != nullptr) {
    entry.output_offset = session.OffsetOf(request.output);
  }
  entry.count = request.count;
  entry.timeout_ns = request.timeout_ns;
  entry.peer_rank = request.peer;
  entry.tag = request.tag;
  entry.kind = request.kind;
  entry.data_type = static_cast<DataType>(request.type);
  entry.reduce_operator = request.op;
  const std::uint64_t timeout_ns =
      request.timeout_ns == 0 ? group->timeout_default_ns : request.timeout_ns;
  const std::uint64_t bytes = request.count * DataTypeBytes(entry.data_type);
  const Connection::Extent extent{request.input == nullptr ? 0 : bytes,
                                  request.output == nullptr ? 0 : bytes * request.output_parts};
  const Failure failure =
      session.Submit(entry, extent, std::min<std::uint64_t>(timeout_ns, 1ull << 62), *ticket);
  if (failure.code == FailureCode::kDaemonLost) Latch(*group, failure);
  return Tell(failure, error);
}

}  // namespace

extern "C" {

MLXCOMM_API const char* mlxcomm_code_name(mlxcomm_code code) {
  return mlxcomm::FailureCodeName(static_cast<FailureCode>(code));
}

MLXCOMM_API const char* mlxcomm_version(void) { return MLXCOMM_VERSION; }

MLXCOMM_API void mlxcomm_connect_options_init(mlxcomm_connect_options* options) {
  *options = mlxcomm_connect_options{};
  options->struct_size = sizeof *options;
  options->start_private_daemon = 1;
}

MLXCOMM_API mlxcomm_code mlxcomm_connect(const mlxcomm_connect_options* options,
                                         mlxcomm_connection** connection, mlxcomm_error* error) {
  if (options == nullptr || connection == nullptr ||
      options->struct_size != sizeof(mlxcomm_connect_options)) {
    return Tell(Invalid("options: expected mlxcomm_connect_options_init() to have filled them"),
                error);
  }
  try {
    auto made = std::make_unique<mlxcomm_connection>();
    const Failure failure = Connection::Open(*options, made->session);
    if (failure.ok()) *connection = made.release();
    return Tell(failure, error);
  } catch (const std::exception& thrown) {  // No thread or no memory for gRPC.
    return Tell({FailureCode::kResourceExhausted, kNoRank,
                 std::string("cannot connect: ") + thrown.what()},
                error);
  }
}

MLXCOMM_API void mlxcomm_disconnect(mlxcomm_connection* connection) { delete connection; }

MLXCOMM_API mlxcomm_code mlxcomm_join(mlxcomm_connection* connection, const char* job,
                                      uint32_t rank, uint32_t size, uint64_t timeout_ns,
                                      mlxcomm_group** world, mlxcomm_error* error) {
  if (connection == nullptr || job == nullptr || world == nullptr) {
    return Tell(Invalid("connection, job and world: expected a pointer, got NULL"), error);
  }
  if (!connection->session->usable()) return Tell(ForkedAway(), error);
  if (size == 0 || rank >= size) {
    return Tell(Invalid("rank " + std::to_string(rank) + ": expected below size " +
                        std::to_string(size) + ", which is at least 1"),
                error);
  }
  if (mlxcomm::Utf8Prefix(job, SIZE_MAX).size() != std::strlen(job) || *job == '\0') {
    return Tell(Invalid("job: expected a name in UTF-8"), error);
  }
  if (connection->joined.exchange(true)) {
    return Tell(Invalid("this connection has joined a job already: use another one"), error);
  }
  mlxcomm_attached attached{};
  if (size > 1) {
    const Failure failure =
        connection->session->Join(job, rank, size, timeout_ns, attached);
    if (!failure.ok()) {
      connection->joined = false;
      return Tell(failure, error);
    }
  }
  auto* const group = new mlxcomm_group;
  group->connection = connection;
  group->id = attached.group;
  group->rank = rank;
  group->size = size;
  group->timeout_default_ns = attached.timeout_default_ns;
  *world = group;
  return Tell({}, error);
}

MLXCOMM_API void mlxcomm_group_close(mlxcomm_group* group) {
  if (group == nullptr) return;
  const bool has_daemon = group->size > 1 && group->connection->session->usable();
  if (has_daemon && Latched(*group).code != FailureCode::kDaemonLost) {
    group->connection->session->Leave();
  }
  group->connection->joined = false;
  delete group;
}

MLXCOMM_API uint32_t mlxcomm_rank(const mlxcomm_group* group) { return group->rank; }
MLXCOMM_API uint32_t mlxcomm_size(const mlxcomm_group* group) { return group->size; }

MLXCOMM_API mlxcomm_code mlxcomm_group_failure(const mlxcomm_group* group, mlxcomm_error* error) {
  return Tell(Latched(*const_cast<mlxcomm_group*>(group)), error);
}

MLXCOMM_API mlxcomm_code mlxcomm_buffer_allocate(mlxcomm_connection* connection, uint64_t bytes,
                                                 void** buffer, mlxcomm_error* error) {
  if (connection == nullptr || buffer == nullptr) {
    return Tell(Invalid("connection and buffer: expected a pointer, got NULL"), error);
  }
  if (!connection->session->usable()) return Tell(ForkedAway(), error);
  mlxcomm::client::ArenaAllocator& arena = connection->session->arena();
  const auto offset = arena.Allocate(bytes);
  if (!offset.has_value()) {
    return Tell({FailureCode::kResourceExhausted, kNoRank,
                 "the arena of " + std::to_string(arena.total_bytes()) + " bytes has no " +
                     std::to_string(bytes) + " free in one piece: " +
                     std::to_string(arena.used_bytes()) + " are used, the largest free range has " +
                     std::to_string(arena.largest_free_bytes()) +
                     ". Free buffers, or connect with a larger arena (arena_bytes)"},
                error);
  }
  *buffer = connection->session->arena_data() + *offset;
  return Tell({}, error);
}

MLXCOMM_API void mlxcomm_buffer_free(mlxcomm_connection* connection, void* buffer) {
  if (buffer == nullptr || !connection->session->usable()) return;
  connection->session->arena().Free(connection->session->OffsetOf(buffer));
}

MLXCOMM_API int mlxcomm_in_arena(const mlxcomm_connection* connection, const void* data,
                                 uint64_t bytes) {
  return connection->session->Contains(data, bytes) ? 1 : 0;
}

MLXCOMM_API mlxcomm_code mlxcomm_all_reduce(mlxcomm_group* group, const void* input, void* output,
                                            uint64_t count, mlxcomm_data_type type,
                                            mlxcomm_operator op, uint64_t timeout_ns,
                                            uint64_t* ticket, mlxcomm_error* error) {
  if (op != MLXCOMM_SUM) {
    return Tell(Invalid("operator " + std::to_string(op) + ": expected MLXCOMM_SUM"), error);
  }
  return Submit(group,
                {OperationKind::kAllReduce, input, output, count, type, ReduceOperator::kSum, 0, 0,
                 timeout_ns, 1},
                ticket, error);
}

MLXCOMM_API mlxcomm_code mlxcomm_all_gather(mlxcomm_group* group, const void* input, void* output,
                                            uint64_t count, mlxcomm_data_type type,
                                            uint64_t timeout_ns, uint64_t* ticket,
                                            mlxcomm_error* error) {
  const std::uint64_t parts = group == nullptr ? 1 : group->size;
  return Submit(group,
                {OperationKind::kAllGather, input, output, count, type, ReduceOperator::kNone, 0, 0,
                 timeout_ns, parts},
                ticket, error);
}

MLXCOMM_API mlxcomm_code mlxcomm_send(mlxcomm_group* group, const void* input, uint64_t count,
                                      mlxcomm_data_type type, uint32_t destination, uint32_t tag,
                                      uint64_t timeout_ns, uint64_t* ticket,
                                      mlxcomm_error* error) {
  return Submit(group,
                {OperationKind::kSend, input, nullptr, count, type, ReduceOperator::kNone,
                 destination, tag, timeout_ns, 1},
                ticket, error);
}

MLXCOMM_API mlxcomm_code mlxcomm_recv(mlxcomm_group* group, void* output, uint64_t count,
                                      mlxcomm_data_type type, uint32_t source, uint32_t tag,
                                      uint64_t timeout_ns, uint64_t* ticket,
                                      mlxcomm_error* error) {
  return Submit(group,
                {OperationKind::kReceive, nullptr, output, count, type, ReduceOperator::kNone,
                 source, tag, timeout_ns, 1},
                ticket, error);
}

MLXCOMM_API mlxcomm_code mlxcomm_barrier(mlxcomm_group* group, uint64_t timeout_ns,
                                         uint64_t* ticket, mlxcomm_error* error) {
  return Submit(group,
                {OperationKind::kBarrier, nullptr, nullptr, 0, MLXCOMM_FLOAT32,
                 ReduceOperator::kNone, 0, 0, timeout_ns, 1},
                ticket, error);
}

MLXCOMM_API mlxcomm_code mlxcomm_wait(mlxcomm_group* group, uint64_t ticket,
                                      mlxcomm_error* error) {
  if (group == nullptr) return Tell(Invalid("group: expected a pointer, got NULL"), error);
  if (!group->connection->session->usable()) return Tell(ForkedAway(), error);
  if ((ticket & kLocalTicket) != 0) return Tell({}, error);
  const Connection::Outcome outcome = group->connection->session->Wait(ticket);
  if (outcome.group_failed) Latch(*group, outcome.failure);
  return Tell(outcome.failure, error);
}

}  // extern "C"
