// Loads a type's elements into lanes and stores them; included once per SIMD target.
//
// A Format has Stored (an element in memory), Vector (the lanes in which elements are combined),
// Count (elements in a Vector), Load and Store; if kStreams is true, also Stream.
#if defined(MLXCOMM_REDUCE_FORMATS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MLXCOMM_REDUCE_FORMATS_INL_H_
#undef MLXCOMM_REDUCE_FORMATS_INL_H_
#else
#define MLXCOMM_REDUCE_FORMATS_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace mlxcomm::reduce {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <typename Element>
struct PlainFormat {
  using Stored = Element;
  using Tag = hn::ScalableTag<Element>;
  using Vector = hn::Vec<Tag>;
  static constexpr bool kStreams = true;
  static constexpr std::size_t kCountMax = hn::MaxLanes(Tag());
  static HWY_INLINE std::size_t Count() { return hn::Lanes(Tag()); }
  static HWY_INLINE Vector Load(const Stored* from) { return hn::LoadU(Tag(), from); }
  static HWY_INLINE void Store(Vector v, Stored* to) { hn::StoreU(v, Tag(), to); }
  static HWY_INLINE void Stream(Vector v, Stored* to) { hn::Stream(v, Tag(), to); }
};

// Any byte other than 0 is true, as in C++, and is stored as 1.
struct BoolFormat : PlainFormat<std::uint8_t> {
  static HWY_INLINE Vector Load(const Stored* from) {
    return hn::Min(hn::LoadU(Tag(), from), hn::Set(Tag(), 1));
  }
};

struct Complex64 {
  float real;
  float imaginary;
};

// Real and imaginary parts in separate vectors, which only products and orders need.
struct Complex64Format {
  using Stored = Complex64;
  using Tag = hn::ScalableTag<float>;
  struct Vector {
    hn::Vec<Tag> real;
    hn::Vec<Tag> imaginary;
  };
  static constexpr bool kStreams = false;
  static constexpr std::size_t kCountMax = hn::MaxLanes(Tag());
  static HWY_INLINE std::size_t Count() { return hn::Lanes(Tag()); }
  static HWY_INLINE Vector Load(const Stored* from) {
    Vector v{hn::Zero(Tag()), hn::Zero(Tag())};
    hn::LoadInterleaved2(Tag(), reinterpret_cast<const float*>(from), v.real, v.imaginary);
    return v;
  }
  static HWY_INLINE void Store(Vector v, Stored* to) {
    hn::StoreInterleaved2(v.real, v.imaginary, Tag(), reinterpret_cast<float*>(to));
  }
};

// 16 bits in memory, combined in float32.
struct HalfFormat {
  using Stored = std::uint16_t;
  using Tag = hn::ScalableTag<float>;
  using Vector = hn::Vec<Tag>;
  using HalfTag = hn::Rebind<std::uint16_t, Tag>;
  using Halves = hn::Vec<HalfTag>;
  using WordTag = hn::Rebind<std::uint32_t, Tag>;
  using Words = hn::Vec<WordTag>;
  // Highway streams 16 bytes even if a vector has fewer, which would overwrite the bytes after it.
  static constexpr bool kStreams = hn::MaxLanes(HalfTag()) * sizeof(Stored) >= 16;
  static constexpr std::size_t kCountMax = hn::MaxLanes(Tag());
  static HWY_INLINE std::size_t Count() { return hn::Lanes(Tag()); }

  static HWY_INLINE Words Word(std::uint32_t value) { return hn::Set(WordTag(), value); }
  static HWY_INLINE Words LoadWords(const Stored* from) {
    return hn::PromoteTo(WordTag(), hn::LoadU(HalfTag(), from));
  }
  // Every word is below 2^16, so as signed numbers they demote without saturating.
  static HWY_INLINE Halves DemoteWords(Words words) {
    const hn::Rebind<std::int32_t, Tag> signed_words;
    const hn::Rebind<std::int16_t, Tag> signed_halves;
    const auto centered = hn::BitCast(signed_words, hn::Sub(words, Word(0x8000)));
    const auto low = hn::BitCast(HalfTag(), hn::DemoteTo(signed_halves, centered));
    return hn::Xor(low, hn::Set(HalfTag(), 0x8000));
  }
};

struct Bfloat16Format : HalfFormat {
  static HWY_INLINE Vector Load(const Stored* from) {
    return hn::BitCast(Tag(), hn::ShiftLeft<16>(LoadWords(from)));
  }
  static HWY_INLINE Halves Demote(Vector v) {
    const auto bits = hn::BitCast(WordTag(), v);
    const auto high = hn::ShiftRight<16>(bits);
    const auto half = hn::Add(Word(0x7fff), hn::And(high, Word(1)));
    const auto rounded = hn::ShiftRight<16>(hn::Add(bits, half));
    const auto is_nan = hn::RebindMask(WordTag(), hn::IsNaN(v));
    return DemoteWords(hn::IfThenElse(is_nan, hn::Or(high, Word(0x40)), rounded));
  }
  static HWY_INLINE void Store(Vector v, Stored* to) { hn::StoreU(Demote(v), HalfTag(), to); }
  static HWY_INLINE void Stream(Vector v, Stored* to) { hn::Stream(Demote(v), HalfTag(), to); }
};

struct Float16Format : HalfFormat {
// The machine's conversion rounds to nearest even and keeps subnormals, unlike Highway's emulation.
#if HWY_ARCH_ARM_A64 || (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2)
  static HWY_INLINE Vector Load(const Stored* from) {
    const hn::Rebind<hwy::float16_t, Tag> halves;
    return hn::PromoteTo(Tag(), hn::BitCast(halves, hn::LoadU(HalfTag(), from)));
  }
  static HWY_INLINE Halves Demote(Vector v) {
    const hn::Rebind<hwy::float16_t, Tag> halves;
    return hn::BitCast(HalfTag(), hn::DemoteTo(halves, v));
  }
#else
  static HWY_INLINE Vector Load(const Stored* from) {
    const auto words = LoadWords(from);
    const auto magnitude = hn::And(words, Word(0x7fff));
    // As a float32 it is 2^112 times too small, even if subnormal.
    const auto scaled =
        hn::Mul(hn::BitCast(Tag(), hn::ShiftLeft<13>(magnitude)), hn::Set(Tag(), 0x1p112f));
    const auto infinite = hn::IfThenElseZero(hn::Gt(magnitude, Word(0x7bff)), Word(0x7f800000));
    const auto quiet = hn::IfThenElseZero(hn::Gt(magnitude, Word(0x7c00)), Word(0x400000));
    const auto sign = hn::ShiftLeft<16>(hn::And(words, Word(0x8000)));
    const auto bits = hn::Or(hn::BitCast(WordTag(), scaled), hn::Or(infinite, quiet));
    return hn::BitCast(Tag(), hn::Or(bits, sign));
  }
  static HWY_INLINE Halves Demote(Vector v) {
    const auto bits = hn::BitCast(WordTag(), v);
    const auto magnitude = hn::And(bits, Word(0x7fffffff));
    const auto shifted = hn::ShiftRight<13>(magnitude);
    // Normal: rounded in place, the exponent rebiased. Subnormal: adding 0.5 leaves
    // round(value / 2^-24) in the lowest bits.
    const auto half = hn::Add(Word(0xfff), hn::And(shifted, Word(1)));
    const auto rebiased = hn::Sub(hn::Add(magnitude, half), Word(0x38000000));
    const auto added = hn::Add(hn::BitCast(Tag(), magnitude), hn::Set(Tag(), 0.5f));
    const auto subnormal = hn::Sub(hn::BitCast(WordTag(), added), Word(0x3f000000));
    const auto nan = hn::Or(Word(0x7e00), hn::And(shifted, Word(0x3ff)));
    auto result = hn::IfThenElse(hn::Lt(magnitude, Word(0x38800000)), subnormal,
                                 hn::ShiftRight<13>(rebiased));
    result = hn::IfThenElse(hn::Gt(magnitude, Word(0x477fefff)), Word(0x7c00), result);
    result = hn::IfThenElse(hn::Gt(magnitude, Word(0x7f800000)), nan, result);
    const auto sign = hn::And(hn::ShiftRight<16>(bits), Word(0x8000));
    return DemoteWords(hn::Or(sign, result));
  }
#endif
  static HWY_INLINE void Store(Vector v, Stored* to) { hn::StoreU(Demote(v), HalfTag(), to); }
  static HWY_INLINE void Stream(Vector v, Stored* to) { hn::Stream(Demote(v), HalfTag(), to); }
};

}  // namespace HWY_NAMESPACE
}  // namespace mlxcomm::reduce
HWY_AFTER_NAMESPACE();

#endif  // MLXCOMM_REDUCE_FORMATS_INL_H_
