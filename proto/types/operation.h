// What can be asked for: the kinds of operation, the element types, the operators
// and the kinds of plan, as one set of numbers for the queue, the wire and the C
// interface.
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
  kReduceScatter = 6,
  kBroadcast = 7,
  kReduce = 8,
  kAllToAll = 9,
  kGather = 10,
  kScatter = 11,
  kAllGatherV = 12,  // Unequal lengths, known to every rank.
  kAllToAllV = 13,   // Unequal lengths; each rank knows its own.
};

enum class DataType : std::uint8_t {
  kFloat32 = 1,
  kFloat16 = 2,
  kBfloat16 = 3,
  kInt32 = 4,
  kBool = 5,
  kInt8 = 6,
  kInt16 = 7,
  kInt64 = 8,
  kUint8 = 9,
  kUint16 = 10,
  kUint32 = 11,
  kUint64 = 12,
  kFloat64 = 13,
  kComplex64 = 14,  // Two float32: real, imaginary.
};

enum class ReduceOperator : std::uint8_t {
  kNone = 0,  // Operations that do not reduce.
  kSum = 1,
  kProduct = 2,
  kMin = 3,
  kMax = 4,
  kAnd = 5,  // Of bool: logical; of integers: bitwise.
  kOr = 6,
  kMean = 7,  // A sum, divided by the number of ranks where it ends.
};

// How data goes between the nodes of a group (daemon/collective/plan.h).
enum class PlanKind : std::uint8_t {
  kAutomatic = 0,
  kRing = 1,
  kExchange = 2,
  kHalvingDoubling = 3,
  kTree = 4,
  kTwoLevel = 5,
};

// Each Name() is total: a value from outside the enumeration gives "unknown".
const char* OperationKindName(OperationKind kind);  // "all_reduce"
const char* DataTypeName(DataType type);            // "float32"
const char* ReduceOperatorName(ReduceOperator op);  // "sum", "none"
const char* PlanKindName(PlanKind plan);            // "halving_doubling", "automatic"

// False for numbers that another process made up.
bool IsValid(OperationKind kind);
bool IsValid(DataType type);
bool IsValid(ReduceOperator op);
bool IsValid(PlanKind plan);

// Bytes of one element; `type` must be valid.
std::size_t DataTypeBytes(DataType type);

// all_reduce, reduce_scatter and reduce need an operator, the others take none.
bool Reduces(OperationKind kind);
// broadcast, reduce, gather and scatter have a root, named by peer_rank.
bool HasRoot(OperationKind kind);
// Whose output may be the input's memory (client/lib/mlxcomm.h).
bool MayBeInPlace(OperationKind kind);
// The two whose lengths are a table instead of one count.
bool HasCounts(OperationKind kind);
bool IsPointToPoint(OperationKind kind);

// Whether the operator has a meaning for the type. Of bool: sum and max are or,
// product and min are and, as MLX has it. Integers have no mean; floats no and, or;
// complex numbers are ordered by the real part, then the imaginary one. kNone has a meaning for every type.
bool HasMeaning(DataType type, ReduceOperator op);

}  // namespace mlxcomm
