#include "daemon/reduce/kernels.h"

#include <cstring>

#include "daemon/reduce/row.h"
#include "proto/types/invariant.h"

namespace mlxcomm::reduce {
namespace {

bool IsFloating(DataType type) {
  return type == DataType::kFloat32 || type == DataType::kFloat16 || type == DataType::kBfloat16 ||
         type == DataType::kFloat64 || type == DataType::kComplex64;
}

bool IsWellFormed(const Reduction& reduction) {
  const bool divides = reduction.op == ReduceOperator::kMean;
  return reduction.op != ReduceOperator::kNone && HasMeaning(reduction.type, reduction.op) &&
         reduction.divisor >= 1 && (divides || reduction.divisor == 1);
}

}  // namespace

void CombineDirectly(DataType type, ReduceOperator op, const Row& row) {
  if (IsFloating(type)) return CombineFloats(type, op, row);
  CombineIntegers(type, op, row);
}

void Combine(const Reduction& reduction, const std::byte* const* inputs, std::size_t input_count,
             std::byte* const* outputs, std::size_t output_count, std::size_t elements,
             Stores stores) {
  if (elements == 0) return;
  if (input_count == 1 && reduction.divisor == 1) {
    // The C library knows the best stores for a copy.
    for (std::size_t k = 0; k < output_count; ++k) {
      if (outputs[k] == inputs[0]) continue;
      std::memcpy(outputs[k], inputs[0], elements * DataTypeBytes(reduction.type));
    }
    return;
  }
  // Requests are checked earlier.
  MLXCOMM_INVARIANT(input_count > 0 && IsWellFormed(reduction));
  const Row row{inputs,
                input_count,
                outputs,
                output_count,
                elements,
                reduction.divisor,
                stores == Stores::kNonTemporal};
  // Skips a division by 1.
  const bool sums = reduction.op == ReduceOperator::kMean && reduction.divisor == 1;
  const ReduceOperator op = sums ? ReduceOperator::kSum : reduction.op;
  if (stores == Stores::kWholeLines && CanStoreWholeLines(reduction.type, row)) {
    return CombineIntoWholeLines(reduction.type, op, row);
  }
  CombineDirectly(reduction.type, op, row);
}

}  // namespace mlxcomm::reduce
