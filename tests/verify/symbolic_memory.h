// The buffers of all ranks and nodes, which hold, instead of numbers, the origins of the numbers:
// "rank 3's element at byte 64", "that of rank 0 and of rank 2 combined in this order".
//
// A value is an expression over ranks (equal expressions have equal numbers) and a
// position: the byte of the inputs from which it is made, the same for all ranks in it.
//
// Owner: the verifier. Thread: any. Memory: one entry for each range of equal history.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mlxcomm::collective {

using ExpressionId = std::int32_t;

// Expressions by number; equal ones have the same.
class Expressions {
 public:
  ExpressionId Leaf(std::uint32_t rank);
  // In this order. An error if a part is already final.
  absl::StatusOr<ExpressionId> Combined(std::span<const ExpressionId> parts);
  absl::StatusOr<ExpressionId> Finished(ExpressionId part);

  bool finished(ExpressionId id) const { return At(id).finished; }
  // Ascending, each as often as it occurs.
  const std::vector<std::uint32_t>& ranks(ExpressionId id) const { return At(id).ranks; }
  // "rank 1 + rank 1 + rank 4", "rank 0 + rank 1, final"
  std::string Describe(ExpressionId id) const;

 private:
  struct Expression {
    std::vector<std::uint32_t> ranks;
    bool finished = false;
  };
  const Expression& At(ExpressionId id) const { return all_[static_cast<std::size_t>(id)]; }
  ExpressionId Add(const std::vector<std::int64_t>& key, Expression expression);

  std::vector<Expression> all_;
  std::map<std::vector<std::int64_t>, ExpressionId> ids_;
};

// `bytes` bytes of one expression; the first is made of byte `position` of the inputs.
struct Piece {
  std::uint64_t bytes = 0;
  ExpressionId value = 0;
  std::uint64_t position = 0;
};
using Pieces = std::vector<Piece>;

// Values of the same length, combined in this order. An error if positions differ.
absl::StatusOr<Pieces> CombinePieces(Expressions& expressions, std::span<const Pieces> parts);
absl::StatusOr<Pieces> FinishPieces(Expressions& expressions, const Pieces& pieces);

// One buffer.
class SymbolicBuffer {
 public:
  explicit SymbolicBuffer(std::uint64_t bytes = 0) : bytes_(bytes) {}
  std::uint64_t bytes() const { return bytes_; }
  // An error if nothing has been written.
  absl::StatusOr<Pieces> Read(std::uint64_t offset, std::uint64_t bytes) const;
  void Write(std::uint64_t offset, const Pieces& pieces);

 private:
  void Cut(std::uint64_t offset);

  std::uint64_t bytes_;
  std::map<std::uint64_t, Piece> pieces_;  // By offset.
};

}  // namespace mlxcomm::collective
