// What a rank called: the part of an operation on which all ranks must agree.
//
// A digest of it travels with every frame and grant of the operation, so that a
// rank which called something else is noticed before its data is reduced into
// garbage, without a message of its own.
//
// Owner: none, a plain value. Thread: any. Memory: none.
#pragma once

#include <cstdint>
#include <string>

#include "proto/types/operation.h"

namespace mlxcomm::collective {

struct Signature {
  OperationKind kind = OperationKind::kBarrier;
  DataType type = DataType::kFloat32;
  ReduceOperator op = ReduceOperator::kNone;
  std::uint64_t count = 0;  // Elements of one rank's input.

  // Never 0. A send and its receive have the same digest.
  std::uint64_t Digest() const;
  // "all_reduce sum float32[8192]", "barrier"
  std::string Describe() const;
  // True when both may meet in one operation.
  bool Agrees(const Signature& other) const { return Digest() == other.Digest(); }
};

}  // namespace mlxcomm::collective
