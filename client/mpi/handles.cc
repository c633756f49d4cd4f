#include "client/mpi/handles.h"

#include <array>
#include <deque>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>

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

// Handles created at run time. Never destroyed: MLX may use them until the process ends.
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

// A number of the same value in any float type of up to 16 bytes; in types wider than 16 bits only
// its order counts.
using Value = std::array<std::uint16_t, 8>;
constexpr Value Repeated(std::uint16_t bits) {
  return {bits, bits, bits, bits, bits, bits, bits, bits};
}
constexpr Value kTwo = Repeated(0x4000);  // 2.0 in float16 and in bfloat16.
constexpr std::uint16_t kFour[] = {0x4400, 0x4080};
constexpr Value kMinusTwo = Repeated(0xC000);  // -2.0
constexpr Value kSmall = Repeated(0x3C00);     // 1.0, or 2^-7
constexpr Value kZero = Repeated(0);

Value Combined(MPI_User_function* function, Value in, Value in_and_out) {
  int count = 1;
  MPI_Datatype type = &ompi_mpi_uint8_t;
  function(in.data(), in_and_out.data(), &count, &type);
  return in_and_out;
}

}  // namespace

Type FindType(MPI_Datatype handle, const char* call) {
  for (const auto& [known, type] : kTypes) {
    if (known == handle) return type;
  }
  throw std::runtime_error(
      std::string(call) +
      ": unknown datatype handle: expected one of this library's ompi_mpi_ objects "
      "(ompi_mpi_float, ...) or a result of its MPI_Type_contiguous. Was the program built for "
      "another MPI?");
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
                           "ompi_mpi_op_min of this library, or a result of its MPI_Op_create");
}

std::optional<mlxcomm_operator> RecognizeOnHalves(MPI_User_function* function) {
  const auto first = [function](const Value& in, const Value& in_and_out) {
    return Combined(function, in, in_and_out)[0];
  };
  const std::uint16_t twice = first(kTwo, kTwo);
  const std::uint16_t beside_zero = first(kTwo, kZero);
  const std::uint16_t beside_small = first(kTwo, kSmall);
  const std::uint16_t negative = first(kMinusTwo, kSmall);
  if (twice == kFour[0] || twice == kFour[1]) {
    return beside_zero == kTwo[0] ? std::optional(MLXCOMM_SUM) : std::nullopt;  // Not 2 x 2.
  }
  if (twice != kTwo[0]) return std::nullopt;
  if (beside_zero == kTwo[0] && beside_small == kTwo[0] && negative == kSmall[0])
    return MLXCOMM_MAX;
  if (beside_zero == kZero[0] && beside_small == kSmall[0] && negative == kMinusTwo[0]) {
    return MLXCOMM_MIN;
  }
  return std::nullopt;
}

MPI_Datatype MakeHalf(int count, MPI_Datatype of) {
  if (count != 2 || of != &ompi_mpi_uint8_t) {
    throw std::runtime_error(
        "MPI_Type_contiguous: expected 2 of ompi_mpi_uint8_t, from which MLX makes its 16-bit "
        "floats; this library supports only MLX's types");
  }
  Made& made = GetMade();
  const std::lock_guard lock(made.mutex);
  if (made.halves == 2) {
    throw std::runtime_error(
        "MPI_Type_contiguous: a third type of 2 bytes: the first is float16, the second bfloat16, "
        "and MLX 0.32 makes no more. Upgrade mlxcomm to a release for your MLX");
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
                             " operators: create each only once");
  }
  mlxcomm_mpi_object& object =
      made.objects.emplace_back(mlxcomm_mpi_object{"operator of MPI_Op_create"});
  made.operators.emplace(&object, op);
  return &object;
}

}  // namespace mlxcomm::mpi
