// Divides a work item into pieces, and has the atomic word by which threads take pieces from both
// ends.
//
// A piece fits a core's cache and lets the loop return to its other work soon. Large work items
// have larger pieces, so that less time is lost between them.
//
//   cursor: [pieces | taken from the back | taken from the front], 21 bits each
//
// One fetch_add of kOneOfFront or kOneOfBack takes a piece, if any was left. A thread that is too
// late still adds one, so pieces fill at most half of a field.
#pragma once

#include <algorithm>
#include <cstdint>

#include "daemon/collective/action.h"
#include "daemon/reduce/kernels.h"

namespace mlxcomm {

// Bytes that a piece reads and writes: in small work items, and the maximum.
inline constexpr std::uint64_t kPieceBytes = 256 * 1024;
inline constexpr std::uint64_t kLargePieceBytes = 512 * 1024;

struct PieceCursor {
  static constexpr std::uint32_t kBits = 21;
  static constexpr std::uint64_t kField = (std::uint64_t{1} << kBits) - 1;
  static constexpr std::uint64_t kPiecesMax = kField / 2;
  static constexpr std::uint64_t kOneOfFront = 1;
  static constexpr std::uint64_t kOneOfBack = std::uint64_t{1} << kBits;

  explicit PieceCursor(std::uint64_t word)
      : pieces(word >> (2 * kBits)), of_back((word >> kBits) & kField), of_front(word & kField) {}
  static std::uint64_t Of(std::uint64_t pieces) { return pieces << (2 * kBits); }
  std::uint64_t left() const { return pieces - std::min(pieces, of_front + of_back); }

  std::uint64_t pieces;
  std::uint64_t of_back;
  std::uint64_t of_front;
};

std::uint64_t BytesTouched(const collective::LocalWork& work);
// A multiple of whole vectors, so that only the last piece may have a remainder.
std::uint64_t ElementsOfPiece(const collective::LocalWork& work);
std::uint64_t PiecesOf(const collective::LocalWork& work, std::uint64_t piece_elements);
// Returns whether other threads can help.
bool HasSeveralPieces(const collective::LocalWork& work);

// Combines or copies these elements.
void DoPart(const collective::LocalWork& work, std::uint64_t first, std::uint64_t elements,
            reduce::Stores stores);
// Does the whole work on the calling thread, and stores it into the cache.
void DoWork(const collective::LocalWork& work);

}  // namespace mlxcomm
