#include "proto/types/operation.h"

#include <string_view>

namespace mlxcomm {
namespace {
constexpr std::string_view kUnknownName = "unknown";
}

const char* OperationKindName(OperationKind kind) {
  switch (kind) {
    case OperationKind::kAllReduce: return "all_reduce";
    case OperationKind::kAllGather: return "all_gather";
    case OperationKind::kSend: return "send";
    case OperationKind::kReceive: return "recv";
    case OperationKind::kBarrier: return "barrier";
    case OperationKind::kReduceScatter: return "reduce_scatter";
    case OperationKind::kBroadcast: return "broadcast";
    case OperationKind::kReduce: return "reduce";
    case OperationKind::kAllToAll: return "all_to_all";
    case OperationKind::kGather: return "gather";
    case OperationKind::kScatter: return "scatter";
    case OperationKind::kAllGatherV: return "all_gather_v";
    case OperationKind::kAllToAllV: return "all_to_all_v";
  }
  return kUnknownName.data();
}

const char* DataTypeName(DataType type) {
  switch (type) {
    case DataType::kFloat32: return "float32";
    case DataType::kFloat16: return "float16";
    case DataType::kBfloat16: return "bfloat16";
    case DataType::kInt32: return "int32";
    case DataType::kBool: return "bool";
    case DataType::kInt8: return "int8";
    case DataType::kInt16: return "int16";
    case DataType::kInt64: return "int64";
    case DataType::kUint8: return "uint8";
    case DataType::kUint16: return "uint16";
    case DataType::kUint32: return "uint32";
    case DataType::kUint64: return "uint64";
    case DataType::kFloat64: return "float64";
    case DataType::kComplex64: return "complex64";
  }
  return kUnknownName.data();
}

const char* ReduceOperatorName(ReduceOperator op) {
  switch (op) {
    case ReduceOperator::kNone: return "none";
    case ReduceOperator::kSum: return "sum";
    case ReduceOperator::kProduct: return "prod";
    case ReduceOperator::kMin: return "min";
    case ReduceOperator::kMax: return "max";
    case ReduceOperator::kAnd: return "and";
    case ReduceOperator::kOr: return "or";
    case ReduceOperator::kMean: return "mean";
  }
  return kUnknownName.data();
}

const char* PlanKindName(PlanKind plan) {
  switch (plan) {
    case PlanKind::kAutomatic: return "automatic";
    case PlanKind::kRing: return "ring";
    case PlanKind::kExchange: return "exchange";
    case PlanKind::kHalvingDoubling: return "halving_doubling";
    case PlanKind::kTree: return "tree";
    case PlanKind::kTwoLevel: return "two_level";
  }
  return kUnknownName.data();
}

bool IsValid(OperationKind kind) { return OperationKindName(kind) != kUnknownName; }
bool IsValid(DataType type) { return DataTypeName(type) != kUnknownName; }
bool IsValid(ReduceOperator op) { return ReduceOperatorName(op) != kUnknownName; }
bool IsValid(PlanKind plan) { return PlanKindName(plan) != kUnknownName; }

std::size_t DataTypeBytes(DataType type) {
  switch (type) {
    case DataType::kBool:
    case DataType::kInt8:
    case DataType::kUint8: return 1;
    case DataType::kFloat16:
    case DataType::kBfloat16:
    case DataType::kInt16:
    case DataType::kUint16: return 2;
    case DataType::kFloat32:
    case DataType::kInt32:
    case DataType::kUint32: return 4;
    case DataType::kInt64:
    case DataType::kUint64:
    case DataType::kFloat64:
    case DataType::kComplex64: return 8;
  }
  return 0;
}

bool Reduces(OperationKind kind) {
  return kind == OperationKind::kAllReduce || kind == OperationKind::kReduceScatter ||
         kind == OperationKind::kReduce;
}

bool HasRoot(OperationKind kind) {
  return kind == OperationKind::kBroadcast || kind == OperationKind::kReduce ||
         kind == OperationKind::kGather || kind == OperationKind::kScatter;
}

bool MayBeInPlace(OperationKind kind) {
  return kind == OperationKind::kAllReduce || kind == OperationKind::kReduce ||
         kind == OperationKind::kBroadcast;
}

bool HasCounts(OperationKind kind) {
  return kind == OperationKind::kAllGatherV || kind == OperationKind::kAllToAllV;
}

bool IsPointToPoint(OperationKind kind) {
  return kind == OperationKind::kSend || kind == OperationKind::kReceive;
}

bool HasMeaning(DataType type, ReduceOperator op) {
  const bool floating = type == DataType::kFloat32 || type == DataType::kFloat16 ||
                        type == DataType::kBfloat16 || type == DataType::kFloat64;
  const bool complex = type == DataType::kComplex64;
  switch (op) {
    case ReduceOperator::kNone:
    case ReduceOperator::kSum:
    case ReduceOperator::kProduct:
    case ReduceOperator::kMin:
    case ReduceOperator::kMax: return true;
    case ReduceOperator::kAnd:
    case ReduceOperator::kOr: return !floating && !complex;
    case ReduceOperator::kMean: return floating || complex;
  }
  return false;
}

}  // namespace mlxcomm
