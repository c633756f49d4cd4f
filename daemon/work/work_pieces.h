// How a work is cut into pieces, and the atomic word by which threads take pieces from both of its ends.
//
// A piece is small enough that its data stays in a core's cache, and that the loop soon returns to its other
// work. Large works have larger pieces, so that less time is lost between them.
//
//   cursor: [pieces | taken from the back | taken from the front], 21 bits each
//
// One fetch_add of kOneOfFront or kOneOfBack takes a piece; if both fields together had already reached the
// number of pieces, there was none. A thread that saw a piece and came too late still adds one, so pieces may
// fill only half of a field and never overflow into its neighbour.
//
// Owner: Workers. Thread: any. Memory: plain values.
#pragma once

#include <algorithm>
#include <cstdint>

#include "daemon/collective/action.h"

namespace mlxcomm {

// Bytes that a piece reads and writes: for small works, and at most.
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

// All inputs and outputs.
std::uint64_t BytesTouched(const collective::LocalWork& work);
// A multiple of whole vectors, so that only the last piece may have a rest; large enough that there are at
// most kPiecesMax pieces.
std::uint64_t ElementsOfPiece(const collective::LocalWork& work);
// Number of pieces of that many elements, of which the last may have fewer; >= 1.
std::uint64_t PiecesOf(const collective::LocalWork& work, std::uint64_t piece_elements);
// More than one piece, hence worth handing over to another thread.
bool HasSeveralPieces(const collective::LocalWork& work);

}  // namespace mlxcomm
