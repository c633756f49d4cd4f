// Valid entries, wrong entries, and garbage.
#include "daemon/intake/submission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace mlxcomm::intake::submission_check_test {
namespace {

class SubmissionCheckTest : public testing::Test {
 protected:
  static constexpr SessionId kSession = 3;

  queue::SubmissionEntry Fine() const {
    queue::SubmissionEntry entry{};
    entry.count = 16;
    entry.output_offset = 64;
    entry.kind = OperationKind::kAllReduce;
    entry.data_type = DataType::kFloat32;
    entry.reduce_operator = ReduceOperator::kSum;
    return entry;
  }
  absl::StatusOr<collective::Call> Check(const queue::SubmissionEntry& entry) {
    return CheckSubmission(kSession, entry, arena.data(), arena.size());
  }
  std::string WhyNot(const queue::SubmissionEntry& entry) {
    return std::string(Check(entry).status().message());
  }
  std::vector<std::byte> arena = std::vector<std::byte>(4096);
};

TEST_F(SubmissionCheckTest, NamesTheWrongArgument) {
  queue::SubmissionEntry entry = Fine();
  entry.output_offset = 4096 + 4;
  EXPECT_THAT(WhyNot(entry), testing::StartsWith("output"));
  entry = Fine();
  entry.input_offset = ~std::uint64_t{0} - 8;
  EXPECT_THAT(WhyNot(entry), testing::StartsWith("input"));
  entry = Fine();
  entry.count = std::uint64_t{1} << 62;  // times 4 would overflow.
  EXPECT_THAT(WhyNot(entry), testing::StartsWith("count"));
  entry = Fine();
  entry.input_offset = 2;
  EXPECT_THAT(WhyNot(entry), testing::HasSubstr("multiple"));
  EXPECT_TRUE(absl::IsInvalidArgument(Check(entry).status()));
}

TEST_F(SubmissionCheckTest, DetectsGarbage) {
  EXPECT_TRUE(Check(Fine()).ok());
  for (int value = 0; value < 256; ++value) {
    queue::SubmissionEntry kind = Fine();
    kind.kind = static_cast<OperationKind>(value);
    EXPECT_EQ(absl::IsDataLoss(Check(kind).status()), !IsValid(kind.kind)) << value;
    queue::SubmissionEntry type = Fine();
    type.data_type = static_cast<DataType>(value);
    EXPECT_EQ(absl::IsDataLoss(Check(type).status()), !IsValid(type.data_type)) << value;
    queue::SubmissionEntry reduce = Fine();
    reduce.reduce_operator = static_cast<ReduceOperator>(value);
    EXPECT_EQ(absl::IsDataLoss(Check(reduce).status()), !IsValid(reduce.reduce_operator)) << value;
    queue::SubmissionEntry plan = Fine();
    plan.plan = static_cast<PlanKind>(value);
    EXPECT_EQ(absl::IsDataLoss(Check(plan).status()), !IsValid(plan.plan)) << value;
  }
  queue::SubmissionEntry message = Fine();
  message.kind = OperationKind::kSend;
  message.set_check_word(1 << 23);
  EXPECT_TRUE(absl::IsDataLoss(Check(message).status()))
      << "both ends of a message are different calls";
}

// Why: only the group knows which ranks read and write (roots), so an unused offset must be 0.
TEST_F(SubmissionCheckTest, OffsetsLieInTheArenaWhetherUsedOrNot) {
  queue::SubmissionEntry entry = Fine();
  entry.kind = OperationKind::kSend;
  entry.output_offset = ~std::uint64_t{0};
  EXPECT_THAT(WhyNot(entry), testing::StartsWith("output"));
  entry.output_offset = 0;
  EXPECT_TRUE(Check(entry).ok());
  entry.kind = OperationKind::kBarrier;
  EXPECT_THAT(WhyNot(entry), testing::StartsWith("count"));
  entry.count = 0;
  EXPECT_TRUE(Check(entry).ok());
}

TEST_F(SubmissionCheckTest, TablesOfCountsLieInTheArena) {
  queue::SubmissionEntry entry = Fine();
  entry.kind = OperationKind::kAllToAllV;
  entry.count = 4096 - 8;
  ASSERT_TRUE(Check(entry).ok());
  EXPECT_EQ(Check(entry)->counts, arena.data() + 4096 - 8);
  EXPECT_EQ(Check(entry)->counts_bytes_available, 8u);
  entry.count = 4096 + 8;
  EXPECT_THAT(WhyNot(entry), testing::StartsWith("counts"));
  entry.count = 4;
  EXPECT_THAT(WhyNot(entry), testing::HasSubstr("multiple of 8"));
}

TEST_F(SubmissionCheckTest, AcceptsUpToTheWholeArena) {
  queue::SubmissionEntry entry = Fine();
  entry.count = 0;
  entry.input_offset = entry.output_offset = 4096;
  EXPECT_TRUE(Check(entry).ok());
  EXPECT_EQ(Check(entry)->output_bytes_available, 0u);
  entry.data_type = DataType::kInt8;  // No byte beyond the end, though nothing is read there.
  entry.input_offset = 4097;
  EXPECT_THAT(WhyNot(entry), testing::StartsWith("input"));
  entry = Fine();
  entry.input_offset = entry.output_offset = 0;
  entry.count = 1024;
  EXPECT_TRUE(Check(entry).ok());
  entry.count = 1025;
  EXPECT_TRUE(absl::IsInvalidArgument(Check(entry).status()));
}

// Why: a client may write any bytes.
// How: random bytes; an accepted entry must lie in the arena.
TEST_F(SubmissionCheckTest, NeverAcceptsMemoryOutsideTheArenaFromRandomBytes) {
  std::mt19937_64 random(1);
  int fine = 0;
  for (int i = 0; i < 200'000; ++i) {
    queue::SubmissionEntry entry = Fine();
    auto* const bytes = reinterpret_cast<unsigned char*>(&entry);
    for (int k = 0; k < 3; ++k)
      bytes[random() % sizeof entry] = static_cast<unsigned char>(random());
    const absl::StatusOr<collective::Call> checked = Check(entry);
    if (!checked.ok()) continue;
    ++fine;
    const collective::Call& s = *checked;
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
}  // namespace mlxcomm::intake::submission_check_test
