// The number of elements that each rank reads and writes in an operation, from the rows of
// operation.h. Client and daemon both use it.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "proto/types/operation.h"
#include "proto/types/plain_text.h"

namespace mlxcomm {

struct ShapeRequest {
  OperationKind kind = OperationKind::kBarrier;
  std::uint64_t count = 0;
  std::uint32_t rank = 0;
  std::uint32_t size = 1;
  std::uint32_t root = 0;
  std::span<const std::uint64_t> counts = {};  // CountsLength() entries.
};

struct OperationShape {
  bool reads = false;
  bool writes = false;
  std::uint64_t input_elements = 0;
  std::uint64_t output_elements = 0;
};

inline constexpr std::uint64_t kElementsMax = std::uint64_t{1} << 56;

// Entries in the table of counts; 0 for kinds without one.
constexpr std::uint64_t CountsLength(OperationKind kind, std::uint32_t size) {
  return std::uint64_t{CountsPerRank(kind)} * size;
}

// False if there are more than kElementsMax elements.
[[nodiscard]] bool ShapeOf(const ShapeRequest& request, OperationShape& shape);

// The ranks [begin, end) whose inputs a rank's output is made from: combined if the kind Reduces(),
// otherwise concatenated. Empty for a barrier and for point-to-point operations.
struct Sources {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;

  constexpr std::uint32_t count() const { return end - begin; }
};
constexpr Sources SourcesOf(const ShapeRequest& request) {
  switch (RowOf(request.kind).origin) {
    case Origin::kCombined:
    case Origin::kEachRank: return {0, request.size};
    case Origin::kRoot: return {request.root, request.root + 1};
    case Origin::kNobody:
    case Origin::kPeer: break;
  }
  return {};
}

// The factor from an operation's bytes to the bytes on each link of a ring, in each direction, as
// in nccl-tests. With blocks or counts, the operation's bytes are those of all ranks' blocks.
double RingLoad(OperationKind kind, std::uint32_t ranks);

// The error text for an operator that does not support the type.
inline std::string WhyMeaningless(ReduceOperator op, DataType type) {
  return WhyWrong("op", std::string("an operator for ") + DataTypeName(type),
                  std::string(ReduceOperatorName(op)) + ", which needs " + MeaningOf(op) + " type");
}
// The error text for a wrong root, destination or source of rank `rank` of `size`; empty: `peer` is
// valid.
inline std::string WhyWrongPeer(OperationKind kind, std::uint32_t peer, std::uint32_t rank,
                                std::uint32_t size) {
  const std::string got = std::to_string(peer);
  if (HasRoot(kind) && peer >= size) {
    return WhyWrong("root", "a rank below " + std::to_string(size), got);
  }
  if (!IsPointToPoint(kind) || (peer < size && peer != rank)) return {};
  const std::string which =
      size == 1 ? " (a group of one has none)"
                : " (not " + std::to_string(rank) + ") below " + std::to_string(size);
  return WhyWrong(kind == OperationKind::kSend ? "destination" : "source", "another rank" + which,
                  got);
}

}  // namespace mlxcomm
