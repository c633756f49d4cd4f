// Finds a process's rank, job and number of ranks in the environment that its launcher set. C, C++,
// Python and mlxcommctl all use it.
//
// The first of these that names a rank is used: MLX's own variables (mlxcommctl launch,
// mlx.launch), torchrun, Open MPI, PMI, Slurm, RANK with WORLD_SIZE. Launchers start one another
// (srun starts torchrun), so the one that is usually innermost comes first. If a launcher sets
// something twice, both values must agree.
//
// If no job is named, its name is derived from launcher variables that are the same on all ranks of
// one launch and, if the launcher has such variables, differ between launches.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "proto/types/failure.h"

namespace mlxcomm::client {

struct Place {
  std::string job;
  // The variables that it is derived from, such as "MLX_HOSTFILE, MLX_RANK"; empty if it was named.
  std::string job_from;
  std::string named_by;  // The same, with digests of their values (control.proto).
  std::uint32_t rank = 0;
  std::uint32_t size = 1;
  bool launched = false;  // A launcher's variable named the rank.
};

// Values that are known without a launcher; they override the environment.
struct PlaceGiven {
  std::string job;
  std::optional<std::int64_t> rank;
  std::optional<std::int64_t> size;
};

inline constexpr char kDefaultJob[] = "default";

using Environment = std::function<std::optional<std::string>(const char* name)>;
std::optional<std::string> ProcessEnvironment(const char* name);

// If nothing names a rank, the process is the only rank, of job "default". INVALID_ARGUMENT names
// the variable that is wrong or missing.
Failure FindPlace(const Environment& environment, const PlaceGiven& given, Place& place);

}  // namespace mlxcomm::client
