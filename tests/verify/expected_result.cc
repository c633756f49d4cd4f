#include "tests/verify/expected_result.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace mlxcomm::collective {
namespace {

std::vector<ExpectedRange> VaryingBlocks(const WholeOperation& operation, std::uint32_t rank) {
  std::vector<ExpectedRange> ranges;
  for (std::uint32_t from = 0; from < operation.size(); ++from) {
    if (CountsPerRank(operation.signature.kind) == 1) {
      const std::uint64_t bytes = operation.counts.front()[from] * operation.element_bytes();
      ranges.push_back({bytes, false, from, 0});
      continue;
    }
    const std::vector<std::uint64_t>& sent = operation.counts[from];
    std::uint64_t before = 0;
    for (std::uint32_t to = 0; to < rank; ++to) before += sent[to];
    ranges.push_back(
        {sent[rank] * operation.element_bytes(), false, from, before * operation.element_bytes()});
  }
  return ranges;
}

bool IsEveryRankOnce(const std::vector<std::uint32_t>& ranks, std::uint32_t size) {
  if (ranks.size() != size) return false;
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    if (ranks[rank] != rank) return false;
  }
  return true;
}

}  // namespace

std::vector<ExpectedRange> ExpectedOutput(const WholeOperation& operation, std::uint32_t rank) {
  const Signature& signature = operation.signature;
  const std::uint64_t bytes = signature.count * operation.element_bytes();
  const OperationRow& row = RowOf(signature.kind);
  const std::uint64_t position = row.input.extent == Extent::kBlocks ? rank * bytes : 0;
  if (row.origin == Origin::kPeer) {
    if (rank != operation.ends.destination_rank) return {};
    return {{bytes, false, operation.ends.source_rank, 0}};
  }
  if (!row.output.IsOn(rank, signature.root)) return {};
  if (HasCounts(signature.kind)) return VaryingBlocks(operation, rank);
  if (Reduces(signature.kind)) return {{bytes, true, 0, position}};
  const Sources sources = SourcesOf(
      {.kind = signature.kind, .rank = rank, .size = operation.size(), .root = signature.root});
  std::vector<ExpectedRange> ranges;
  for (std::uint32_t from = sources.begin; from < sources.end; ++from) {
    ranges.push_back({bytes, false, from, position});
  }
  return ranges;
}

absl::Status CheckOutput(const WholeOperation& operation, const Expressions& expressions,
                         std::uint32_t rank, const Pieces& output) {
  std::size_t index = 0;
  std::uint64_t used = 0;
  std::uint64_t offset = 0;
  for (ExpectedRange expected : ExpectedOutput(operation, rank)) {
    while (expected.bytes > 0) {
      const Piece& piece = output[index];
      const std::uint64_t bytes = std::min(piece.bytes - used, expected.bytes);
      const std::vector<std::uint32_t>& ranks = expressions.ranks(piece.value);
      const bool finished = expressions.finished(piece.value);
      const bool right = expected.of_all_ranks
                             ? finished && IsEveryRankOnce(ranks, operation.size())
                             : !finished && ranks.size() == 1 && ranks[0] == expected.rank;
      if (!right || piece.position + used != expected.position) {
        return absl::InternalError(
            absl::StrCat("rank ", rank, ", output bytes ", offset, " to ", offset + bytes,
                         ": made of ", expressions.Describe(piece.value), " from byte ",
                         piece.position + used, " of the inputs; expected ",
                         expected.of_all_ranks ? std::string("every rank once, final")
                                               : absl::StrCat("rank ", expected.rank),
                         " from byte ", expected.position));
      }
      offset += bytes;
      used += bytes;
      expected.bytes -= bytes;
      expected.position += bytes;
      if (used < piece.bytes) continue;
      ++index;
      used = 0;
    }
  }
  return absl::OkStatus();
}

}  // namespace mlxcomm::collective
