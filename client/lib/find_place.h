// Which rank of how many of which job a process is, from the environment that its launcher
// has made. The one account of it: C, C++, Python and mlxcommctl ask here.
//
// The first of these counts that names a rank: MLX's own variables (mlxcommctl launch,
// mlx.launch), torchrun, Open MPI, PMI, Slurm, RANK with WORLD_SIZE. Launchers start one
// another (srun starts torchrun), so the order is that of who is commonly inside of whom.
//
// What one launcher says twice must agree: MLX_WORLD_SIZE, the entries of MLX_HOSTFILE, and the rows
// of MLX_IBV_DEVICES, by which `mlx.launch --backend jaccl` says how many ranks there are. JACCL reads
// JACCL_RANK, JACCL_IBV_DEVICES and JACCL_COORDINATOR before MLX's names of the same, and so does this.
//
// Where no job is named, its name follows from those variables of the launcher that are the
// same on all ranks of one launch, and where the launcher has any such, on no other. mlx.launch
// gives each rank a file of its own with the same content, so of files the content counts, not
// the path. Others (exo) write what differs by node: each rank's own entry in its host file is the
// wildcard address, and a rank that is no neighbour has an address for documentation; the coordinator
// is the wildcard for rank 0, and for others whichever of its addresses they reach. Of such a host file
// the number of ranks and the ports count, of a coordinator the port: that much all ranks have in common.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "proto/types/failure.h"

namespace mlxcomm::client {

struct Place {
  std::string job;
  std::string
      job_from;  // The variables that it follows from, as "MLX_HOSTFILE"; empty: it was named.
  std::uint32_t rank = 0;
  std::uint32_t size = 1;
  bool launched = false;  // A launcher's variable named the rank.
};

// What is known without a launcher; it wins over the environment.
struct PlaceGiven {
  std::string job;
  std::optional<std::int64_t> rank;
  std::optional<std::int64_t> size;
};

inline constexpr char kDefaultJob[] = "default";

// What an environment holds; nothing: the variable is not set.
using Environment = std::function<std::optional<std::string>(const char* name)>;
std::optional<std::string> ProcessEnvironment(const char* name);

// Without any word of a rank it is the only one, of job "default". INVALID_ARGUMENT names
// the variable that is wrong or missing.
Failure FindPlace(const Environment& environment, const PlaceGiven& given, Place& place);

}  // namespace mlxcomm::client
