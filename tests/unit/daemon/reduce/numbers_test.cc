// The required values: special numbers, overflow, rounding, error bounds.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "daemon/reduce/kernels.h"
#include "tests/ground/half.h"
#include "tests/unit/daemon/reduce/buffers.h"
#include "tests/unit/daemon/reduce/oracle.h"

namespace mlxcomm::reduce::numbers_test {
namespace {

using oracle::Bits;

constexpr DataType kReals[] = {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16,
                               DataType::kFloat64};
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// One element made from a number, as a number.
double CombineNumbers(const Reduction& reduction, const std::vector<double>& numbers) {
  std::vector<Bits> column;
  for (const double number : numbers) column.push_back(oracle::Nearest(reduction.type, number));
  return oracle::Number(reduction.type, Combined(reduction, {column})[0]);
}

// Why: all ranks must notice that one rank's loss is NaN; the machine's own minimum and maximum
// drop a NaN on one side.
TEST(SpecialsTest, PropagatesNaNFromAnyInput) {
  OnEveryTarget([] {
    for (const DataType type : kReals) {
      for (const ReduceOperator op : oracle::kOperators) {
        if (!HasMeaning(type, op)) continue;
        for (std::size_t place = 0; place < 4; ++place) {
          std::vector<double> numbers = {1, -kInfinity, kInfinity, 0};
          numbers[place] = kNaN;
          EXPECT_TRUE(std::isnan(CombineNumbers({type, op}, numbers)))
              << DataTypeName(type) << " " << ReduceOperatorName(op) << ", NaN at " << place;
        }
      }
    }
  });
}

TEST(SpecialsTest, PropagatesInfinities) {
  OnEveryTarget([] {
    for (const DataType type : kReals) {
      EXPECT_EQ(CombineNumbers({type, ReduceOperator::kSum}, {1, kInfinity, -7}), kInfinity);
      EXPECT_EQ(CombineNumbers({type, ReduceOperator::kProduct}, {2, kInfinity, -1}), -kInfinity);
      EXPECT_EQ(CombineNumbers({type, ReduceOperator::kMin}, {2, -kInfinity, 3}), -kInfinity);
      EXPECT_EQ(CombineNumbers({type, ReduceOperator::kMin}, {kInfinity, 2, 3}), 2);
      EXPECT_EQ(CombineNumbers({type, ReduceOperator::kMax}, {2, kInfinity, 3}), kInfinity);
      EXPECT_EQ(CombineNumbers({type, ReduceOperator::kMean, 3}, {2, -kInfinity, 3}), -kInfinity);
      EXPECT_TRUE(
          std::isnan(CombineNumbers({type, ReduceOperator::kSum}, {kInfinity, -kInfinity})));
    }
  });
}

// Why: -0 equals +0, so a minimum may keep either; ranks and plans that combine in another order
// must agree in every bit.
TEST(SpecialsTest, OrdersNegativeZeroBelowZeroWhicheverComesFirst) {
  OnEveryTarget([] {
    for (const DataType type : kReals) {
      for (const auto& zeros : {std::vector<double>{0.0, -0.0}, std::vector<double>{-0.0, 0.0}}) {
        EXPECT_TRUE(std::signbit(CombineNumbers({type, ReduceOperator::kMin}, zeros)));
        EXPECT_FALSE(std::signbit(CombineNumbers({type, ReduceOperator::kMax}, zeros)));
      }
    }
  });
}

// Why: this is the order of MLX, its backends, and numpy.
TEST(ComplexTest, IsOrderedByTheRealPartThenTheImaginary) {
  const auto complex = [](float real, float imaginary) {
    return oracle::BitsOf(real) | oracle::BitsOf(imaginary) << 32;
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  OnEveryTarget([&] {
    const auto combine = [&](ReduceOperator op, oracle::Bits a, oracle::Bits b) {
      return Combined({DataType::kComplex64, op}, {{a, b}})[0];
    };
    EXPECT_EQ(combine(ReduceOperator::kMax, complex(2, -9), complex(1, 9)), complex(2, -9));
    EXPECT_EQ(combine(ReduceOperator::kMin, complex(2, -9), complex(1, 9)), complex(1, 9));
    EXPECT_EQ(combine(ReduceOperator::kMax, complex(1, 2), complex(1, 3)), complex(1, 3));
    EXPECT_EQ(combine(ReduceOperator::kMin, complex(1, 2), complex(1, 3)), complex(1, 2));
    for (const oracle::Bits part : {complex(nan, 1), complex(-5, nan)}) {
      EXPECT_EQ(combine(ReduceOperator::kMax, part, complex(9, 9)), part);
      EXPECT_EQ(combine(ReduceOperator::kMax, complex(9, 9), part), part);
    }
  });
}

// Why: the sum of float16 must neither overflow before the division nor be rounded twice.
TEST(MeanTest, DividesHalvesBeforeTheyAreRounded) {
  OnEveryTarget([] {
    const auto mean = ReduceOperator::kMean;
    EXPECT_EQ(CombineNumbers({DataType::kFloat16, mean, 2}, {60000, 65504}), 62752);
    // The sum 2049 would first be rounded to 2048, and the mean be 682.5.
    EXPECT_EQ(CombineNumbers({DataType::kFloat16, mean, 3}, {683, 683, 683}), 683);
    EXPECT_EQ(CombineNumbers({DataType::kBfloat16, mean, 4}, {3, 3, 3, 3}), 3);
  });
}

// Why: the last step of a plan may have one buffer left: summed, but not divided.
TEST(MeanTest, DividesASingleInput) {
  OnEveryTarget([] {
    for (const DataType type : kReals) {
      EXPECT_EQ(CombineNumbers({type, ReduceOperator::kMean, 8}, {12}), 1.5);
      EXPECT_EQ(CombineNumbers({type, ReduceOperator::kMean, 1}, {12}), 12);
    }
  });
}

struct Unit {
  double combined;  // Of the type in which elements are combined.
  double stored;    // Of the type in which they are stored; 0 if that is the same.
  double least;     // Half the distance of subnormals, if results are rounded to them.
};

Unit UnitOf(DataType type) {
  switch (type) {
    case DataType::kFloat16: return {0x1p-24, 0x1p-11, 0x1p-25};
    case DataType::kBfloat16: return {0x1p-24, 0x1p-8, 0x1p-134};
    case DataType::kFloat64: return {0x1p-53, 0, 0};
    default: return {0x1p-24, 0, 0};
  }
}

// Integers up to 2^bits times 2^-10, exact in the type, so that sums of 64 of them are exact in
// int64: an oracle without an error of its own. Signs make sums cancel.
std::vector<std::int64_t> RandomTerms(DataType type, std::size_t count, std::mt19937_64& random) {
  int bits = 24;
  if (type == DataType::kFloat16) bits = 11;
  if (type == DataType::kBfloat16) bits = 8;
  if (type == DataType::kFloat64) bits = 53;
  std::vector<std::int64_t> terms;
  for (std::size_t k = 0; k < count; ++k) {
    const auto magnitude = static_cast<std::int64_t>(random() >> (64 - bits));
    terms.push_back(random() % 2 == 0 ? magnitude : -magnitude);
  }
  return terms;
}

// Why: users judge precision by the bound in kernels.h; it must hold exactly. How: 2 to 64 terms
// whose sum is known exactly, many times. The difference is computed in integers, except for a
// mean.
TEST(ErrorTest, OfSumsIsWithinTheBoundFor2To64Inputs) {
  std::mt19937_64 random(13);
  for (const DataType type : kReals) {
    const Unit unit = UnitOf(type);
    for (std::size_t count = 2; count <= 64; ++count) {
      std::vector<std::vector<std::int64_t>> terms;
      std::vector<std::vector<Bits>> columns;
      for (int i = 0; i < 100; ++i) {
        std::vector<Bits>& column = columns.emplace_back();
        for (const std::int64_t term : terms.emplace_back(RandomTerms(type, count, random))) {
          column.push_back(oracle::Nearest(type, static_cast<double>(term) * 0x1p-10));
        }
      }
      const auto sums = Combined({type, ReduceOperator::kSum}, columns);
      for (std::size_t i = 0; i < columns.size(); ++i) {
        std::int64_t exact = 0;
        double magnitudes = 0;
        for (const std::int64_t term : terms[i]) {
          exact += term;
          magnitudes += std::abs(static_cast<double>(term));
        }
        const double scaled = oracle::Number(type, sums[i]) * 0x1p10;
        ASSERT_EQ(scaled, std::trunc(scaled));  // All are multiples of 2^-10.
        const auto error = static_cast<double>(static_cast<std::int64_t>(scaled) - exact);
        const double steps = static_cast<double>(count - 1) * unit.combined;
        const double bound = (unit.stored + (1 + unit.stored) * steps) * magnitudes;
        ASSERT_LE(std::abs(error), bound + unit.least * 0x1p10)
            << DataTypeName(type) << ", " << count << " inputs";
      }
    }
  }
}

TEST(ErrorTest, OfMeansIsThatOfSumsDividedAndOneMoreRounding) {
  std::mt19937_64 random(17);
  for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16}) {
    const Unit unit = UnitOf(type);
    for (std::uint32_t count = 2; count <= 64; ++count) {
      const std::vector<std::int64_t> terms = RandomTerms(type, count, random);
      std::vector<double> numbers;
      double exact = 0;
      double magnitudes = 0;
      for (const std::int64_t term : terms) {
        numbers.push_back(static_cast<double>(term));
        exact += numbers.back();
        magnitudes += std::abs(numbers.back());
      }
      if (type == DataType::kFloat16) {  // Values near 1, not near the largest float16.
        for (double& number : numbers) number *= 0x1p-10;
        exact *= 0x1p-10;
        magnitudes *= 0x1p-10;
      }
      const double mean = CombineNumbers({type, ReduceOperator::kMean, count}, numbers);
      const double steps = static_cast<double>(count - 1) * unit.combined;
      const double sums = (unit.stored + (1 + unit.stored) * steps) * magnitudes;
      const double bound = (sums + (1 + unit.stored) * unit.combined * (magnitudes + sums)) / count;
      ASSERT_LE(std::abs(mean - exact / count), bound + unit.least)
          << DataTypeName(type) << ", " << count << " inputs";
    }
  }
}

// Why: a kernel with its own conversion must round like the scalar code.
// How: every 16-bit pattern with another one, in vectors.
TEST(HalfTest, ConvertsEveryPatternAsScalarCodeDoes) {
  OnEveryTarget([] {
    for (const DataType type : {DataType::kFloat16, DataType::kBfloat16}) {
      std::vector<std::vector<Bits>> columns;
      for (Bits i = 0; i < 65536; ++i) columns.push_back({i, (i * 40503 + 12345) & 0xffff});
      for (const ReduceOperator op : {ReduceOperator::kSum, ReduceOperator::kProduct}) {
        const auto result = Combined({type, op}, columns);
        for (std::size_t i = 0; i < columns.size(); ++i) {
          const Bits expected = oracle::Expected({type, op}, columns[i]);
          ASSERT_TRUE(oracle::Agree(type, result[i], expected))
              << DataTypeName(type) << " " << columns[i][0] << " and " << columns[i][1];
        }
      }
    }
  });
}

TEST(HalfTest, RoundsToNearestEvenAndKeepsSpecials) {
  EXPECT_EQ(Float16FromFloat(1.0f), 0x3c00);
  EXPECT_EQ(Float16FromFloat(65504.0f), 0x7bff);
  EXPECT_EQ(Float16FromFloat(65519.9f), 0x7bff);
  EXPECT_EQ(Float16FromFloat(65520.0f), 0x7c00);
  EXPECT_EQ(Float16FromFloat(-std::numeric_limits<float>::infinity()), 0xfc00);
  EXPECT_EQ(Float16FromFloat(0x1p-24f), 0x0001);
  EXPECT_EQ(Float16FromFloat(0x1p-25f), 0x0000);         // A tie: to even.
  EXPECT_EQ(Float16FromFloat(1.0f + 0x1p-11f), 0x3c00);  // A tie: to even.
  EXPECT_TRUE(std::isnan(FloatFromFloat16(Float16FromFloat(std::nanf("")))));
  EXPECT_EQ(Bfloat16FromFloat(1.0f + 0x1p-8f), 0x3f80);  // A tie: to even.
  EXPECT_EQ(Bfloat16FromFloat(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_TRUE(std::isnan(FloatFromBfloat16(Bfloat16FromFloat(std::nanf("")))));
  for (std::uint32_t half = 0; half < 65536; ++half) {
    const float value = FloatFromFloat16(static_cast<std::uint16_t>(half));
    if (std::isnan(value)) continue;
    ASSERT_EQ(Float16FromFloat(value), half);
  }
}

}  // namespace
}  // namespace mlxcomm::reduce::numbers_test
