#include "client/mlx_c/called_group.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>

#include "client/mlx/operation_error.h"
#include "client/mlx/process_end.h"
#include "client/mlx/result_memory.h"
#include "client/mlx_c/handles.h"
#include "client/mlx_c/reported_error.h"
#include "mlx/version.h"

namespace mlxcomm::mlx_c {
namespace {

// MLX's classes differ between releases, and the loaded one may not be the one that this was built
// for.
void CheckMlxIsTheOneBuiltFor() {
  const std::string built_for = std::to_string(MLX_VERSION_MAJOR) + "." +
                                std::to_string(MLX_VERSION_MINOR) + "." +
                                std::to_string(MLX_VERSION_PATCH);
  const std::string_view here = mlx::core::version();
  if (here == built_for || here.starts_with(built_for + ".")) return;  // ".dev..."
  graph::FailureDetails details;
  details.code = MLXCOMM_UNAVAILABLE;
  details.message = "libmlxcomm_mlx_c is built for MLX " + built_for + ", and this program has " +
                    std::string(here) + ": build it anew";
  throw graph::OperationError(details);
}

// Reports once for the process that results are copied, where they are although nobody asked for
// it.
void TellOfCopies(const graph::DaemonGroup& world) {
  static std::atomic<bool> told{false};
  if (std::getenv("MLXCOMM_QUIET") != nullptr || graph::CopyingIsAskedFor() || told.exchange(true))
    return;
  const std::string why = graph::WhyResultsAreCopied(world.joined()->connected, false);
  if (why.empty()) return;
  std::fprintf(stderr,
               "mlxcomm: results of operations are copied out of the daemon's shared memory, which "
               "takes about as long as reading and writing them once more: %s\n",
               why.c_str());
}

}  // namespace

graph::AnyGroup Joined(const mlxcomm_place& place, const graph::JoinOptions& options) {
  CheckMlxIsTheOneBuiltFor();
  graph::DoublePercentSigns();
  graph::LeaveJobsAtEnd(TextBeingReported);
  graph::AnyGroup group = graph::GroupOf(place, options);
  if (const auto* const ours = dynamic_cast<const graph::DaemonGroup*>(group.get())) {
    TellOfCopies(*ours);
  }
  return group;
}

std::shared_ptr<graph::DaemonGroup> CalledGroup(const char* function, mlx_distributed_group group) {
  graph::AnyGroup called = GroupOrNull(group);
  if (called == nullptr) called = Joined(graph::DefaultPlace(), {});
  auto ours = std::dynamic_pointer_cast<graph::DaemonGroup>(called);
  if (ours == nullptr && called->size() > 1) {
    throw std::invalid_argument(std::string(function) +
                                ": group: expected one of mlxcomm_mlx_init or split off it, got "
                                "one of MLX's own backends");
  }
  return ours;
}

}  // namespace mlxcomm::mlx_c
