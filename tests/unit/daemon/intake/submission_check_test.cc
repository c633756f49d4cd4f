// What a client can have meant, what it cannot have meant, and garbage.
#include "daemon/intake/submission_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

namespace mlxcomm::intake {
namespace {

class SubmissionCheckTest : public testing::Test {
 protected:
  queue::SubmissionEntry Fine() const {
    queue::SubmissionEntry entry{};
    entry.count = 16;
    entry.output_offset = 64;
    entry.kind = OperationKind::kAllReduce;
    entry.data_type = DataType::kFloat32;
    entry.reduce_operator = ReduceOperator::kSum;
    return entry;
  }
  CheckedSubmission Check(const queue::SubmissionEntry& entry) {
    return CheckSubmission(entry, arena.data(), arena.size());
  }
  std::vector<std::byte> arena = std::vector<std::byte>(4096);
};

TEST_F(SubmissionCheckTest, AcceptsRangesInsideTheArena) {
  const CheckedSubmission checked = Check(Fine());
  ASSERT_EQ(checked.finding, Finding::kFine);
  EXPECT_EQ(checked.submission.input, arena.data());
  EXPECT_EQ(checked.submission.output, arena.data() + 64);
  EXPECT_EQ(checked.submission.output_bytes_available, 4096u - 64);
}

TEST_F(SubmissionCheckTest, NamesTheArgumentThatIsWrong) {
  queue::SubmissionEntry entry = Fine();
  entry.output_offset = 4096 + 4;
  EXPECT_THAT(Check(entry).message, testing::StartsWith("output"));
  entry = Fine();
  entry.input_offset = ~std::uint64_t{0} - 8;
  EXPECT_THAT(Check(entry).message, testing::StartsWith("input"));
  entry = Fine();
  entry.count = std::uint64_t{1} << 62;  // times 4 would overflow.
  EXPECT_THAT(Check(entry).message, testing::StartsWith("count"));
  entry = Fine();
  entry.input_offset = 2;
  EXPECT_THAT(Check(entry).message, testing::HasSubstr("multiple"));
  EXPECT_EQ(Check(entry).finding, Finding::kWrong);
}

// Why: a client may write anything there. How: random bytes; whatever passes must lie
// in the arena.
TEST_F(SubmissionCheckTest, NeverAcceptsMemoryOutsideTheArenaFromRandomBytes) {
  std::mt19937_64 random(1);
  int fine = 0;
  for (int i = 0; i < 200'000; ++i) {
    queue::SubmissionEntry entry = Fine();
    auto* const bytes = reinterpret_cast<unsigned char*>(&entry);
    for (int k = 0; k < 3; ++k) bytes[random() % sizeof entry] = static_cast<unsigned char>(random());
    const CheckedSubmission checked = Check(entry);
    if (checked.finding != Finding::kFine) continue;
    ++fine;
    const Submission& s = checked.submission;
    if (s.input != nullptr) {
      ASSERT_GE(s.input, arena.data());
      ASSERT_LE(s.input + s.input_bytes_available, arena.data() + arena.size());
    }
    if (s.output != nullptr) {
      ASSERT_LE(s.output + s.output_bytes_available, arena.data() + arena.size());
    }
  }
  EXPECT_GT(fine, 0);
}

}  // namespace
}  // namespace mlxcomm::intake
