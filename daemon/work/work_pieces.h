// How a work is cut into pieces, and the word by which threads take them from both its ends.
//
// A piece is so small that what it reads and writes stays in a core's cache, and that the loop
// is soon back. Large works have larger ones, so that less time goes by between them.
//
//   cursor: [pieces | taken from the back | taken from the front], 21 bits each
//
// One fetch_add of kOneOfFront or kOneOfBack takes a piece; where both together were all pieces
// or more before it, there was none. Every thread that saw a piece and came too late still adds
// one, so pieces fill a field to its half only and never run into its neighbour.
//
// Owner: Workers. Thread: any. Memory: plain values.
#pragma once

#include <algorithm>
#include <cstdint>

#include "daemon/collective/action.h"

namespace mlxcomm {

// Read and written by a piece: of small works, and at the most.
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

// Of all inputs and outputs.
std::uint64_t BytesTouched(const collective::LocalWork& work);
// A multiple of whole vectors, so that all pieces but the last have no rest; at least so many
// that there are no more than kPiecesMax pieces.
std::uint64_t ElementsOfPiece(const collective::LocalWork& work);
// Of so many elements, the last one perhaps of fewer; >= 1.
std::uint64_t PiecesOf(const collective::LocalWork& work, std::uint64_t piece_elements);
// More than a piece, hence worth a hand-over to another thread.
bool HasSeveralPieces(const collective::LocalWork& work);

}  // namespace mlxcomm
