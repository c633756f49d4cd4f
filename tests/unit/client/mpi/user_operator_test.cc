#include "client/mpi/handles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>

namespace mlxcomm::mpi::user_operator_test {
namespace {

// The two types with just enough arithmetic for the four values.
struct BFloat16 {
  std::uint16_t bits;
  explicit operator float() const { return std::bit_cast<float>(std::uint32_t{bits} << 16); }
  static BFloat16 Of(float value) {
    const std::uint32_t whole = std::bit_cast<std::uint32_t>(value);
    return {static_cast<std::uint16_t>((whole + 0x7FFF + ((whole >> 16) & 1)) >> 16)};
  }
};
struct Float16 {
  std::uint16_t bits;
  explicit operator float() const {
    const int exponent = (bits >> 10) & 31;
    const float fraction = static_cast<float>(bits & 1023) / 1024;
    const float size =
        exponent == 0 ? std::ldexp(fraction, -14) : std::ldexp(1 + fraction, exponent - 15);
    return (bits & 0x8000) != 0 ? -size : size;
  }
  static Float16 Of(float value) {
    if (value == 0) return {0};
    int exponent = 0;
    const float mantissa = std::frexp(std::abs(value), &exponent);  // In [0.5, 1).
    const auto fraction = static_cast<std::uint16_t>(std::lrint((mantissa * 2 - 1) * 1024));
    const auto sign = static_cast<std::uint16_t>(value < 0 ? 0x8000 : 0);
    return {static_cast<std::uint16_t>(sign | ((exponent + 14) << 10) | fraction)};
  }
};

template <typename T, typename Combine>
void Each(void* in, void* out, const int* count, Combine combine) {
  for (int i = 0; i < *count; ++i) {
    T a, b;
    std::memcpy(&a, static_cast<T*>(in) + i, sizeof a);
    std::memcpy(&b, static_cast<T*>(out) + i, sizeof b);
    const T result = T::Of(combine(static_cast<float>(a), static_cast<float>(b)));
    std::memcpy(static_cast<T*>(out) + i, &result, sizeof result);
  }
}
template <typename T>
void Sum(void* in, void* out, int* count, MPI_Datatype*) {
  Each<T>(in, out, count, [](float a, float b) { return a + b; });
}
template <typename T>
void Max(void* in, void* out, int* count, MPI_Datatype*) {
  Each<T>(in, out, count, [](float a, float b) { return std::max(a, b); });
}
template <typename T>
void Min(void* in, void* out, int* count, MPI_Datatype*) {
  Each<T>(in, out, count, [](float a, float b) { return std::min(a, b); });
}
template <typename T>
void Product(void* in, void* out, int* count, MPI_Datatype*) {
  Each<T>(in, out, count, [](float a, float b) { return a * b; });
}
template <typename T>
void LargestSize(void* in, void* out, int* count, MPI_Datatype*) {
  Each<T>(in, out, count, [](float a, float b) { return std::abs(a) > std::abs(b) ? a : b; });
}
template <typename T>
void First(void*, void*, int*, MPI_Datatype*) {}
template <typename T>
void Difference(void* in, void* out, int* count, MPI_Datatype*) {
  Each<T>(in, out, count, [](float a, float b) { return a - b; });
}

template <typename T>
class UserOperatorTest : public testing::Test {};
using Halves = testing::Types<Float16, BFloat16>;
TYPED_TEST_SUITE(UserOperatorTest, Halves);

TYPED_TEST(UserOperatorTest, RecognizesSumMaxAndMin) {
  EXPECT_EQ(RecognizeOnHalves(&Sum<TypeParam>), MLXCOMM_SUM);
  EXPECT_EQ(RecognizeOnHalves(&Max<TypeParam>), MLXCOMM_MAX);
  EXPECT_EQ(RecognizeOnHalves(&Min<TypeParam>), MLXCOMM_MIN);
}

// Why: a wrongly recognized function would silently give wrong values.
TYPED_TEST(UserOperatorTest, RecognizesNothingElse) {
  EXPECT_EQ(RecognizeOnHalves(&Product<TypeParam>), std::nullopt);
  EXPECT_EQ(RecognizeOnHalves(&LargestSize<TypeParam>), std::nullopt);
  EXPECT_EQ(RecognizeOnHalves(&First<TypeParam>), std::nullopt);
  EXPECT_EQ(RecognizeOnHalves(&Difference<TypeParam>), std::nullopt);
}

// MLX's functions for complex64 are called too, and must not read beyond the values.
void MaxOfComplex(void* in, void* out, int* count, MPI_Datatype*) {
  for (int i = 0; i < *count; ++i) {
    std::complex<float> a, b;
    std::memcpy(&a, static_cast<char*>(in) + 8 * i, 8);
    std::memcpy(&b, static_cast<char*>(out) + 8 * i, 8);
    if (b.real() < a.real()) std::memcpy(static_cast<char*>(out) + 8 * i, &a, 8);
  }
}
TEST(UserOperatorTest, AcceptsFunctionsForLargerElements) {
  EXPECT_EQ(RecognizeOnHalves(&MaxOfComplex), MLXCOMM_MAX);  // Never used for complex64.
}

}  // namespace
}  // namespace mlxcomm::mpi::user_operator_test
