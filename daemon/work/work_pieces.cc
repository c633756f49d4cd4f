#include "daemon/work/work_pieces.h"

#include <array>
#include <cstddef>

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

void DoPart(const collective::LocalWork& work, std::uint64_t first, std::uint64_t elements,
            reduce::Stores stores) {
  std::array<const std::byte*, collective::kLocalRanksMax> inputs;
  std::array<std::byte*, collective::kLocalRanksMax> outputs;
  const std::uint64_t offset = first * DataTypeBytes(work.type);
  for (std::uint32_t k = 0; k < work.input_count; ++k) inputs[k] = work.inputs[k] + offset;
  for (std::uint32_t k = 0; k < work.output_count; ++k) outputs[k] = work.outputs[k] + offset;
  reduce::Combine(work, inputs.data(), work.input_count, outputs.data(), work.output_count,
                  elements, stores);
}

void DoWork(const collective::LocalWork& work) {
  if (work.elements > 0) DoPart(work, 0, work.elements, reduce::Stores::kWholeLines);
}

}  // namespace mlxcomm
