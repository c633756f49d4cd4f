// Looks up MPI's handles for types and operators. Handles are never dereferenced, so a wrong one is
// an error.
//
//   ompi_mpi_float, ...     the daemon's types
//   MPI_Type_contiguous     two uint8_t: float16 the first time, then bfloat16; others are refused
//   ompi_mpi_op_sum, ...    the daemon's operators
//   MPI_Op_create           a function, which on 16-bit floats may be one of the daemon's operators
//
// Owner: the process, for its life, because MLX keeps handles after MPI_Finalize. Thread: any.
// Memory: a few words for each operator; at most kOperatorsMax.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "client/lib/mlxcomm.h"
#include "client/mpi/open_mpi.h"

namespace mlxcomm::mpi {

inline constexpr std::size_t kOperatorsMax = 1024;

struct Type {
  mlxcomm_data_type type;
  std::uint64_t bytes;
};

struct Operator {
  std::optional<mlxcomm_operator> on_all;     // The daemon's.
  std::optional<mlxcomm_operator> on_halves;  // The daemon's, for float16 and bfloat16.
  MPI_User_function* function = nullptr;

  // The daemon's operator, or nullopt: call `function` here.
  std::optional<mlxcomm_operator> For(mlxcomm_data_type type) const {
    return (type == MLXCOMM_FLOAT16 || type == MLXCOMM_BFLOAT16) && on_halves ? on_halves : on_all;
  }
};

// These throw std::runtime_error; `call` is for the message.
Type FindType(MPI_Datatype handle, const char* call);
Operator FindOperator(MPI_Op handle, const char* call);

MPI_Datatype MakeHalf(int count, MPI_Datatype of);
MPI_Op MakeOperator(MPI_User_function* function);

// Recognizes MLX's own sum, max and min of float16 and bfloat16 by applying the function to values
// that mean the same in both types. nullopt: none of these.
std::optional<mlxcomm_operator> RecognizeOnHalves(MPI_User_function* function);

}  // namespace mlxcomm::mpi
