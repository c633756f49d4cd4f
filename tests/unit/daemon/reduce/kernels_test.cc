// Kernels against plain loops, bit by bit.
#include "daemon/reduce/kernels.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "daemon/reduce/half.h"

namespace mlxcomm::reduce {
namespace {

struct Case {
  DataType type;
  std::size_t inputs;
  std::size_t outputs;
};

class CombineTest : public testing::TestWithParam<Case> {};

// An independent statement of what one element becomes.
std::uint32_t Expected(DataType type, const std::vector<std::uint32_t>& elements) {
  if (type == DataType::kInt32) {
    std::uint32_t sum = 0;
    for (const std::uint32_t element : elements) sum += element;
    return sum;
  }
  const auto to_float = [type](std::uint32_t bits) {
    if (type == DataType::kFloat32) return std::bit_cast<float>(bits);
    const auto half = static_cast<std::uint16_t>(bits);
    return type == DataType::kFloat16 ? FloatFromFloat16(half) : FloatFromBfloat16(half);
  };
  float sum = to_float(elements[0]);
  for (std::size_t k = 1; k < elements.size(); ++k) sum += to_float(elements[k]);
  if (type == DataType::kFloat32) return std::bit_cast<std::uint32_t>(sum);
  return type == DataType::kFloat16 ? Float16FromFloat(sum) : Bfloat16FromFloat(sum);
}

std::uint32_t ElementAt(const std::vector<std::byte>& buffer, std::size_t bytes, std::size_t i) {
  std::uint32_t value = 0;
  std::memcpy(&value, buffer.data() + i * bytes, bytes);
  return value;
}

// Why: SIMD bodies, tails and streaming stores are different code; a rank whose
// buffer is cut elsewhere would differ from the others in the last bits.
// How: random numbers of ordinary size for every length around the vector sizes,
// aligned and off by one element, both kinds of stores.
TEST_P(CombineTest, EqualsPlainLoopForEveryLengthAndAlignment) {
  const Case& c = GetParam();
  const std::size_t bytes = DataTypeBytes(c.type);
  std::mt19937 random(7);
  std::uniform_real_distribution<float> numbers(-100, 100);
  for (const std::size_t elements : {0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 64, 127, 1025}) {
    for (const std::size_t shift : {0, 1}) {
      for (const Stores stores : {Stores::kOrdinary, Stores::kNonTemporal}) {
        std::vector<std::vector<std::byte>> in(c.inputs), out(c.outputs);
        std::vector<const std::byte*> inputs;
        std::vector<std::byte*> outputs;
        for (auto& buffer : in) {
          buffer.resize((elements + shift) * bytes);
          for (std::size_t i = 0; i < elements + shift; ++i) {
            const float number = numbers(random);
            std::uint32_t bits = std::bit_cast<std::uint32_t>(number);
            if (c.type == DataType::kFloat16) bits = Float16FromFloat(number);
            if (c.type == DataType::kBfloat16) bits = Bfloat16FromFloat(number);
            std::memcpy(buffer.data() + i * bytes, &bits, bytes);
          }
          inputs.push_back(buffer.data() + shift * bytes);
        }
        for (auto& buffer : out) {
          buffer.resize((elements + shift) * bytes);
          outputs.push_back(buffer.data() + shift * bytes);
        }
        Combine(c.type, ReduceOperator::kSum, inputs.data(), c.inputs, outputs.data(), c.outputs,
                elements, stores);
        for (std::size_t i = 0; i < elements; ++i) {
          std::vector<std::uint32_t> row;
          for (const auto& buffer : in) row.push_back(ElementAt(buffer, bytes, i + shift));
          for (const auto& buffer : out) {
            ASSERT_EQ(ElementAt(buffer, bytes, i + shift),
                      c.inputs == 1 ? row[0] : Expected(c.type, row))
                << DataTypeName(c.type) << " element " << i << " of " << elements;
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, CombineTest,
    testing::Values(Case{DataType::kFloat32, 1, 1}, Case{DataType::kFloat32, 2, 1},
                    Case{DataType::kFloat32, 2, 2}, Case{DataType::kFloat32, 5, 3},
                    Case{DataType::kFloat16, 1, 2}, Case{DataType::kFloat16, 2, 1},
                    Case{DataType::kFloat16, 4, 4}, Case{DataType::kBfloat16, 2, 2},
                    Case{DataType::kBfloat16, 3, 1}, Case{DataType::kInt32, 2, 1},
                    Case{DataType::kInt32, 3, 3}));

TEST(CombineTest, WritesOverAnInputWhenInPlace) {
  std::vector<float> a(1000, 1), b(1000, 2);
  const std::byte* inputs[] = {reinterpret_cast<std::byte*>(a.data()),
                               reinterpret_cast<std::byte*>(b.data())};
  std::byte* outputs[] = {reinterpret_cast<std::byte*>(a.data())};
  Combine(DataType::kFloat32, ReduceOperator::kSum, inputs, 2, outputs, 1, a.size(),
          Stores::kOrdinary);
  for (const float value : a) ASSERT_EQ(value, 3);
}

// Why: a kernel that converts on its own must round like the scalar code.
// How: every 16-bit pattern plus a neighbour, through vectors of that pattern.
TEST(CombineTest, ConvertsEveryHalfAsScalarCodeDoes) {
  for (const DataType type : {DataType::kFloat16, DataType::kBfloat16}) {
    std::vector<std::uint16_t> all(65536), other(65536), sum(65536);
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i] = static_cast<std::uint16_t>(i);
      other[i] = static_cast<std::uint16_t>((i * 40503 + 12345) & 0xffff);
    }
    const std::byte* inputs[] = {reinterpret_cast<std::byte*>(all.data()),
                                 reinterpret_cast<std::byte*>(other.data())};
    std::byte* outputs[] = {reinterpret_cast<std::byte*>(sum.data())};
    Combine(type, ReduceOperator::kSum, inputs, 2, outputs, 1, all.size(), Stores::kOrdinary);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::uint32_t expected = Expected(type, {all[i], other[i]});
      const bool nan = type == DataType::kFloat16
                           ? std::isnan(FloatFromFloat16(static_cast<std::uint16_t>(expected)))
                           : std::isnan(FloatFromBfloat16(static_cast<std::uint16_t>(expected)));
      if (nan) {  // Which NaN comes out of NaN + NaN is the machine's choice.
        ASSERT_TRUE(std::isnan(type == DataType::kFloat16 ? FloatFromFloat16(sum[i])
                                                          : FloatFromBfloat16(sum[i])));
      } else {
        ASSERT_EQ(sum[i], expected) << DataTypeName(type) << " " << all[i] << " + " << other[i];
      }
    }
  }
}

TEST(HalfTest, RoundsToNearestEvenAndKeepsSpecials) {
  EXPECT_EQ(Float16FromFloat(1.0f), 0x3c00);
  EXPECT_EQ(Float16FromFloat(65504.0f), 0x7bff);
  EXPECT_EQ(Float16FromFloat(65519.9f), 0x7bff);
  EXPECT_EQ(Float16FromFloat(65520.0f), 0x7c00);
  EXPECT_EQ(Float16FromFloat(-std::numeric_limits<float>::infinity()), 0xfc00);
  EXPECT_EQ(Float16FromFloat(0x1p-24f), 0x0001);
  EXPECT_EQ(Float16FromFloat(0x1p-25f), 0x0000);       // A tie: to even.
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
}  // namespace mlxcomm::reduce
