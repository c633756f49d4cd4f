#include "daemon/reduce/row.h"
// Before every Highway header.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "daemon/reduce/floating_kernels.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Highway's headers follow it, so that they are included again for each target.
#include "daemon/reduce/loops-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace mlxcomm::reduce {
namespace HWY_NAMESPACE {

template <typename Format>
void CombineReals(ReduceOperator op, const Row& row) {
  switch (op) {
    case ReduceOperator::kSum: return CombineRow<Format, SumOperator>(row);
    case ReduceOperator::kProduct: return CombineRow<Format, ProductOperator>(row);
    case ReduceOperator::kMin: return CombineRow<Format, MinOperator>(row);
    case ReduceOperator::kMax: return CombineRow<Format, MaxOperator>(row);
    case ReduceOperator::kMean: return CombineRow<Format, MeanOperator>(row);
    case ReduceOperator::kNone:
    case ReduceOperator::kAnd:
    case ReduceOperator::kOr: return;  // Combine rejects them.
  }
}

// Sums and means treat the two parts as separate numbers.
void CombineComplex(ReduceOperator op, const Row& row) {
  if (op == ReduceOperator::kProduct) {
    return CombineRow<Complex64Format, ComplexProductOperator>(row);
  }
  if (op == ReduceOperator::kMin) {
    return CombineRow<Complex64Format, ComplexOrderOperator<false>>(row);
  }
  if (op == ReduceOperator::kMax) {
    return CombineRow<Complex64Format, ComplexOrderOperator<true>>(row);
  }
  CombineReals<PlainFormat<float>>(op, InParts(row, 2));
}

void CombineFloatsOnTarget(DataType type, ReduceOperator op, const Row& row) {
  switch (type) {
    case DataType::kFloat16: return CombineReals<Float16Format>(op, row);
    case DataType::kBfloat16: return CombineReals<Bfloat16Format>(op, row);
    case DataType::kFloat64: return CombineReals<PlainFormat<double>>(op, row);
    case DataType::kComplex64: return CombineComplex(op, row);
    default: return CombineReals<PlainFormat<float>>(op, row);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace mlxcomm::reduce
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mlxcomm::reduce {

HWY_EXPORT(CombineFloatsOnTarget);

void CombineFloats(DataType type, ReduceOperator op, const Row& row) {
  HWY_DYNAMIC_DISPATCH(CombineFloatsOnTarget)(type, op, row);
}

}  // namespace mlxcomm::reduce
#endif  // HWY_ONCE
