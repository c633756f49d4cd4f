// What a function given to MPI_Op_create does to two-byte floats. MLX has functions of its own for
// sum, max and min of float16 and bfloat16, which the daemon has as well; they are recognized by
// applying them to four values that mean the same in both types, not by the order in which MLX
// makes them.
#pragma once

#include <optional>

#include "client/lib/mlxcomm.h"
#include "client/mpi/open_mpi.h"

namespace mlxcomm::mpi {

// Nothing: it is none of these three.
std::optional<mlxcomm_operator> RecognizeOnHalves(MPI_User_function* function);

}  // namespace mlxcomm::mpi
