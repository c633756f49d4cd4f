// Operators combine two vectors of lanes; included once per SIMD target. kDivides: divides at the
// end.
#if defined(MLXCOMM_REDUCE_OPERATORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MLXCOMM_REDUCE_OPERATORS_INL_H_
#undef MLXCOMM_REDUCE_OPERATORS_INL_H_
#else
#define MLXCOMM_REDUCE_OPERATORS_INL_H_
#endif

#include <type_traits>

#include "daemon/reduce/formats-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace mlxcomm::reduce {
namespace HWY_NAMESPACE {

template <typename V>
inline constexpr bool kIsFloating = std::is_floating_point_v<hn::TFromV<V>>;

struct PlainOperator {
  static constexpr bool kDivides = false;
};

// Integers use unsigned lanes, which wrap; the bits are those of signed ones.
struct SumOperator : PlainOperator {
  template <typename V>
  static HWY_INLINE V Apply(V a, V b) {
    return hn::Add(a, b);
  }
};

struct MeanOperator : SumOperator {
  static constexpr bool kDivides = true;
};

struct ProductOperator : PlainOperator {
  template <typename V>
  static HWY_INLINE V Apply(V a, V b) {
    constexpr bool is_alone = HWY_TARGET == HWY_SCALAR;  // One lane of any size.
    if constexpr (sizeof(hn::TFromV<V>) == 1 && !is_alone) {
      return OfBytes(a, b);
    } else {
      return hn::Mul(a, b);
    }
  }

  // There is no byte multiplication: even and odd bytes are multiplied in 16-bit lanes.
  template <typename V>
  static HWY_INLINE V OfBytes(V a, V b) {
    const hn::DFromV<V> bytes;
    const hn::RepartitionToWide<hn::DFromV<V>> pairs;
    const auto a_pairs = hn::BitCast(pairs, a);
    const auto b_pairs = hn::BitCast(pairs, b);
    const auto even = hn::And(hn::Mul(a_pairs, b_pairs), hn::Set(pairs, 0xff));
    const auto odd = hn::Mul(hn::ShiftRight<8>(a_pairs), hn::ShiftRight<8>(b_pairs));
    return hn::BitCast(bytes, hn::Or(even, hn::ShiftLeft<8>(odd)));
  }
};

// Multiplications and additions round separately (no contraction), so that every target gives the
// same bits.
struct ComplexProductOperator : PlainOperator {
  using V = Complex64Format::Vector;
  static HWY_INLINE V Apply(V a, V b) {
    return {hn::Sub(hn::Mul(a.real, b.real), hn::Mul(a.imaginary, b.imaginary)),
            hn::Add(hn::Mul(a.real, b.imaginary), hn::Mul(a.imaginary, b.real))};
  }
};

// By the real part, then the imaginary one, as in MLX and numpy; NaN in both parts if any part is
// NaN.
template <bool kGreater>
struct ComplexOrderOperator : PlainOperator {
  using V = Complex64Format::Vector;
  static HWY_INLINE V Apply(V a, V b) {
    const auto before = [](auto x, auto y) { return kGreater ? hn::Gt(x, y) : hn::Lt(x, y); };
    const auto is_first = hn::Or(before(a.real, b.real),
                                 hn::And(hn::Eq(a.real, b.real), before(a.imaginary, b.imaginary)));
    const auto a_is_nan = hn::Or(hn::IsNaN(a.real), hn::IsNaN(a.imaginary));
    const auto b_is_nan = hn::Or(hn::IsNaN(b.real), hn::IsNaN(b.imaginary));
    const auto take_a = hn::Or(a_is_nan, hn::AndNot(b_is_nan, is_first));
    return {hn::IfThenElse(take_a, a.real, b.real),
            hn::IfThenElse(take_a, a.imaginary, b.imaginary)};
  }
};

// IEEE 754-2019's, unlike Highway's: NaN if either is (the first if both are); -0 is less than +0.
struct MinOperator : PlainOperator {
  template <typename V>
  static HWY_INLINE V Apply(V a, V b) {
    if constexpr (kIsFloating<V>) {
      const V unequal = hn::IfThenElse(hn::Lt(a, b), a, b);  // b if there is a NaN.
      const V ordered = hn::IfThenElse(hn::Eq(a, b), hn::Or(a, b), unequal);
      return hn::IfThenElse(hn::IsNaN(a), a, ordered);
    } else {
      return hn::Min(a, b);
    }
  }
};

struct MaxOperator : PlainOperator {
  template <typename V>
  static HWY_INLINE V Apply(V a, V b) {
    if constexpr (kIsFloating<V>) {
      const V unequal = hn::IfThenElse(hn::Gt(a, b), a, b);  // b if there is a NaN.
      const V ordered = hn::IfThenElse(hn::Eq(a, b), hn::And(a, b), unequal);
      return hn::IfThenElse(hn::IsNaN(a), a, ordered);
    } else {
      return hn::Max(a, b);
    }
  }
};

struct AndOperator : PlainOperator {
  template <typename V>
  static HWY_INLINE V Apply(V a, V b) {
    return hn::And(a, b);
  }
};

struct OrOperator : PlainOperator {
  template <typename V>
  static HWY_INLINE V Apply(V a, V b) {
    return hn::Or(a, b);
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace mlxcomm::reduce
HWY_AFTER_NAMESPACE();

#endif  // MLXCOMM_REDUCE_OPERATORS_INL_H_
