// Rank, size and job from the variables that a launcher sets, as mlxcomm/environment.py of
// the Python package has it. The first that names a rank counts: MLX, Open MPI, PMI, Slurm,
// torchrun. Where no job is named it follows from what all ranks of one launch have alike
// and no other has; of files that is the content, for each rank may have a copy.
//
// Owner: none. Thread: any. Memory: the answer; files of at most kFileBytesMax are read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace mlxcomm::mpi {

inline constexpr std::size_t kFileBytesMax = std::size_t{16} << 20;

struct Place {
  std::string job;
  std::uint32_t rank = 0;
  std::uint32_t size = 1;  // Without any word of a rank: rank 0 of 1.
};

using Environment = std::function<std::optional<std::string>(const char* name)>;
Environment ProcessEnvironment();

// Throws std::runtime_error that names the variable.
Place FindPlace(const Environment& environment);

}  // namespace mlxcomm::mpi
