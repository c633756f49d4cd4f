#include "daemon/work/work_pieces.h"

namespace mlxcomm {
namespace {

// Pieces start at multiples of this.
constexpr std::uint64_t kStepElements = 512;
constexpr std::uint64_t kPiecesOfLargeWork = 32;

std::uint64_t BytesOfElement(const collective::LocalWork& work) {
  return DataTypeBytes(work.type) * (work.input_count + work.output_count);
}

}  // namespace

std::uint64_t BytesTouched(const collective::LocalWork& work) {
  return work.elements * BytesOfElement(work);
}

std::uint64_t ElementsOfPiece(const collective::LocalWork& work) {
  const std::uint64_t bytes =
      std::clamp(BytesTouched(work) / kPiecesOfLargeWork, kPieceBytes, kLargePieceBytes);
  const std::uint64_t each = std::max<std::uint64_t>(BytesOfElement(work), 1);
  const std::uint64_t steps = std::max<std::uint64_t>(bytes / each / kStepElements, 1);
  const std::uint64_t least = work.elements / kStepElements / PieceCursor::kPiecesMax + 1;
  return std::max(steps, least) * kStepElements;
}

std::uint64_t PiecesOf(const collective::LocalWork& work, std::uint64_t piece_elements) {
  return std::max<std::uint64_t>(1, (work.elements + piece_elements - 1) / piece_elements);
}

bool HasSeveralPieces(const collective::LocalWork& work) {
  return BytesTouched(work) > kPieceBytes && work.elements > kStepElements;
}

}  // namespace mlxcomm
