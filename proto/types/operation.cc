#include "proto/types/operation.h"

#include <string_view>

namespace mlxcomm {
namespace {
constexpr std::string_view kUnknown = "unknown";
}

const char* OperationKindName(OperationKind kind) {
  switch (kind) {
    case OperationKind::kAllReduce: return "all_reduce";
    case OperationKind::kAllGather: return "all_gather";
    case OperationKind::kSend: return "send";
    case OperationKind::kReceive: return "recv";
    case OperationKind::kBarrier: return "barrier";
  }
  return kUnknown.data();
}

const char* DataTypeName(DataType type) {
  switch (type) {
    case DataType::kFloat32: return "float32";
    case DataType::kFloat16: return "float16";
    case DataType::kBfloat16: return "bfloat16";
    case DataType::kInt32: return "int32";
  }
  return kUnknown.data();
}

const char* ReduceOperatorName(ReduceOperator op) {
  switch (op) {
    case ReduceOperator::kNone: return "none";
    case ReduceOperator::kSum: return "sum";
  }
  return kUnknown.data();
}

bool IsValid(OperationKind kind) { return OperationKindName(kind) != kUnknown; }
bool IsValid(DataType type) { return DataTypeName(type) != kUnknown; }
bool IsValid(ReduceOperator op) { return ReduceOperatorName(op) != kUnknown; }

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
