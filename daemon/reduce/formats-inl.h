// How elements are loaded, stored and combined, once for each SIMD target
// (included again and again by hwy/foreach_target.h, hence no #pragma once).
//
// A Format has a Tag (the lanes in which it is combined), Load, Store, and the same
// for one element (Scalar); an Operator has Apply for both.
//
// Owner: kernels.cc. Thread: any. Memory: none.
#if defined(MLXCOMM_REDUCE_FORMATS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MLXCOMM_REDUCE_FORMATS_INL_H_
#undef MLXCOMM_REDUCE_FORMATS_INL_H_
#else
#define MLXCOMM_REDUCE_FORMATS_INL_H_
#endif

#include <cstdint>

#include "daemon/reduce/half.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace mlxcomm::reduce {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <typename Element>
struct PlainFormat {
  using Stored = Element;
  using Scalar = Element;
  using Tag = hn::ScalableTag<Element>;
  static constexpr bool kStreams = true;
  static HWY_INLINE hn::Vec<Tag> Load(Tag d, const Stored* from) { return hn::LoadU(d, from); }
  static HWY_INLINE void Store(Tag d, hn::Vec<Tag> v, Stored* to) { hn::StoreU(v, d, to); }
  static HWY_INLINE void Stream(Tag d, hn::Vec<Tag> v, Stored* to) { hn::Stream(v, d, to); }
  static Scalar FromStored(Stored value) { return value; }
  static Stored ToStored(Scalar value) { return value; }
};
using Float32Format = PlainFormat<float>;
using Int32Format = PlainFormat<std::int32_t>;

struct HalfFormat {
  using Stored = std::uint16_t;
  using Scalar = float;
  using Tag = hn::ScalableTag<float>;
  using HalfTag = hn::Rebind<std::uint16_t, Tag>;
  using WordTag = hn::Rebind<std::uint32_t, Tag>;
  static constexpr bool kStreams = false;
};

struct Bfloat16Format : HalfFormat {
  static HWY_INLINE hn::Vec<Tag> Load(Tag d, const Stored* from) {
    const auto words = hn::PromoteTo(WordTag(), hn::LoadU(HalfTag(), from));
    return hn::BitCast(d, hn::ShiftLeft<16>(words));
  }
  static HWY_INLINE void Store(Tag, hn::Vec<Tag> v, Stored* to) {
    const WordTag words;
    const auto bits = hn::BitCast(words, v);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(words, 1));
    const auto rounded = hn::ShiftRight<16>(bits + hn::Set(words, 0x7fff) + odd);
    const auto quiet = hn::Or(hn::ShiftRight<16>(bits), hn::Set(words, 0x40));
    const auto is_nan = hn::RebindMask(words, hn::IsNaN(v));
    // Every word is below 2^16: as signed numbers they demote without saturating.
    const auto result = hn::IfThenElse(is_nan, quiet, rounded);
    const hn::Rebind<std::int32_t, Tag> signed_words;
    const auto centered = hn::BitCast(signed_words, result) - hn::Set(signed_words, 0x8000);
    const hn::Rebind<std::int16_t, Tag> halves;
    const auto low = hn::DemoteTo(halves, centered);
    hn::StoreU(hn::Xor(hn::BitCast(HalfTag(), low), hn::Set(HalfTag(), 0x8000)), HalfTag(), to);
  }
  static Scalar FromStored(Stored value) { return FloatFromBfloat16(value); }
  static Stored ToStored(Scalar value) { return Bfloat16FromFloat(value); }
};

struct Float16Format : HalfFormat {
// Where the machine converts by itself, it rounds to nearest even and keeps
// subnormals; Highway's emulation elsewhere does not promise that.
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL || \
    HWY_TARGET == HWY_NEON
  static HWY_INLINE hn::Vec<Tag> Load(Tag d, const Stored* from) {
    const hn::Rebind<hwy::float16_t, Tag> halves;
    return hn::PromoteTo(d, hn::BitCast(halves, hn::LoadU(HalfTag(), from)));
  }
  static HWY_INLINE void Store(Tag, hn::Vec<Tag> v, Stored* to) {
    const hn::Rebind<hwy::float16_t, Tag> halves;
    hn::StoreU(hn::BitCast(HalfTag(), hn::DemoteTo(halves, v)), HalfTag(), to);
  }
#else
  static HWY_INLINE hn::Vec<Tag> Load(Tag d, const Stored* from) {
    HWY_ALIGN float lanes[hn::MaxLanes(Tag())];
    for (std::size_t i = 0; i < hn::Lanes(d); ++i) lanes[i] = FloatFromFloat16(from[i]);
    return hn::Load(d, lanes);
  }
  static HWY_INLINE void Store(Tag d, hn::Vec<Tag> v, Stored* to) {
    HWY_ALIGN float lanes[hn::MaxLanes(Tag())];
    hn::Store(v, d, lanes);
    for (std::size_t i = 0; i < hn::Lanes(d); ++i) to[i] = Float16FromFloat(lanes[i]);
  }
#endif
  static Scalar FromStored(Stored value) { return FloatFromFloat16(value); }
  static Stored ToStored(Scalar value) { return Float16FromFloat(value); }
};

struct SumOperator {
  template <typename V>
  static HWY_INLINE V Apply(V a, V b) {
    return hn::Add(a, b);
  }
  static float ApplyScalar(float a, float b) { return a + b; }
  static std::int32_t ApplyScalar(std::int32_t a, std::int32_t b) {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(a) +
                                     static_cast<std::uint32_t>(b));
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace mlxcomm::reduce
HWY_AFTER_NAMESPACE();

#endif  // MLXCOMM_REDUCE_FORMATS_INL_H_
