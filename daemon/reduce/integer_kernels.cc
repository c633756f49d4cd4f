#include "daemon/reduce/row.h"
// Before every Highway header.

#include <cstdint>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "daemon/reduce/integer_kernels.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Highway's headers follow it, so that they are included again for each target.
#include "daemon/reduce/loops-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace mlxcomm::reduce {
namespace HWY_NAMESPACE {

void CombineBools(ReduceOperator op, const Row& row) {
  switch (op) {
    case ReduceOperator::kProduct:
    case ReduceOperator::kMin:
    case ReduceOperator::kAnd: return CombineRow<BoolFormat, AndOperator>(row);
    default: return CombineRow<BoolFormat, OrOperator>(row);
  }
}

// Serves operators that treat signed and unsigned lanes alike.
template <typename Operator>
void CombineUnsigned(DataType type, const Row& row) {
  switch (DataTypeBytes(type)) {
    case 1: return CombineRow<PlainFormat<std::uint8_t>, Operator>(row);
    case 2: return CombineRow<PlainFormat<std::uint16_t>, Operator>(row);
    case 4: return CombineRow<PlainFormat<std::uint32_t>, Operator>(row);
    default: return CombineRow<PlainFormat<std::uint64_t>, Operator>(row);
  }
}

template <typename Operator>
void CombineOrdered(DataType type, const Row& row) {
  switch (type) {
    case DataType::kInt8: return CombineRow<PlainFormat<std::int8_t>, Operator>(row);
    case DataType::kInt16: return CombineRow<PlainFormat<std::int16_t>, Operator>(row);
    case DataType::kInt32: return CombineRow<PlainFormat<std::int32_t>, Operator>(row);
    case DataType::kInt64: return CombineRow<PlainFormat<std::int64_t>, Operator>(row);
    default: return CombineUnsigned<Operator>(type, row);
  }
}

// Bitwise operators treat a row as bytes, whatever the type.
template <typename Operator>
void CombineBits(DataType type, const Row& row) {
  CombineRow<PlainFormat<std::uint8_t>, Operator>(InParts(row, DataTypeBytes(type)));
}

void CombineIntegersOnTarget(DataType type, ReduceOperator op, const Row& row) {
  if (type == DataType::kBool) return CombineBools(op, row);
  switch (op) {
    case ReduceOperator::kSum: return CombineUnsigned<SumOperator>(type, row);
    case ReduceOperator::kProduct: return CombineUnsigned<ProductOperator>(type, row);
    case ReduceOperator::kMin: return CombineOrdered<MinOperator>(type, row);
    case ReduceOperator::kMax: return CombineOrdered<MaxOperator>(type, row);
    case ReduceOperator::kAnd: return CombineBits<AndOperator>(type, row);
    case ReduceOperator::kOr: return CombineBits<OrOperator>(type, row);
    case ReduceOperator::kNone:
    case ReduceOperator::kMean: return;  // Combine rejects them.
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace mlxcomm::reduce
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mlxcomm::reduce {

HWY_EXPORT(CombineIntegersOnTarget);

void CombineIntegers(DataType type, ReduceOperator op, const Row& row) {
  HWY_DYNAMIC_DISPATCH(CombineIntegersOnTarget)(type, op, row);
}

}  // namespace mlxcomm::reduce
#endif  // HWY_ONCE
