#include "proto/types/operation.h"

namespace mlxcomm {

std::string_view OperationKindName(OperationKind kind) {
  switch (kind) {
    case OperationKind::kAllReduce: return "all_reduce";
    case OperationKind::kAllGather: return "all_gather";
    case OperationKind::kSend: return "send";
    case OperationKind::kReceive: return "recv";
    case OperationKind::kBarrier: return "barrier";
  }
  return "unknown";
}

std::string_view DataTypeName(DataType type) {
  switch (type) {
    case DataType::kFloat32: return "float32";
    case DataType::kFloat16: return "float16";
    case DataType::kBfloat16: return "bfloat16";
    case DataType::kInt32: return "int32";
  }
  return "unknown";
}

std::string_view ReduceOperatorName(ReduceOperator op) {
  switch (op) {
    case ReduceOperator::kNone: return "none";
    case ReduceOperator::kSum: return "sum";
  }
  return "unknown";
}

bool IsValid(OperationKind kind) { return OperationKindName(kind) != "unknown"; }
bool IsValid(DataType type) { return DataTypeName(type) != "unknown"; }
bool IsValid(ReduceOperator op) { return ReduceOperatorName(op) != "unknown"; }

std::size_t DataTypeBytes(DataType type) {
  switch (type) {
    case DataType::kFloat32:
    case DataType::kInt32: return 4;
    case DataType::kFloat16:
    case DataType::kBfloat16: return 2;
  }
  return 0;
}

}  // namespace mlxcomm
