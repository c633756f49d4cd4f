#include "client/bench/values.h"

#include <algorithm>
#include <array>
#include <bit>
#include <complex>

#include "proto/types/operation_shape.h"

namespace mlxcomm::bench {
namespace {

// On each rank, all elements of one mix have the same value.
constexpr std::uint32_t kMixes = 4;
// Later ranks pass 0, so that sums remain exact in bfloat16.
constexpr std::uint32_t kRanksThatDiffer = 64;
using PerMix = std::array<std::uint32_t, kMixes>;

std::uint32_t Mix(std::uint64_t element) {
  return static_cast<std::uint32_t>((element * 0x9e3779b97f4a7c15ull) >> 62);
}

// The number that a rank passes, below 8. In a mean, the differences between ranks cancel out; in a
// product, all but one rank pass 1, because float16 is limited to 65504.
std::uint32_t Passed(const Measured& measured, std::uint32_t rank, std::uint32_t mix) {
  if (measured.type == DataType::kBool) return (mix + rank) % 2;
  if (measured.op == ReduceOperator::kProduct) return rank == mix % measured.size ? 2 + mix : 1;
  if (measured.op == ReduceOperator::kMean) {
    const bool alone = measured.size % 2 == 1 && rank + 1 == measured.size;
    return mix + 1 + (alone ? 0 : rank % 2 == 0 ? 1u : ~0u);
  }
  return rank < kRanksThatDiffer ? (mix + 3 * rank) % 4 : 0;
}

std::uint32_t Combined(const Measured& measured, const Sources& sources, std::uint32_t mix) {
  if (measured.op == ReduceOperator::kMean) return mix + 1;
  std::uint32_t all = Passed(measured, sources.begin, mix);
  for (std::uint32_t rank = sources.begin + 1; rank < sources.end; ++rank) {
    const std::uint32_t one = Passed(measured, rank, mix);
    switch (measured.op) {
      case ReduceOperator::kProduct: all *= one; break;
      case ReduceOperator::kMin: all = std::min(all, one); break;
      case ReduceOperator::kMax: all = std::max(all, one); break;
      case ReduceOperator::kAnd: all &= one; break;
      case ReduceOperator::kOr: all |= one; break;
      default: all += one;
    }
  }
  return measured.type == DataType::kBool ? std::min(all, 1u) : all;
}

// Integers are exact in float16 up to 2048, and in bfloat16 up to 256.
std::uint16_t Float16Bits(std::uint32_t number) {
  if (number == 0) return 0;
  const auto exponent = static_cast<std::uint32_t>(std::bit_width(number)) - 1;
  return static_cast<std::uint16_t>((15 + exponent) << 10 | ((number << (10 - exponent)) & 0x3ffu));
}
std::uint16_t Bfloat16Bits(std::uint32_t number) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(number)) >> 16);
}

template <typename Element>
Element Encode(std::uint32_t number) {
  return static_cast<Element>(number);
}
template <>
std::complex<float> Encode(std::uint32_t number) {
  return {static_cast<float>(number), 0};
}

template <typename Element>
using Elements = std::array<Element, kMixes>;

// Calls `use` with the numbers as elements of the type.
template <typename Use>
auto As(DataType type, const PerMix& numbers, const Use& use) {
  const auto encoded = [&]<typename Element>(Element (*encode)(std::uint32_t)) {
    Elements<Element> elements;
    std::ranges::transform(numbers, elements.begin(), encode);
    return use(elements);
  };
  switch (type) {
    case DataType::kFloat32: return encoded(Encode<float>);
    case DataType::kFloat16: return encoded(Float16Bits);
    case DataType::kBfloat16: return encoded(Bfloat16Bits);
    case DataType::kFloat64: return encoded(Encode<double>);
    case DataType::kComplex64: return encoded(Encode<std::complex<float>>);
    default: break;
  }
  switch (DataTypeBytes(type)) {
    case 1: return encoded(Encode<std::uint8_t>);
    case 2: return encoded(Encode<std::uint16_t>);
    case 4: return encoded(Encode<std::uint32_t>);
    default: return encoded(Encode<std::uint64_t>);
  }
}

PerMix PassedBy(const Measured& measured, std::uint32_t rank) {
  PerMix numbers;
  for (std::uint32_t mix = 0; mix < kMixes; ++mix) numbers[mix] = Passed(measured, rank, mix);
  return numbers;
}

// Checks `count` elements of the output from `at` on, which come from element `first` of an input.
std::uint64_t CountWrongIn(DataType type, const PerMix& numbers, std::uint64_t first,
                           std::uint64_t count, const void* output, std::uint64_t at) {
  return As(type, numbers, [&]<typename Element>(const Elements<Element>& expected) {
    const Element* const elements = static_cast<const Element*>(output) + at;
    std::uint64_t wrong = 0;
    for (std::uint64_t i = 0; i < count; ++i) wrong += elements[i] != expected[Mix(first + i)];
    return wrong;
  });
}

ShapeRequest RequestOf(const Measured& measured, std::uint64_t count) {
  return {.kind = measured.kind,
          .count = count,
          .rank = measured.rank,
          .size = measured.size,
          .root = kRoot};
}

// Returns an empty shape if a size exceeds the limits; the operation then fails.
OperationShape ShapeAt(const Measured& measured, std::uint64_t count) {
  OperationShape shape;
  return ShapeOf(RequestOf(measured, count), shape) ? shape : OperationShape{};
}

}  // namespace

std::uint64_t InputElements(const Measured& measured, std::uint64_t count) {
  return ShapeAt(measured, count).input_elements;
}

// kSend also receives.
std::uint64_t OutputElements(const Measured& measured, std::uint64_t count) {
  return IsPointToPoint(measured.kind) ? count : ShapeAt(measured, count).output_elements;
}

void FillInput(const Measured& measured, std::uint64_t count, void* input) {
  const std::uint64_t elements = InputElements(measured, count);
  As(measured.type, PassedBy(measured, measured.rank),
     [&]<typename Element>(const Elements<Element>& numbers) {
       auto* const to = static_cast<Element*>(input);
       for (std::uint64_t i = 0; i < elements; ++i) to[i] = numbers[Mix(i)];
     });
}

std::uint64_t CountWrong(const Measured& measured, std::uint64_t count, const void* output) {
  const auto from = [&](std::uint32_t rank, std::uint64_t first, std::uint64_t at) {
    return CountWrongIn(measured.type, PassedBy(measured, rank), first, count, output, at);
  };
  if (OutputElements(measured, count) == 0) return 0;
  if (IsPointToPoint(measured.kind)) {
    return from((measured.rank + measured.size - 1) % measured.size, 0, 0);
  }
  const bool divides = RowOf(measured.kind).input.extent == Extent::kBlocks;
  const std::uint64_t first = divides ? measured.rank * count : 0;
  const Sources sources = SourcesOf(RequestOf(measured, count));
  if (Reduces(measured.kind)) {
    PerMix combined;
    for (std::uint32_t mix = 0; mix < kMixes; ++mix) {
      combined[mix] = Combined(measured, sources, mix);
    }
    return CountWrongIn(measured.type, combined, first, count, output, 0);
  }
  std::uint64_t wrong = 0;
  for (std::uint32_t i = 0; i < sources.count(); ++i) {
    wrong += from(sources.begin + i, first, i * count);
  }
  return wrong;
}

}  // namespace mlxcomm::bench
