// The expected result of a kernel: one element at a time, as bits, in plain C++ that shares only
// half.h with the kernels.
#pragma once

#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "daemon/reduce/kernels.h"
#include "tests/ground/half.h"

namespace mlxcomm::reduce::oracle {

inline constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kFloat16,  DataType::kBfloat16,
                                      DataType::kInt32,   DataType::kBool,     DataType::kInt8,
                                      DataType::kInt16,   DataType::kInt64,    DataType::kUint8,
                                      DataType::kUint16,  DataType::kUint32,   DataType::kUint64,
                                      DataType::kFloat64, DataType::kComplex64};
inline constexpr ReduceOperator kOperators[] = {
    ReduceOperator::kSum, ReduceOperator::kProduct, ReduceOperator::kMin, ReduceOperator::kMax,
    ReduceOperator::kAnd, ReduceOperator::kOr,      ReduceOperator::kMean};

using Bits = std::uint64_t;  // An element's bytes, zero-extended.

template <typename Element>
Element ElementOf(Bits bits) {
  Element element;
  std::memcpy(static_cast<void*>(&element), &bits, sizeof(element));
  return element;
}

template <typename Element>
Bits BitsOf(Element element) {
  Bits bits = 0;
  std::memcpy(&bits, &element, sizeof(element));
  return bits;
}

// The value of a real floating-point element; float64 holds all of them.
inline double Number(DataType type, Bits bits) {
  switch (type) {
    case DataType::kFloat64: return ElementOf<double>(bits);
    case DataType::kFloat16: return FloatFromFloat16(static_cast<std::uint16_t>(bits));
    case DataType::kBfloat16: return FloatFromBfloat16(static_cast<std::uint16_t>(bits));
    default: return ElementOf<float>(bits);
  }
}

// Rounds once more if the type is narrower than float64: for numbers that are exact in float32, or
// for inputs.
inline Bits Nearest(DataType type, double number) {
  switch (type) {
    case DataType::kFloat64: return BitsOf(number);
    case DataType::kFloat16: return Float16FromFloat(static_cast<float>(number));
    case DataType::kBfloat16: return Bfloat16FromFloat(static_cast<float>(number));
    default: return BitsOf(static_cast<float>(number));
  }
}

template <typename Float>
Float Least(Float a, Float b) {
  if (std::isnan(a)) return a;
  if (std::isnan(b)) return b;
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}

template <typename Float>
Float ApplyToFloats(ReduceOperator op, Float a, Float b) {
  switch (op) {
    case ReduceOperator::kProduct: return a * b;
    case ReduceOperator::kMin: return Least(a, b);
    case ReduceOperator::kMax: return -Least(-a, -b);
    default: return a + b;
  }
}

template <typename Float>
Float OfFloats(const Reduction& reduction, const std::vector<Float>& numbers) {
  Float combined = numbers[0];
  for (std::size_t k = 1; k < numbers.size(); ++k) {
    combined = ApplyToFloats(reduction.op, combined, numbers[k]);
  }
  return reduction.divisor == 1 ? combined : combined / static_cast<Float>(reduction.divisor);
}

inline Bits OfComplex(const Reduction& reduction, const std::vector<Bits>& row) {
  using Complex = std::complex<float>;
  Complex combined = ElementOf<Complex>(row[0]);
  for (std::size_t k = 1; k < row.size(); ++k) {
    const Complex next = ElementOf<Complex>(row[k]);
    if (reduction.op == ReduceOperator::kProduct) {
      combined = {combined.real() * next.real() - combined.imag() * next.imag(),
                  combined.real() * next.imag() + combined.imag() * next.real()};
    } else if (reduction.op == ReduceOperator::kMin || reduction.op == ReduceOperator::kMax) {
      const auto is_nan = [](Complex c) { return std::isnan(c.real()) || std::isnan(c.imag()); };
      const auto less = [](Complex a, Complex b) {
        return a.real() < b.real() || (a.real() == b.real() && a.imag() < b.imag());
      };
      const bool stays =
          reduction.op == ReduceOperator::kMin ? less(combined, next) : less(next, combined);
      if (!is_nan(combined) && (is_nan(next) || !stays)) combined = next;
    } else {
      combined = {combined.real() + next.real(), combined.imag() + next.imag()};
    }
  }
  const float divisor = static_cast<float>(reduction.divisor);
  if (reduction.divisor != 1) combined = {combined.real() / divisor, combined.imag() / divisor};
  return BitsOf(combined);
}

inline Bits OfBools(ReduceOperator op, const std::vector<Bits>& row) {
  bool all = true;
  bool any = false;
  for (const Bits bits : row) {
    all = all && bits != 0;
    any = any || bits != 0;
  }
  const bool is_all =
      op == ReduceOperator::kProduct || op == ReduceOperator::kMin || op == ReduceOperator::kAnd;
  return is_all ? all : any;
}

template <typename Integer>
Bits OfIntegers(ReduceOperator op, const std::vector<Bits>& row) {
  Integer combined = ElementOf<Integer>(row[0]);
  for (std::size_t k = 1; k < row.size(); ++k) {
    const Integer next = ElementOf<Integer>(row[k]);
    // The low bits are the same for any width. NOLINTBEGIN(bugprone-signed-char-misuse): the sign
    // goes into bits that are cut off.
    const Bits a = static_cast<Bits>(combined);
    const Bits b = static_cast<Bits>(next);
    // NOLINTEND(bugprone-signed-char-misuse)
    switch (op) {
      case ReduceOperator::kProduct: combined = static_cast<Integer>(a * b); break;
      case ReduceOperator::kMin: combined = next < combined ? next : combined; break;
      case ReduceOperator::kMax: combined = next > combined ? next : combined; break;
      case ReduceOperator::kAnd: combined = static_cast<Integer>(a & b); break;
      case ReduceOperator::kOr: combined = static_cast<Integer>(a | b); break;
      default: combined = static_cast<Integer>(a + b); break;
    }
  }
  return BitsOf(combined);
}

inline Bits OfReals(const Reduction& reduction, const std::vector<Bits>& row) {
  if (reduction.type == DataType::kFloat64) {
    std::vector<double> numbers;
    for (const Bits bits : row) numbers.push_back(ElementOf<double>(bits));
    return BitsOf(OfFloats(reduction, numbers));
  }
  std::vector<float> numbers;
  for (const Bits bits : row) numbers.push_back(static_cast<float>(Number(reduction.type, bits)));
  return Nearest(reduction.type, OfFloats(reduction, numbers));
}

// `row`: an element of each input, in order.
inline Bits Expected(const Reduction& reduction, const std::vector<Bits>& row) {
  if (row.size() == 1 && reduction.divisor == 1) return row[0];
  switch (reduction.type) {
    case DataType::kFloat32:
    case DataType::kFloat16:
    case DataType::kBfloat16:
    case DataType::kFloat64: return OfReals(reduction, row);
    case DataType::kComplex64: return OfComplex(reduction, row);
    case DataType::kBool: return OfBools(reduction.op, row);
    case DataType::kInt8: return OfIntegers<std::int8_t>(reduction.op, row);
    case DataType::kInt16: return OfIntegers<std::int16_t>(reduction.op, row);
    case DataType::kInt32: return OfIntegers<std::int32_t>(reduction.op, row);
    case DataType::kInt64: return OfIntegers<std::int64_t>(reduction.op, row);
    case DataType::kUint8: return OfIntegers<std::uint8_t>(reduction.op, row);
    case DataType::kUint16: return OfIntegers<std::uint16_t>(reduction.op, row);
    case DataType::kUint32: return OfIntegers<std::uint32_t>(reduction.op, row);
    case DataType::kUint64: return OfIntegers<std::uint64_t>(reduction.op, row);
  }
  return 0;
}

inline bool IsFloating(DataType type) {
  return type == DataType::kFloat32 || type == DataType::kFloat16 || type == DataType::kBfloat16 ||
         type == DataType::kFloat64;
}

// Whether bits are equal; NaNs may differ in the payload, because a sum of two may keep either.
inline bool Agree(DataType type, Bits a, Bits b) {
  if (type == DataType::kComplex64) {
    return Agree(DataType::kFloat32, a >> 32, b >> 32) &&
           Agree(DataType::kFloat32, a & 0xffffffff, b & 0xffffffff);
  }
  if (a == b) return true;
  return IsFloating(type) && std::isnan(Number(type, a)) && std::isnan(Number(type, b));
}

}  // namespace mlxcomm::reduce::oracle
