// Values that are passed and checked, against a plain computation of what each operation does.
#include "client/bench/values.h"

#include <cstring>
#include <vector>

#include <gtest/gtest.h>

namespace mlxcomm::bench::values_test {
namespace {

constexpr std::uint64_t kCount = 37;
constexpr std::uint32_t kSize = 3;

using Bytes = std::vector<std::uint8_t>;

Measured Rank(OperationKind kind, std::uint32_t rank, DataType type = DataType::kFloat32,
              ReduceOperator op = ReduceOperator::kNone) {
  return {.kind = kind, .type = type, .op = op, .rank = rank, .size = kSize};
}

Bytes InputOf(const Measured& measured) {
  Bytes input(InputElements(measured, kCount) * DataTypeBytes(measured.type));
  FillInput(measured, kCount, input.data());
  return input;
}

// Operations that move data unchanged: the output is assembled from the inputs.
Bytes Moved(OperationKind kind, std::uint32_t rank) {
  const auto input = [&](std::uint32_t of) { return InputOf(Rank(kind, of)); };
  const std::size_t block = kCount * sizeof(float);
  if (kind == OperationKind::kBroadcast) return input(0);
  if (kind == OperationKind::kGather && rank != 0) return {};
  if (kind == OperationKind::kScatter) {
    const Bytes all = input(0);
    const auto own = all.begin() + static_cast<std::ptrdiff_t>(rank * block);
    return {own, own + static_cast<std::ptrdiff_t>(block)};
  }
  if (kind == OperationKind::kSend) return input((rank + kSize - 1) % kSize);
  Bytes output;
  for (std::uint32_t from = 0; from < kSize; ++from) {
    const Bytes all = input(from);
    const std::size_t at = kind == OperationKind::kAllToAll ? rank * block : 0;
    output.insert(output.end(), all.begin() + static_cast<std::ptrdiff_t>(at),
                  all.begin() + static_cast<std::ptrdiff_t>(at + block));
  }
  return output;
}

TEST(ValuesTest, AreRightWhereDataWasMoved) {
  for (const OperationKind kind :
       {OperationKind::kBroadcast, OperationKind::kSend, OperationKind::kAllGather,
        OperationKind::kAllToAll, OperationKind::kGather, OperationKind::kScatter}) {
    for (std::uint32_t rank = 0; rank < kSize; ++rank) {
      const Bytes output = Moved(kind, rank);
      EXPECT_EQ(output.size(), OutputElements(Rank(kind, rank), kCount) * sizeof(float));
      EXPECT_EQ(CountWrong(Rank(kind, rank), kCount, output.data()), 0u) << OperationKindName(kind);
    }
  }
}

// Why: a check that accepts everything is useless.
TEST(ValuesTest, AreWrongWhereAnElementIsOrABlockIsAnothers) {
  Bytes output = Moved(OperationKind::kAllGather, 1);
  output[0] ^= 1;
  EXPECT_EQ(CountWrong(Rank(OperationKind::kAllGather, 1), kCount, output.data()), 1u);
  EXPECT_GT(CountWrong(Rank(OperationKind::kAllToAll, 1), kCount,
                       Moved(OperationKind::kAllToAll, 2).data()),
            kCount);
  EXPECT_GT(CountWrong(Rank(OperationKind::kScatter, 1), kCount,
                       Moved(OperationKind::kScatter, 2).data()),
            kCount / 2);
  EXPECT_GT(
      CountWrong(Rank(OperationKind::kSend, 1), kCount, Moved(OperationKind::kSend, 2).data()),
      kCount / 2);
}

float Combine(ReduceOperator op, float a, float b) {
  switch (op) {
    case ReduceOperator::kProduct: return a * b;
    case ReduceOperator::kMin: return std::min(a, b);
    case ReduceOperator::kMax: return std::max(a, b);
    default: return a + b;
  }
}

TEST(ValuesTest, AreRightWhereTheyWereCombined) {
  for (const ReduceOperator op :
       {ReduceOperator::kSum, ReduceOperator::kProduct, ReduceOperator::kMin, ReduceOperator::kMax,
        ReduceOperator::kMean}) {
    for (const OperationKind kind :
         {OperationKind::kAllReduce, OperationKind::kReduceScatter, OperationKind::kReduce}) {
      const bool root_alone = kind == OperationKind::kReduce;
      const Measured measured = Rank(kind, root_alone ? 0 : 1, DataType::kFloat32, op);
      std::vector<float> output(InputElements(measured, kCount));
      for (std::uint32_t rank = 0; rank < kSize; ++rank) {
        std::vector<float> input(output.size());
        FillInput(Rank(kind, rank, DataType::kFloat32, op), kCount, input.data());
        for (std::size_t i = 0; i < input.size(); ++i) {
          output[i] = rank == 0 ? input[i] : Combine(op, output[i], input[i]);
        }
      }
      if (op == ReduceOperator::kMean)
        for (float& value : output) value /= kSize;
      const std::size_t own = kind == OperationKind::kReduceScatter ? kCount : 0;
      EXPECT_EQ(CountWrong(measured, kCount, output.data() + own), 0u) << ReduceOperatorName(op);
      output[own + 3] += 1;
      EXPECT_EQ(CountWrong(measured, kCount, output.data() + own), 1u);
    }
  }
}

// Why: each type has its own way to be written.
// How: a rank that is alone must find the values that it passes.
TEST(ValuesTest, AreRightInEveryType) {
  for (int number = 1; number < 32; ++number) {
    const auto type = static_cast<DataType>(number);
    if (!IsValid(type)) continue;
    Measured alone = Rank(OperationKind::kAllReduce, 0, type, ReduceOperator::kSum);
    alone.size = 1;
    Bytes data = InputOf(alone);
    EXPECT_EQ(CountWrong(alone, kCount, data.data()), 0u) << DataTypeName(type);
    std::memset(data.data(), 0xa5, data.size());
    EXPECT_EQ(CountWrong(alone, kCount, data.data()), kCount) << DataTypeName(type);
  }
}

TEST(ValuesTest, AreWholeNumbersInHalfPrecision) {
  Measured one = Rank(OperationKind::kAllReduce, 0, DataType::kFloat16, ReduceOperator::kMean);
  one.size = 1;  // A mean of one rank passes 1 to 4.
  std::uint16_t halves[kCount];
  FillInput(one, kCount, halves);
  for (const std::uint16_t half : halves) {
    EXPECT_TRUE(half == 0x3c00 || half == 0x4000 || half == 0x4200 || half == 0x4400) << half;
  }
}

}  // namespace
}  // namespace mlxcomm::bench::values_test
