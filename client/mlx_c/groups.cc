#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include "client/mlx/operation_error.h"
#include "client/mlx/operation_task.h"
#include "client/mlx/process_end.h"
#include "client/mlx/process_groups.h"
#include "client/mlx/result_memory.h"
#include "client/mlx_c/handles.h"
#include "client/mlx_c/mlxcomm_mlx.h"
#include "client/mlx_c/reported_error.h"
#include "mlx/version.h"

namespace mlxcomm::mlx_c {
namespace {

// MLX's classes differ between releases.
void CheckMlxIsTheOneBuiltFor() {
  const std::string built_for = std::to_string(MLX_VERSION_MAJOR) + "." +
                                std::to_string(MLX_VERSION_MINOR) + "." +
                                std::to_string(MLX_VERSION_PATCH);
  const std::string_view here = mlx::core::version();
  if (here == built_for || here.starts_with(built_for + ".")) return;  // ".dev..."
  throw graph::OperationError({.code = MLXCOMM_UNAVAILABLE,
                               .message = "libmlxcomm_mlx_c was built for MLX " + built_for +
                                          ", but this program has " + std::string(here) +
                                          ": rebuild it"});
}

// Warns once if results are copied without MLXCOMM_RESULTS=copy.
void ReportCopies(const graph::DaemonGroup& world) {
  static std::atomic<bool> reported{false};
  if (std::getenv("MLXCOMM_QUIET") != nullptr || graph::CopiesResults() || reported.exchange(true))
    return;
  const std::string why = graph::WhyResultsAreCopied(world.joined()->connected, false);
  if (why.empty()) return;
  std::fprintf(stderr, "mlxcomm: results are copied out of the daemon's shared memory: %s\n",
               why.c_str());
}

graph::AnyGroup Joined(const mlxcomm_place& place, const graph::JoinOptions& options) {
  CheckMlxIsTheOneBuiltFor();
  graph::DoublePercentSigns();
  graph::LeaveJobsAtEnd(TextBeingReported);
  graph::AnyGroup group = graph::GroupOf(place, options);
  if (const auto* const ours = dynamic_cast<const graph::DaemonGroup*>(group.get())) {
    ReportCopies(*ours);
  }
  return group;
}

}  // namespace

std::shared_ptr<graph::DaemonGroup> CalledGroup(const char* function, mlx_distributed_group group) {
  graph::AnyGroup called = GroupOrNull(group);
  if (called == nullptr) called = Joined(graph::DefaultPlace(), {});
  auto ours = std::dynamic_pointer_cast<graph::DaemonGroup>(called);
  if (ours == nullptr && called->size() > 1) {
    throw std::invalid_argument(std::string(function) +
                                ": group: expected a group from mlxcomm_mlx_init or a split, got "
                                "one of MLX's backends");
  }
  return ours;
}

}  // namespace mlxcomm::mlx_c

using mlxcomm::graph::AloneGroup;
using mlxcomm::graph::CheckOperation;
using mlxcomm::graph::DaemonGroup;
using mlxcomm::graph::FailureDetails;
using mlxcomm::graph::GroupUse;
using mlxcomm::graph::OperationError;
using mlxcomm::mlx_c::CalledGroup;
using mlxcomm::mlx_c::CheckResult;
using mlxcomm::mlx_c::Joined;
using mlxcomm::mlx_c::Reporting;
using mlxcomm::mlx_c::Set;
using mlxcomm::mlx_c::SetEmpty;

namespace {

constexpr std::array<std::string_view, 6> kBackends = {"any", "ring", "jaccl",
                                                       "mpi", "nccl", "mlxcomm"};

bool IsTaken(const char* backend) {
  return backend == nullptr || std::ranges::find(kBackends, backend) != kBackends.end();
}

mlxcomm_place FindPlace(const mlxcomm_mlx_join_options& options) {
  mlxcomm_place_options asked;
  mlxcomm_place_options_init(&asked);
  asked.job = options.job;
  asked.rank = options.rank;
  asked.size = options.size;
  mlxcomm_place place{};
  mlxcomm_error error{};
  if (mlxcomm_find_place(&asked, &place, &error) != MLXCOMM_OK) {
    throw std::invalid_argument(error.message);
  }
  return place;
}

// Converts the options of the caller's release.
mlxcomm_mlx_join_options Known(const mlxcomm_mlx_join_options* given) {
  mlxcomm_mlx_join_options options;
  mlxcomm_mlx_join_options_init(&options);
  if (given == nullptr) return options;
  if (given->struct_size < sizeof given->struct_size) {
    throw std::invalid_argument(
        "options: expected mlxcomm_mlx_join_options_init to be called, got a struct_size of " +
        std::to_string(given->struct_size));
  }
  std::memcpy(&options, given, std::min(given->struct_size, sizeof options));
  options.struct_size = sizeof options;
  return options;
}

}  // namespace

extern "C" {

bool mlxcomm_mlx_is_available(const char* backend) { return IsTaken(backend); }

int mlxcomm_mlx_init(mlx_distributed_group* res, bool strict, const char* backend) {
  return Reporting([&] {
    CheckResult(res);
    if (!IsTaken(backend)) {
      throw std::invalid_argument("init: backend \"" + std::string(backend) +
                                  "\": expected any, ring, jaccl, mpi, nccl or mlxcomm");
    }
    const mlxcomm_place place = mlxcomm::graph::DefaultPlace();
    if (strict && place.launched == 0 && place.size == 1) {
      throw OperationError(
          {.code = MLXCOMM_UNAVAILABLE,
           .message =
               "no launcher has set this process's rank and size. Start the program with "
               "mlxcommctl launch, mlx.launch, mpirun, torchrun or srun, or set MLX_RANK and "
               "MLX_WORLD_SIZE"});
    }
    Set(res, Joined(place, {}));
  });
}

void mlxcomm_mlx_join_options_init(mlxcomm_mlx_join_options* options) {
  if (options == nullptr) return;
  *options = {};
  options->struct_size = sizeof *options;
  options->rank = -1;
  options->size = -1;
}

int mlxcomm_mlx_join(mlx_distributed_group* res, const mlxcomm_mlx_join_options* given) {
  return Reporting([&] {
    CheckResult(res);
    const mlxcomm_mlx_join_options options = Known(given);
    const bool is_default = options.job == nullptr && options.rank < 0 && options.size < 0;
    Set(res, Joined(is_default ? mlxcomm::graph::DefaultPlace() : FindPlace(options),
                    {.socket = options.socket_path == nullptr ? "" : options.socket_path,
                     .timeout_ns = options.timeout_ns,
                     .arena_bytes = options.arena_bytes}));
  });
}

int mlxcomm_mlx_leave(mlx_distributed_group group, const char* why) {
  return Reporting([&] {
    if (why == nullptr) throw std::invalid_argument("leave: why: expected a text, got NULL");
    const auto ours = CalledGroup("leave", group);
    const GroupUse use;
    if (ours != nullptr) mlxcomm_leave(ours->handle(), why);
  });
}

bool mlxcomm_mlx_is_ours(mlx_distributed_group group) {
  return dynamic_cast<DaemonGroup*>(mlxcomm::mlx_c::GroupOrNull(group).get()) != nullptr;
}

int mlxcomm_mlx_split(mlx_distributed_group* res, mlx_distributed_group group, int color, int key,
                      const char* name, uint64_t timeout_ns) {
  return Reporting([&] {
    CheckResult(res);
    if (color < MLXCOMM_NO_GROUP) {
      throw std::invalid_argument("split: color: expected 0 or more, or MLXCOMM_NO_GROUP, got " +
                                  std::to_string(color));
    }
    const auto ours = CalledGroup("split", group);
    if (ours == nullptr) {
      if (color == MLXCOMM_NO_GROUP) return SetEmpty(res);
      return Set(res, std::make_shared<AloneGroup>());
    }
    mlxcomm_error error{};
    std::shared_ptr<DaemonGroup> part;
    const mlxcomm_code code =
        ours->Split(color, key < 0 ? ours->rank() : key, name, timeout_ns, part, error);
    CheckOperation(code, error, ours->handle());
    if (part == nullptr) return SetEmpty(res);
    Set(res, part);
  });
}

int mlxcomm_mlx_shrink(mlx_distributed_group* res, mlx_distributed_group group,
                       uint64_t timeout_ns) {
  return Reporting([&] {
    CheckResult(res);
    const auto ours = CalledGroup("shrink", group);
    if (ours == nullptr) {
      throw std::invalid_argument("shrink: group: expected more than one rank, got one");
    }
    mlxcomm_error error{};
    std::shared_ptr<DaemonGroup> rest;
    CheckOperation(ours->Shrink(timeout_ns, rest, error), error, ours->handle());
    mlxcomm::graph::StandFor(*ours, rest);
    Set(res, rest);
  });
}

int mlxcomm_mlx_barrier(mlx_distributed_group group, uint64_t timeout_ns) {
  return Reporting([&] {
    const auto ours = CalledGroup("barrier", group);
    if (ours == nullptr) return;
    mlxcomm_error error{};
    CheckOperation(ours->Barrier(timeout_ns, error), error, ours->handle());
  });
}

int mlxcomm_mlx_set_timeout(mlx_distributed_group group, uint64_t timeout_ns) {
  return Reporting([&] {
    const auto ours = CalledGroup("set_timeout", group);
    const GroupUse use;
    if (ours != nullptr) mlxcomm_group_set_timeout(ours->handle(), timeout_ns);
  });
}

int mlxcomm_mlx_check(mlx_distributed_group group) {
  return Reporting([&] {
    const auto ours = CalledGroup("check", group);
    if (ours == nullptr) return;
    const GroupUse use;
    mlxcomm_error error{};
    CheckOperation(mlxcomm_group_failure(ours->handle(), &error), error, ours->handle());
  });
}

int mlxcomm_mlx_name(mlx_string* res, mlx_distributed_group group) {
  return Reporting([&] {
    CheckResult(res);
    const auto ours = CalledGroup("name", group);
    const GroupUse use;
    const mlx_string name =
        mlx_string_new_data(ours == nullptr ? "alone" : mlxcomm_group_name(ours->handle()));
    mlx_string_set(res, name);
    mlx_string_free(name);
  });
}

void mlxcomm_mlx_get_counts(mlxcomm_mlx_counts* res) {
  if (res == nullptr) return;
  const auto& counters = mlxcomm::graph::GetCounters();
  res->operations = counters.operations;
  res->inputs_copied = counters.inputs_copied;
  res->inputs_in_arena = counters.inputs_in_arena;
  res->results_copied = counters.results_copied;
}

}  // extern "C"
