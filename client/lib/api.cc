// The calls of the C interface (mlxcomm.h) for connections, buffers, a group's facts, and a
// process's place in its job. The others are in groups.cc and operations.cc.
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "client/lib/answer.h"
#include "client/lib/find_place.h"
#include "client/lib/handles.h"
#include "client/lib/mlxcomm.h"
#include "proto/types/failure.h"
#include "proto/types/operation.h"
#include "proto/types/version.h"

namespace mlxcomm::client {

void Latch(mlxcomm_group& group, const Failure& failure) {
  const std::lock_guard lock(group.mutex);
  if (!group.failure.ok()) return;
  group.failure = failure;
  group.failed.store(!failure.ok(), std::memory_order_release);
}

Failure Latched(const mlxcomm_group& group) {
  if (!HasFailed(group)) return {};
  const std::lock_guard lock(group.mutex);
  return group.failure;
}

Refusal CheckUsable(const mlxcomm_connection* connection) {
  if (connection == nullptr) return Invalid("connection: expected a pointer, got NULL");
  if (connection->session->usable()) return std::nullopt;
  return Invalid(
      "this process was forked from the one that connected, and cannot use its connection: start "
      "it by exec instead (Python: multiprocessing's \"spawn\")");
}

Refusal CheckUsable(const mlxcomm_group* group) {
  if (group == nullptr) return Invalid("group: expected a pointer, got NULL");
  return CheckUsable(group->connection);
}

namespace {

Failure Find(const mlxcomm_place_options& options, mlxcomm_place& out) {
  PlaceGiven given;
  if (options.job != nullptr) given.job = options.job;
  if (options.rank != -1) given.rank = options.rank;
  if (options.size != -1) given.size = options.size;
  Environment environment = ProcessEnvironment;
  if (options.lookup != nullptr) {
    environment = [&options](const char* name) -> std::optional<std::string> {
      const char* const value = options.lookup(options.lookup_context, name);
      return value == nullptr ? std::nullopt : std::optional<std::string>(value);
    };
  }
  Place place;
  if (Failure failure = FindPlace(environment, given, place); !failure.ok()) return failure;
  if (place.job.size() >= sizeof out.job) {
    return Invalid("job: expected a name of less than " + std::to_string(sizeof out.job) +
                   " bytes, got " + std::to_string(place.job.size()));
  }
  std::memcpy(out.job, place.job.c_str(), place.job.size() + 1);
  out.rank = place.rank;
  out.size = place.size;
  out.launched = place.launched ? 1 : 0;
  return {};
}

}  // namespace

extern "C" {

MLXCOMM_API const char* mlxcomm_code_name(mlxcomm_code code) {
  return FailureCodeName(static_cast<FailureCode>(code));
}

MLXCOMM_API const char* mlxcomm_version(void) { return kSoftwareVersion; }

MLXCOMM_API void mlxcomm_connect_options_init(mlxcomm_connect_options* options) {
  *options = mlxcomm_connect_options{};
  options->struct_size = sizeof *options;
  options->start_private_daemon = 1;
}

MLXCOMM_API mlxcomm_code mlxcomm_connect(const mlxcomm_connect_options* options,
                                         mlxcomm_connection** connection, mlxcomm_error* error) {
  return Guarded(error, [&] {
    if (options == nullptr || connection == nullptr ||
        options->struct_size != sizeof(mlxcomm_connect_options)) {
      return Report(Invalid("options: expected mlxcomm_connect_options_init() to have filled them"),
                    error);
    }
    auto made = std::make_unique<mlxcomm_connection>();
    const Failure failure = Connection::Open(*options, made->session);
    if (failure.ok()) *connection = made.release();
    return Report(failure, error);
  });
}

MLXCOMM_API void mlxcomm_disconnect(mlxcomm_connection* connection) { delete connection; }

MLXCOMM_API void mlxcomm_place_options_init(mlxcomm_place_options* options) {
  *options = {};
  options->struct_size = sizeof *options;
  options->rank = -1;
  options->size = -1;
}

MLXCOMM_API mlxcomm_code mlxcomm_find_place(const mlxcomm_place_options* options,
                                            mlxcomm_place* place, mlxcomm_error* error) {
  return Guarded(error, [&] {
    if (place == nullptr) return Report(Invalid("place: expected a pointer, got NULL"), error);
    mlxcomm_place_options all;
    mlxcomm_place_options_init(&all);
    if (options != nullptr && options->struct_size != sizeof all) {
      return Report(Invalid("options: expected mlxcomm_place_options_init() to have filled them"),
                    error);
    }
    if (options != nullptr) all = *options;
    return Report(Find(all, *place), error);
  });
}

MLXCOMM_API uint32_t mlxcomm_rank(const mlxcomm_group* group) { return group->rank(); }
MLXCOMM_API uint32_t mlxcomm_size(const mlxcomm_group* group) { return group->size(); }

MLXCOMM_API const char* mlxcomm_group_name(const mlxcomm_group* group) {
  return group->facts.name.c_str();
}

MLXCOMM_API const char* mlxcomm_member_node(const mlxcomm_group* group, uint32_t rank) {
  return rank < group->size() ? group->facts.members[rank].node.c_str() : nullptr;
}

MLXCOMM_API uint64_t mlxcomm_member_pid(const mlxcomm_group* group, uint32_t rank) {
  return rank < group->size() ? group->facts.members[rank].pid : 0;
}

MLXCOMM_API mlxcomm_code mlxcomm_group_failure(const mlxcomm_group* group, mlxcomm_error* error) {
  return Guarded(error, [&] {
    if (Refusal refusal = CheckUsable(group)) return Report(*refusal, error);
    const Failure latched = Latched(*group);
    // A group of one rank needs no daemon.
    if (!latched.ok() || group->alone()) return Report(latched, error);
    return Report(group->connection->session->calls().Lost(), error);
  });
}

MLXCOMM_API void mlxcomm_group_set_timeout(mlxcomm_group* group, uint64_t timeout_ns) {
  group->timeout_ns = timeout_ns;
}

MLXCOMM_API mlxcomm_code mlxcomm_group_set_plan(mlxcomm_group* group, mlxcomm_plan plan,
                                                mlxcomm_error* error) {
  return Guarded(error, [&] {
    if (Refusal refusal = CheckUsable(group)) return Report(*refusal, error);
    const auto kind = static_cast<PlanKind>(plan);
    if (static_cast<unsigned>(plan) > 255 || !IsValid(kind)) {
      return Report(Invalid("plan " + std::to_string(plan) + ": expected one of mlxcomm_plan"),
                    error);
    }
    group->plan = kind;
    return ReportSuccess(error);
  });
}

MLXCOMM_API mlxcomm_code mlxcomm_buffer_allocate(mlxcomm_connection* connection, uint64_t bytes,
                                                 void** buffer, mlxcomm_error* error) {
  return Guarded(error, [&] {
    if (Refusal refusal = CheckUsable(connection)) return Report(*refusal, error);
    if (buffer == nullptr) return Report(Invalid("buffer: expected a pointer, got NULL"), error);
    const ArenaAllocator& arena = connection->session->arena();
    const auto offset = connection->session->calls().Allocate(bytes);
    if (!offset.has_value()) {
      return Report(
          {FailureCode::kResourceExhausted, kNoRank,
           "the arena of " + std::to_string(arena.total_bytes()) + " bytes has no " +
               std::to_string(bytes) + " free in one piece: " + std::to_string(arena.used_bytes()) +
               " are used, the largest free range has " +
               std::to_string(arena.largest_free_bytes()) + ". " + kArenaRemedy},
          error);
    }
    *buffer = connection->session->arena_data() + *offset;
    return ReportSuccess(error);
  });
}

MLXCOMM_API void mlxcomm_buffer_free(mlxcomm_connection* connection, void* buffer) {
  if (buffer == nullptr || !connection->session->usable()) return;
  Connection& session = *connection->session;
  session.calls().Free(session.OffsetOf(buffer));
}

MLXCOMM_API int mlxcomm_in_arena(const mlxcomm_connection* connection, const void* data,
                                 uint64_t bytes) {
  return connection->session->Contains(data, bytes) ? 1 : 0;
}

MLXCOMM_API void mlxcomm_note_copied_result(mlxcomm_connection* connection, uint64_t bytes,
                                            uint64_t nanoseconds) {
  if (connection->session->usable()) connection->session->NoteCopiedResult(bytes, nanoseconds);
}

}  // extern "C"
}  // namespace mlxcomm::client
