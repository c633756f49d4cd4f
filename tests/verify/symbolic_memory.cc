#include "tests/verify/symbolic_memory.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace mlxcomm::collective {
namespace {

// First words of the keys by which expressions are found again.
constexpr std::int64_t kLeaf = -1;
constexpr std::int64_t kCombined = -2;
constexpr std::int64_t kFinished = -3;

}  // namespace

ExpressionId Expressions::Add(const std::vector<std::int64_t>& key, Expression expression) {
  const auto [found, added] = ids_.emplace(key, static_cast<ExpressionId>(all_.size()));
  if (added) all_.push_back(std::move(expression));
  return found->second;
}

ExpressionId Expressions::Leaf(std::uint32_t rank) {
  return Add({kLeaf, std::int64_t{rank}}, {{rank}, false});
}

absl::StatusOr<ExpressionId> Expressions::Combined(std::span<const ExpressionId> parts) {
  if (parts.size() == 1) return parts.front();
  std::vector<std::int64_t> key{kCombined};
  Expression expression;
  for (const ExpressionId part : parts) {
    if (finished(part)) {
      return absl::InternalError(
          absl::StrCat("combines a value that is final already (", Describe(part), ")"));
    }
    key.push_back(part);
    expression.ranks.insert(expression.ranks.end(), ranks(part).begin(), ranks(part).end());
  }
  std::sort(expression.ranks.begin(), expression.ranks.end());
  return Add(key, std::move(expression));
}

absl::StatusOr<ExpressionId> Expressions::Finished(ExpressionId part) {
  if (finished(part)) {
    return absl::InternalError(absl::StrCat("finishes a value twice (", Describe(part), ")"));
  }
  return Add({kFinished, part}, {ranks(part), true});
}

std::string Expressions::Describe(ExpressionId id) const {
  std::string text;
  for (const std::uint32_t rank : ranks(id)) {
    absl::StrAppend(&text, text.empty() ? "rank " : " + rank ", rank);
  }
  return finished(id) ? absl::StrCat(text, ", final") : text;
}

absl::StatusOr<Pieces> CombinePieces(Expressions& expressions, std::span<const Pieces> parts) {
  Pieces combined;
  std::vector<std::size_t> index(parts.size(), 0);
  std::vector<std::uint64_t> used(parts.size(), 0);  // The piece's at that index.
  while (index[0] < parts[0].size()) {
    std::uint64_t bytes = UINT64_MAX;
    std::vector<ExpressionId> values;
    std::uint64_t position = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (index[i] >= parts[i].size()) return absl::InternalError("combines unequal lengths");
      const Piece& piece = parts[i][index[i]];
      bytes = std::min(bytes, piece.bytes - used[i]);
      values.push_back(piece.value);
      const std::uint64_t own = piece.position + used[i];
      if (i > 0 && own != position) {
        return absl::InternalError(absl::StrCat(
            "combines byte ", position, " of the inputs (", expressions.Describe(values.front()),
            ") with byte ", own, " (", expressions.Describe(piece.value), ")"));
      }
      position = own;
    }
    absl::StatusOr<ExpressionId> value = expressions.Combined(values);
    if (!value.ok()) return value.status();
    combined.push_back({bytes, *value, position});
    for (std::size_t i = 0; i < parts.size(); ++i) {
      used[i] += bytes;
      if (used[i] < parts[i][index[i]].bytes) continue;
      ++index[i];
      used[i] = 0;
    }
  }
  return combined;
}

absl::StatusOr<Pieces> FinishPieces(Expressions& expressions, const Pieces& pieces) {
  Pieces finished = pieces;
  for (Piece& piece : finished) {
    absl::StatusOr<ExpressionId> value = expressions.Finished(piece.value);
    if (!value.ok()) return value.status();
    piece.value = *value;
  }
  return finished;
}

absl::StatusOr<Pieces> SymbolicBuffer::Read(std::uint64_t offset, std::uint64_t bytes) const {
  Pieces read;
  auto next = pieces_.upper_bound(offset);
  if (next != pieces_.begin()) --next;
  std::uint64_t at = offset;
  const std::uint64_t end = offset + bytes;
  while (at < end) {
    if (next == pieces_.end() || next->first > at || next->first + next->second.bytes <= at) {
      return absl::InternalError(
          absl::StrCat("reads byte ", at, ", where nobody has written anything"));
    }
    const std::uint64_t skipped = at - next->first;
    const std::uint64_t length = std::min(next->second.bytes - skipped, end - at);
    const std::uint64_t position = next->second.position + skipped;
    if (!read.empty() && read.back().value == next->second.value &&
        read.back().position + read.back().bytes == position) {
      read.back().bytes += length;
    } else {
      read.push_back({length, next->second.value, position});
    }
    at += length;
    ++next;
  }
  return read;
}

// Afterwards no piece crosses `offset`.
void SymbolicBuffer::Cut(std::uint64_t offset) {
  auto after = pieces_.lower_bound(offset);
  if (after == pieces_.begin()) return;
  auto& [begin, piece] = *std::prev(after);
  if (begin + piece.bytes <= offset) return;
  const std::uint64_t kept = offset - begin;
  pieces_.emplace(offset, Piece{piece.bytes - kept, piece.value, piece.position + kept});
  piece.bytes = kept;
}

void SymbolicBuffer::Write(std::uint64_t offset, const Pieces& pieces) {
  std::uint64_t end = offset;
  for (const Piece& piece : pieces) end += piece.bytes;
  Cut(offset);
  Cut(end);
  pieces_.erase(pieces_.lower_bound(offset), pieces_.lower_bound(end));
  for (const Piece& piece : pieces) {
    if (piece.bytes == 0) continue;
    pieces_.emplace(offset, piece);
    offset += piece.bytes;
  }
}

}  // namespace mlxcomm::collective
