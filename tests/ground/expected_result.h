// The expected result of every operation, computed directly from all ranks' inputs: the only oracle
// of unit tests, the simulator and the ranks of real daemons.
//
// Values are small whole numbers, which every type holds exactly, so results are compared exactly;
// only a mean may need rounding. A kernel's bits and a plan's steps are verified without values:
// unit/daemon/reduce/oracle.h, verify/expected_result.h.
//
// Memory: vectors of bytes.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "proto/types/operation_shape.h"

namespace mlxcomm::oracle {

using Value = std::complex<double>;
using Bytes = std::vector<std::byte>;

template <typename T>
void Put(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}
template <typename T>
T Get(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
void Encode(DataType type, Value value, std::byte* to);
Value Decode(DataType type, const std::byte* from);

// `rank`'s input: products of 64 of its elements stay exact. `salt` makes the values of operations
// differ.
Bytes Input(DataType type, ReduceOperator op, std::uint32_t rank, std::uint64_t elements,
            std::uint64_t salt = 0);

struct Operation {
  OperationKind kind = OperationKind::kBarrier;
  DataType type = DataType::kFloat32;
  ReduceOperator op = ReduceOperator::kNone;
  std::uint64_t count = 0;
  std::uint32_t size = 1;
  std::uint32_t root = 0;  // kReceive: the sending rank.
  // By rank: the table that the rank passes.
  std::vector<std::vector<std::uint64_t>> tables = {};
  std::uint64_t salt = 0;

  OperationShape ShapeFor(std::uint32_t rank) const;
};

// The tables of operations that have them, instead of a count. Unequal lengths: nothing, the count,
// or twice the count.
void AddTables(Operation& o);

// Where element i of `rank`'s output comes from: (rank, element) of the inputs, or all
// ranks' element for reductions.
struct Origin {
  bool all_ranks = false;
  std::uint32_t rank = 0;
  std::uint64_t element = 0;
};
Origin OriginOf(const Operation& o, std::uint32_t rank, std::uint64_t i);

// The index of the first wrong element of `rank`'s output, or -1.
std::int64_t FirstWrong(const Operation& o, std::uint32_t rank, const Bytes& output);

}  // namespace mlxcomm::oracle
