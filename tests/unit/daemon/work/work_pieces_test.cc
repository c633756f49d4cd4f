// How work items are divided, and taken from both ends.
#include "daemon/work/work_pieces.h"

#include <gtest/gtest.h>

namespace mlxcomm::work_pieces_test {
namespace {

collective::LocalWork Work(std::uint64_t elements, std::uint32_t buffers = 3,
                           DataType type = DataType::kFloat32) {
  collective::LocalWork work;
  work.type = type;
  work.input_count = buffers - 1;
  work.output_count = 1;
  work.elements = elements;
  return work;
}

TEST(WorkPiecesTest, AreSeveralAboveOnePieceOnly) {
  collective::LocalWork work = Work(0, 4, DataType::kFloat16);
  work.elements = kPieceBytes / 4 / 2;
  EXPECT_FALSE(HasSeveralPieces(work));
  EXPECT_EQ(PiecesOf(work, ElementsOfPiece(work)), 1u);
  ++work.elements;
  EXPECT_TRUE(HasSeveralPieces(work));
}

TEST(WorkPiecesTest, AreSlightlyLargerInLargeWorkItems) {
  for (const std::uint64_t bytes : {1ULL << 20, 8ULL << 20, 12ULL << 20, 1ULL << 24, 1ULL << 32}) {
    const collective::LocalWork work = Work(bytes / 4 / 4, 4);
    const std::uint64_t piece = ElementsOfPiece(work) * 4 * 4;
    EXPECT_GE(piece, kPieceBytes) << bytes;
    EXPECT_LE(piece, kLargePieceBytes) << bytes;
    EXPECT_EQ(piece == kPieceBytes, bytes <= 8 << 20) << bytes;
    EXPECT_EQ(piece == kLargePieceBytes, bytes >= 16 << 20) << bytes;
  }
}

// Why: a count that exceeds its field would take pieces twice.
TEST(WorkPiecesTest, AreNeverMoreThanCanBeCounted) {
  for (std::uint64_t steps = 1; steps < 1'000; steps = steps * 3 + 1) {
    const std::uint64_t edge = 512 * PieceCursor::kPiecesMax * steps;
    for (const std::uint64_t elements : {edge - 1, edge, edge + 1}) {
      for (const std::uint32_t buffers : {2u, 65u}) {
        const collective::LocalWork work = Work(elements, buffers, DataType::kInt8);
        const std::uint64_t piece = ElementsOfPiece(work);
        EXPECT_LE(PiecesOf(work, piece), PieceCursor::kPiecesMax) << elements;
        EXPECT_GE(PiecesOf(work, piece) * piece, elements);
      }
    }
  }
}

TEST(WorkPiecesTest, AreTakenOnceFromBothEndsWhicheverThreadIsLate) {
  std::uint64_t word = PieceCursor::Of(PieceCursor::kPiecesMax);
  for (std::uint64_t i = 0; i < PieceCursor::kPiecesMax; ++i) {
    const PieceCursor cursor(word);
    ASSERT_EQ(cursor.left(), PieceCursor::kPiecesMax - i);
    word += i % 3 == 0 ? PieceCursor::kOneOfBack : PieceCursor::kOneOfFront;
  }
  for (int late = 0; late < 1'000; ++late) {
    EXPECT_EQ(PieceCursor(word).left(), 0u);
    word += late % 2 == 0 ? PieceCursor::kOneOfBack : PieceCursor::kOneOfFront;
  }
}

}  // namespace
}  // namespace mlxcomm::work_pieces_test
