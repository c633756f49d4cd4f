// The call of a rank: the part of an operation on which all ranks must agree.
//
// A digest of it travels with every frame and grant of the operation, so that a rank that called
// something else is noticed before its data is reduced into garbage, without an extra message.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "proto/types/operation.h"

namespace mlxcomm::collective {

struct Signature {
  OperationKind kind = OperationKind::kBarrier;
  DataType type = DataType::kFloat32;
  ReduceOperator op = ReduceOperator::kNone;
  std::uint64_t count = 0;               // As in operation_shape.h; 0 with a table of counts.
  std::uint32_t root = 0;                // Where the kind has one; otherwise 0.
  PlanKind plan = PlanKind::kAutomatic;  // Forced.
  // Of the table of counts where it must be the same on all ranks (all_gather_v).
  std::uint64_t counts_digest = 0;
  std::uint32_t check = 0;  // Which call of the program it is; 0: unknown.

  // Never 0. A send and its receive have the same digest.
  std::uint64_t Digest() const;
  // "all_reduce sum float32[8192]", "broadcast int8[5] from root 2", "barrier"; behind it "(check 00a1b2)",
  // by which a process finds the line of its program.
  std::string Describe() const;
  bool Agrees(const Signature& other) const { return Digest() == other.Digest(); }
};

// Of a list of numbers; never 0.
std::uint64_t DigestOf(std::span<const std::uint64_t> values);

}  // namespace mlxcomm::collective
