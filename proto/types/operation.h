// What can be asked for: the kinds of operation, the element types and the
// operators, as one set of numbers for the queue, the wire and the C interface.
//
// The values are part of every shared-memory and wire layout: never renumber,
// only append.
//
// Owner: none, plain values. Thread: any. Memory: none.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mlxcomm {

// Zero is left out everywhere, so that zeroed memory is never a valid request.
enum class OperationKind : std::uint8_t {
  kAllReduce = 1,
  kAllGather = 2,
  kSend = 3,
  kReceive = 4,
  kBarrier = 5,
};

enum class DataType : std::uint8_t {
  kFloat32 = 1,
  kFloat16 = 2,
  kBfloat16 = 3,
  kInt32 = 4,
};

enum class ReduceOperator : std::uint8_t {
  kNone = 0,  // Operations that do not reduce.
  kSum = 1,
};

// Each Name() is total: a value from outside the enumeration gives "unknown".
const char* OperationKindName(OperationKind kind);  // "all_reduce"
const char* DataTypeName(DataType type);            // "float32"
const char* ReduceOperatorName(ReduceOperator op);  // "sum", "none"

// False for numbers that another process made up.
bool IsValid(OperationKind kind);
bool IsValid(DataType type);
bool IsValid(ReduceOperator op);

// Bytes of one element; `type` must be valid.
std::size_t DataTypeBytes(DataType type);

}  // namespace mlxcomm
