// Tables of the kinds of operation, element types, operators and kinds of plan. Names, lists of
// names, checks and shapes come from the rows, so a new value needs only a row here and its
// implementation.
//
// The numbers are part of every shared-memory and wire layout, and of mlxcomm.h: never renumber,
// only append.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "proto/types/invariant.h"

namespace mlxcomm {

// A row with `value` and `name` for each value of an enumeration, found by value or name. The rows
// must be in the order of their values, without gaps; a violation does not compile.
template <typename Row, std::size_t kRows>
class ValueTable {
 public:
  using Value = decltype(Row::value);

  consteval explicit ValueTable(const std::array<Row, kRows>& rows) : rows_(rows) {
    for (std::size_t i = 0; i < kRows; ++i) {
      MLXCOMM_INVARIANT(static_cast<std::size_t>(rows_[i].value) == First() + i);
    }
  }

  // nullptr for an invalid value, perhaps from another process.
  constexpr const Row* Find(Value value) const {
    const std::size_t index = static_cast<std::size_t>(value) - First();
    return index < kRows ? &rows_[index] : nullptr;
  }
  constexpr const Row* FindNamed(std::string_view name) const {
    for (const Row& row : rows_) {
      if (name == row.name) return &row;
    }
    return nullptr;
  }
  // "unknown" for an invalid value.
  constexpr const char* NameOf(Value value) const {
    const Row* const row = Find(value);
    return row == nullptr ? "unknown" : row->name;
  }
  // One more than the largest value, for arrays.
  constexpr std::size_t number_end() const { return First() + kRows; }
  template <typename Visit>
  constexpr void ForEach(Visit visit) const {
    for (const Row& row : rows_) visit(row);
  }
  // "sum, prod, min" with the separator ", ", for the rows that match.
  template <typename IsWanted>
  std::string NamesWhere(std::string_view separator, IsWanted is_wanted) const {
    std::string names;
    ForEach([&](const Row& row) {
      if (!is_wanted(row)) return;
      if (!names.empty()) names += separator;
      names += row.name;
    });
    return names;
  }
  // Without the value zero (no operator, no forced plan).
  std::string Names(std::string_view separator) const {
    return NamesWhere(separator,
                      [](const Row& row) { return static_cast<std::size_t>(row.value) != 0; });
  }

 private:
  constexpr std::size_t First() const { return static_cast<std::size_t>(rows_.front().value); }

  std::array<Row, kRows> rows_;
};

// Zero is not a kind, so that zeroed memory is never a valid request.
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
  kAllGatherV = 12,  // Unequal lengths, all of which every rank knows.
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
  kAnd = 5,  // Logical for bool, bitwise for integers.
  kOr = 6,
  kMean = 7,  // The sum, divided by the number of ranks at the end.
};

// Determines how data moves between the nodes of a group (daemon/collective/plan.h).
enum class PlanKind : std::uint8_t {
  kAutomatic = 0,
  kRing = 1,
  kExchange = 2,
  kHalvingDoubling = 3,
  kTree = 4,
};

// The number of elements in a rank's buffer.
enum class Extent : std::uint8_t {
  kNothing,
  kCount,         // count
  kBlocks,        // size x count: a block for or from each rank, in rank order
  kOwnCount,      // counts[rank]
  kFirstCounts,   // The sum of counts[0, size): blocks of these lengths, packed.
  kSecondCounts,  // The sum of counts[size, 2 x size).
};

struct Side {
  Extent extent = Extent::kNothing;
  bool is_root_alone = false;  // The other ranks have nothing.

  constexpr bool IsOn(std::uint32_t rank, std::uint32_t root) const {
    return extent != Extent::kNothing && (!is_root_alone || rank == root);
  }
};

// The ranks whose input an output is made from.
enum class Origin : std::uint8_t {
  kNobody,
  kCombined,  // All ranks', by an operator.
  kRoot,
  kEachRank,  // One block from each rank, in rank order.
  kPeer,      // The sending rank.
};

struct OperationRow {
  OperationKind value;
  const char* name;
  Side input;
  Side output;
  Origin origin;
  bool may_be_in_place = false;  // The output may be the input's memory (client/lib/mlxcomm.h).
};

// clang-format off: one row per line.
inline constexpr ValueTable kOperations([] {
  using enum OperationKind;
  using enum Extent;
  using enum Origin;
  constexpr bool kRootAlone = true;
  constexpr bool kInPlace = true;
  return std::to_array<OperationRow>({
      // kind           name              input                  output                 origin
      {kAllReduce,     "all_reduce",     {kCount},              {kCount},              kCombined, kInPlace},
      {kAllGather,     "all_gather",     {kCount},              {kBlocks},             kEachRank},
      {kSend,          "send",           {kCount},              {},                    kPeer},
      {kReceive,       "recv",           {},                    {kCount},              kPeer},
      {kBarrier,       "barrier",        {},                    {},                    kNobody},
      {kReduceScatter, "reduce_scatter", {kBlocks},             {kCount},              kCombined},
      {kBroadcast,     "broadcast",      {kCount, kRootAlone},  {kCount},              kRoot, kInPlace},
      {kReduce,        "reduce",         {kCount},              {kCount, kRootAlone},  kCombined, kInPlace},
      {kAllToAll,      "all_to_all",     {kBlocks},             {kBlocks},             kEachRank},
      {kGather,        "gather",         {kCount},              {kBlocks, kRootAlone}, kEachRank},
      {kScatter,       "scatter",        {kBlocks, kRootAlone}, {kCount},              kRoot},
      {kAllGatherV,    "all_gather_v",   {kOwnCount},           {kFirstCounts},        kEachRank},
      {kAllToAllV,     "all_to_all_v",   {kFirstCounts},        {kSecondCounts},       kEachRank},
  });
}());
// clang-format on

inline constexpr OperationRow kNoOperation = {};

// An empty row for an invalid kind.
constexpr const OperationRow& RowOf(OperationKind kind) {
  const OperationRow* const row = kOperations.Find(kind);
  return row == nullptr ? kNoOperation : *row;
}
constexpr bool IsValid(OperationKind kind) { return kOperations.Find(kind) != nullptr; }
constexpr const char* OperationKindName(OperationKind kind) { return kOperations.NameOf(kind); }

// Takes an operator.
constexpr bool Reduces(OperationKind kind) { return RowOf(kind).origin == Origin::kCombined; }
// Has a root (peer_rank), which all data goes to or comes from.
constexpr bool IsFromRoot(OperationKind kind) { return RowOf(kind).input.is_root_alone; }
constexpr bool IsToRoot(OperationKind kind) { return RowOf(kind).output.is_root_alone; }
constexpr bool HasRoot(OperationKind kind) { return IsFromRoot(kind) || IsToRoot(kind); }
// Goes between two ranks: has a destination or source (peer_rank) and a tag.
constexpr bool IsPointToPoint(OperationKind kind) { return RowOf(kind).origin == Origin::kPeer; }
constexpr bool MayBeInPlace(OperationKind kind) { return RowOf(kind).may_be_in_place; }
// Moves no data: ranks only wait for each other.
constexpr bool IsEmpty(OperationKind kind) { return RowOf(kind).origin == Origin::kNobody; }
// Has a block for each rank on one side, all of equal length.
constexpr bool HasBlocks(OperationKind kind) {
  return RowOf(kind).input.extent == Extent::kBlocks ||
         RowOf(kind).output.extent == Extent::kBlocks;
}

// The entries for each rank in the table of counts, for kinds with unequal lengths. One: the same
// table on all ranks. Two: the lengths that this rank sends to each, then those that it receives
// from each.
constexpr std::uint32_t CountsPerRank(OperationKind kind) {
  const auto of_side = [](Extent extent) {
    if (extent == Extent::kSecondCounts) return 2u;
    return extent == Extent::kFirstCounts || extent == Extent::kOwnCount ? 1u : 0u;
  };
  const OperationRow& row = RowOf(kind);
  return std::max(of_side(row.input.extent), of_side(row.output.extent));
}
constexpr bool HasCounts(OperationKind kind) { return CountsPerRank(kind) > 0; }

// Sets of types, as bits.
enum class Numbers : std::uint8_t {
  kFloats = 1,
  kComplex = 2,
  kIntegers = 4,
  kBooleans = 8,
  kFractions = kFloats | kComplex,
  kBits = kIntegers | kBooleans,
  kAll = kFractions | kBits,
};

struct DataTypeRow {
  DataType value;
  const char* name;
  std::size_t bytes;  // The size of one element.
  Numbers numbers;
};

inline constexpr ValueTable kDataTypes([] {
  using enum DataType;
  using enum Numbers;
  return std::to_array<DataTypeRow>({
      {kFloat32, "float32", 4, kFloats},
      {kFloat16, "float16", 2, kFloats},
      {kBfloat16, "bfloat16", 2, kFloats},
      {kInt32, "int32", 4, kIntegers},
      {kBool, "bool", 1, kBooleans},
      {kInt8, "int8", 1, kIntegers},
      {kInt16, "int16", 2, kIntegers},
      {kInt64, "int64", 8, kIntegers},
      {kUint8, "uint8", 1, kIntegers},
      {kUint16, "uint16", 2, kIntegers},
      {kUint32, "uint32", 4, kIntegers},
      {kUint64, "uint64", 8, kIntegers},
      {kFloat64, "float64", 8, kFloats},
      {kComplex64, "complex64", 8, kComplex},
  });
}());

constexpr bool IsValid(DataType type) { return kDataTypes.Find(type) != nullptr; }
constexpr const char* DataTypeName(DataType type) { return kDataTypes.NameOf(type); }
constexpr std::size_t DataTypeBytes(DataType type) {
  const DataTypeRow* const row = kDataTypes.Find(type);
  return row == nullptr ? 0 : row->bytes;
}

struct ReduceOperatorRow {
  ReduceOperator value;
  const char* name;
  Numbers numbers;  // The types it supports.
};

// On bool, sum and max mean `or`, product and min `and`, as in MLX. Complex numbers are ordered
// by the real part, then the imaginary part.
inline constexpr ValueTable kReduceOperators([] {
  using enum ReduceOperator;
  using enum Numbers;
  return std::to_array<ReduceOperatorRow>({
      {kNone, "none", kAll},
      {kSum, "sum", kAll},
      {kProduct, "prod", kAll},
      {kMin, "min", kAll},
      {kMax, "max", kAll},
      {kAnd, "and", kBits},
      {kOr, "or", kBits},
      {kMean, "mean", kFractions},
  });
}());

constexpr bool IsValid(ReduceOperator op) { return kReduceOperators.Find(op) != nullptr; }
constexpr const char* ReduceOperatorName(ReduceOperator op) { return kReduceOperators.NameOf(op); }
constexpr bool HasMeaning(DataType type, ReduceOperator op) {
  const DataTypeRow* const of = kDataTypes.Find(type);
  const ReduceOperatorRow* const row = kReduceOperators.Find(op);
  return of != nullptr && row != nullptr &&
         (static_cast<unsigned>(of->numbers) & static_cast<unsigned>(row->numbers)) != 0;
}
// The supported types, for a message: "a floating or complex".
constexpr const char* MeaningOf(ReduceOperator op) {
  const ReduceOperatorRow* const row = kReduceOperators.Find(op);
  if (row == nullptr || row->numbers == Numbers::kAll) return "any";
  return row->numbers == Numbers::kBits ? "bool or an integer" : "a floating or complex";
}

struct PlanKindRow {
  PlanKind value;
  const char* name;
};

inline constexpr ValueTable kPlanKinds(std::to_array<PlanKindRow>({
    {PlanKind::kAutomatic, "automatic"},
    {PlanKind::kRing, "ring"},
    {PlanKind::kExchange, "exchange"},
    {PlanKind::kHalvingDoubling, "halving_doubling"},
    {PlanKind::kTree, "tree"},
}));

constexpr bool IsValid(PlanKind plan) { return kPlanKinds.Find(plan) != nullptr; }
constexpr const char* PlanKindName(PlanKind plan) { return kPlanKinds.NameOf(plan); }

}  // namespace mlxcomm
