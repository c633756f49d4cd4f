#include "client/mpi/handles.h"

#include <deque>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>

#include "client/mpi/user_operator.h"

extern "C" {
mlxcomm_mpi_object ompi_mpi_comm_world{"MPI_COMM_WORLD"};
mlxcomm_mpi_object ompi_mpi_op_sum{"MPI_SUM"};
mlxcomm_mpi_object ompi_mpi_op_max{"MPI_MAX"};
mlxcomm_mpi_object ompi_mpi_op_min{"MPI_MIN"};
mlxcomm_mpi_object ompi_mpi_c_bool{"MPI_C_BOOL"};
mlxcomm_mpi_object ompi_mpi_int8_t{"MPI_INT8_T"};
mlxcomm_mpi_object ompi_mpi_uint8_t{"MPI_UINT8_T"};
mlxcomm_mpi_object ompi_mpi_int16_t{"MPI_INT16_T"};
mlxcomm_mpi_object ompi_mpi_uint16_t{"MPI_UINT16_T"};
mlxcomm_mpi_object ompi_mpi_int32_t{"MPI_INT32_T"};
mlxcomm_mpi_object ompi_mpi_uint32_t{"MPI_UINT32_T"};
mlxcomm_mpi_object ompi_mpi_int64_t{"MPI_INT64_T"};
mlxcomm_mpi_object ompi_mpi_uint64_t{"MPI_UINT64_T"};
mlxcomm_mpi_object ompi_mpi_float{"MPI_FLOAT"};
mlxcomm_mpi_object ompi_mpi_double{"MPI_DOUBLE"};
mlxcomm_mpi_object ompi_mpi_c_complex{"MPI_C_COMPLEX"};
}

namespace mlxcomm::mpi {
namespace {

mlxcomm_mpi_object g_float16{"float16"};
mlxcomm_mpi_object g_bfloat16{"bfloat16"};

constexpr std::pair<const mlxcomm_mpi_object*, Type> kTypes[] = {
    {&ompi_mpi_c_bool, {MLXCOMM_BOOL, 1}},     {&ompi_mpi_int8_t, {MLXCOMM_INT8, 1}},
    {&ompi_mpi_uint8_t, {MLXCOMM_UINT8, 1}},   {&ompi_mpi_int16_t, {MLXCOMM_INT16, 2}},
    {&ompi_mpi_uint16_t, {MLXCOMM_UINT16, 2}}, {&ompi_mpi_int32_t, {MLXCOMM_INT32, 4}},
    {&ompi_mpi_uint32_t, {MLXCOMM_UINT32, 4}}, {&ompi_mpi_int64_t, {MLXCOMM_INT64, 8}},
    {&ompi_mpi_uint64_t, {MLXCOMM_UINT64, 8}}, {&ompi_mpi_float, {MLXCOMM_FLOAT32, 4}},
    {&ompi_mpi_double, {MLXCOMM_FLOAT64, 8}},  {&ompi_mpi_c_complex, {MLXCOMM_COMPLEX64, 8}},
    {&g_float16, {MLXCOMM_FLOAT16, 2}},        {&g_bfloat16, {MLXCOMM_BFLOAT16, 2}},
};

// Handles made while the process runs. Never destroyed: MLX may ask at its end.
struct Made {
  std::mutex mutex;
  int halves = 0;
  std::deque<mlxcomm_mpi_object> objects;  // Their addresses are the handles.
  std::map<const void*, Operator> operators;
};
Made& GetMade() {
  static Made* const made = new Made;
  return *made;
}

}  // namespace

Type FindType(MPI_Datatype handle, const char* call) {
  for (const auto& [known, type] : kTypes) {
    if (known == handle) return type;
  }
  throw std::runtime_error(
      std::string(call) +
      ": unknown datatype handle: expected one of this library's ompi_mpi_ objects "
      "(ompi_mpi_float, ...) or what its MPI_Type_contiguous gave. Was the program "
      "built for another MPI?");
}

Operator FindOperator(MPI_Op handle, const char* call) {
  if (handle == &ompi_mpi_op_sum) return {.on_all = MLXCOMM_SUM, .on_halves = {}};
  if (handle == &ompi_mpi_op_max) return {.on_all = MLXCOMM_MAX, .on_halves = {}};
  if (handle == &ompi_mpi_op_min) return {.on_all = MLXCOMM_MIN, .on_halves = {}};
  Made& made = GetMade();
  const std::lock_guard lock(made.mutex);
  if (const auto found = made.operators.find(handle); found != made.operators.end()) {
    return found->second;
  }
  throw std::runtime_error(std::string(call) +
                           ": unknown operator handle: expected ompi_mpi_op_sum, ompi_mpi_op_max, "
                           "ompi_mpi_op_min of this library, or what its MPI_Op_create gave");
}

MPI_Datatype MakeHalf(int count, MPI_Datatype of) {
  if (count != 2 || of != &ompi_mpi_uint8_t) {
    throw std::runtime_error(
        "MPI_Type_contiguous: expected 2 of ompi_mpi_uint8_t, which MLX makes its 16-bit floats "
        "of; "
        "this library has no other types than those of MLX");
  }
  Made& made = GetMade();
  const std::lock_guard lock(made.mutex);
  if (made.halves == 2) {
    throw std::runtime_error(
        "MPI_Type_contiguous: a third type of 2 bytes: the first is taken for float16, the second "
        "for "
        "bfloat16, and MLX 0.32 makes no more. Use the mlxcomm that knows your MLX");
  }
  return ++made.halves == 1 ? &g_float16 : &g_bfloat16;
}

MPI_Op MakeOperator(MPI_User_function* function) {
  if (function == nullptr) throw std::runtime_error("MPI_Op_create: the function is NULL");
  const Operator op{.on_all = {}, .on_halves = RecognizeOnHalves(function), .function = function};
  Made& made = GetMade();
  const std::lock_guard lock(made.mutex);
  if (made.operators.size() == kOperatorsMax) {
    throw std::runtime_error("MPI_Op_create: more than " + std::to_string(kOperatorsMax) +
                             " operators: make each once, they are kept");
  }
  mlxcomm_mpi_object& object =
      made.objects.emplace_back(mlxcomm_mpi_object{"operator of MPI_Op_create"});
  made.operators.emplace(&object, op);
  return &object;
}

}  // namespace mlxcomm::mpi
