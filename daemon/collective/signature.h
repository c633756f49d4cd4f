// The part of a rank's call on which all ranks must agree. Every frame carries its digest, so that
// a rank that called something else is noticed before its data is reduced.
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
  std::uint64_t count = 0;               // See operation_shape.h; 0 with a table of counts.
  std::uint32_t root = 0;                // 0 if the kind has none.
  PlanKind plan = PlanKind::kAutomatic;  // Forced.
  // The table of counts, if it must be the same on all ranks (all_gather_v).
  std::uint64_t counts_digest = 0;
  std::uint32_t check = 0;  // Identifies the call in the program; 0: unknown.

  // Never 0. A send and its receive have the same digest.
  std::uint64_t Digest() const;
  // "all_reduce sum float32[8192]", "broadcast int8[5] from root 2", "barrier"; then "(check
  // 00a1b2)".
  std::string Describe() const;
  bool Agrees(const Signature& other) const { return Digest() == other.Digest(); }
};

// Never 0.
std::uint64_t DigestOf(std::span<const std::uint64_t> values);

}  // namespace mlxcomm::collective
