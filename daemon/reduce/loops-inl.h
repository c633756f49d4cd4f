// The loop over a row for a Format and an Operator; compiled once per SIMD target.
//
//   |··■■|■■■■|■■■■|■■··|     whole vectors, four at a time, then the rest in one padded vector;
//                             if stores must be aligned, the first few as well
//
// These few use the same lanes as the others, so an element's bits do not depend on its position.
#if defined(MLXCOMM_REDUCE_LOOPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MLXCOMM_REDUCE_LOOPS_INL_H_
#undef MLXCOMM_REDUCE_LOOPS_INL_H_
#else
#define MLXCOMM_REDUCE_LOOPS_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "daemon/reduce/formats-inl.h"
#include "daemon/reduce/operators-inl.h"
#include "daemon/reduce/row.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace mlxcomm::reduce {
namespace HWY_NAMESPACE {

template <typename Stored>
HWY_INLINE Stored* OutputOf(const Row& row, std::size_t k) {
  return reinterpret_cast<Stored*>(row.outputs[k]);
}

template <typename Stored>
struct WholeVector {
  std::size_t first;
  HWY_INLINE const Stored* Of(const Row& row, std::size_t k) const {
    return reinterpret_cast<const Stored*>(row.inputs[k]) + first;
  }
};

// Too few elements for a vector; the other lanes are zero.
template <typename Stored>
struct PaddedVector {
  Stored* lanes;
  std::size_t first;
  std::size_t count;
  HWY_INLINE const Stored* Of(const Row& row, std::size_t k) const {
    std::memcpy(lanes, row.inputs[k] + first * sizeof(Stored), count * sizeof(Stored));
    return lanes;
  }
};

template <typename Format, typename Operator>
HWY_INLINE typename Format::Vector Finished(const Row& row, typename Format::Vector combined) {
  if constexpr (Operator::kDivides) {
    const typename Format::Tag d;
    combined = hn::Div(combined, hn::Set(d, static_cast<hn::TFromD<decltype(d)>>(row.divisor)));
  }
  return combined;
}

template <typename Format, typename Operator, typename Place>
HWY_INLINE typename Format::Vector CombinedAt(const Row& row, const Place& place) {
  auto combined = Format::Load(place.Of(row, 0));
  for (std::size_t k = 1; k < row.input_count; ++k) {
    combined = Operator::Apply(combined, Format::Load(place.Of(row, k)));
  }
  return Finished<Format, Operator>(row, combined);
}

template <typename Format, typename Operator>
void CombineFew(const Row& row, std::size_t first, std::size_t count) {
  using Stored = typename Format::Stored;
  if (count == 0) return;
  HWY_ALIGN Stored lanes[Format::kCountMax] = {};
  const PaddedVector<Stored> place{lanes, first, count};
  Format::Store(CombinedAt<Format, Operator>(row, place), lanes);
  for (std::size_t k = 0; k < row.output_count; ++k) {
    std::memcpy(OutputOf<Stored>(row, k) + first, lanes, count * sizeof(Stored));
  }
}

// Streaming stores need aligned outputs. Sets `first` to the elements before that; false: outputs
// differ.
template <typename Format>
bool FindAligned(const Row& row, std::size_t& first) {
  using Stored = typename Format::Stored;
  const std::size_t vector_bytes = Format::Count() * sizeof(Stored);
  first = 0;
  for (std::size_t k = 0; k < row.output_count; ++k) {
    const auto address = reinterpret_cast<std::uintptr_t>(row.outputs[k]);
    const std::size_t before = (vector_bytes - address % vector_bytes) % vector_bytes;
    if (k > 0 && before != first * sizeof(Stored)) return false;
    first = before / sizeof(Stored);
  }
  return first <= row.elements;
}

template <typename Format, bool kPastCache>
HWY_INLINE void Put(typename Format::Vector v, typename Format::Stored* to) {
  if constexpr (kPastCache) {
    Format::Stream(v, to);
  } else {
    Format::Store(v, to);
  }
}

// Processes four vectors of an input, then of the next: four adjacent loads and stores each, and
// one pass over the lists of buffers for all. Starts at element i; returns the index after the
// last.
template <typename Format, typename Operator, bool kPastCache>
HWY_INLINE std::size_t CombineFours(const Row& row, std::size_t i) {
  using Stored = typename Format::Stored;
  const std::size_t count = Format::Count();
  for (; i + 4 * count <= row.elements; i += 4 * count) {
    const WholeVector<Stored> place{i};
    const Stored* in = place.Of(row, 0);
    auto a = Format::Load(in);
    auto b = Format::Load(in + count);
    auto c = Format::Load(in + 2 * count);
    auto d = Format::Load(in + 3 * count);
    for (std::size_t k = 1; k < row.input_count; ++k) {
      in = place.Of(row, k);
      a = Operator::Apply(a, Format::Load(in));
      b = Operator::Apply(b, Format::Load(in + count));
      c = Operator::Apply(c, Format::Load(in + 2 * count));
      d = Operator::Apply(d, Format::Load(in + 3 * count));
    }
    a = Finished<Format, Operator>(row, a);
    b = Finished<Format, Operator>(row, b);
    c = Finished<Format, Operator>(row, c);
    d = Finished<Format, Operator>(row, d);
    for (std::size_t k = 0; k < row.output_count; ++k) {
      Stored* const out = OutputOf<Stored>(row, k) + i;
      Put<Format, kPastCache>(a, out);
      Put<Format, kPastCache>(b, out + count);
      Put<Format, kPastCache>(c, out + 2 * count);
      Put<Format, kPastCache>(d, out + 3 * count);
    }
  }
  return i;
}

// Every output must be aligned at `first` if stores bypass the cache.
template <typename Format, typename Operator, bool kPastCache>
HWY_INLINE void CombineFrom(const Row& row, std::size_t first) {
  using Stored = typename Format::Stored;
  const std::size_t count = Format::Count();
  std::size_t i = CombineFours<Format, Operator, kPastCache>(row, first);
  for (; i + count <= row.elements; i += count) {
    const auto combined = CombinedAt<Format, Operator>(row, WholeVector<Stored>{i});
    for (std::size_t k = 0; k < row.output_count; ++k) {
      Put<Format, kPastCache>(combined, OutputOf<Stored>(row, k) + i);
    }
  }
  if constexpr (kPastCache) hwy::FlushStream();
  CombineFew<Format, Operator>(row, i, row.elements - i);
}

template <typename Format, typename Operator>
void CombineRow(const Row& row) {
  if constexpr (Format::kStreams) {
    std::size_t first = 0;
    if (row.streams && FindAligned<Format>(row, first)) {
      CombineFew<Format, Operator>(row, 0, first);
      return CombineFrom<Format, Operator, true>(row, first);
    }
  }
  CombineFrom<Format, Operator, false>(row, 0);
}

// The same bytes, with `parts` elements for each of the row's.
HWY_INLINE Row InParts(const Row& row, std::size_t parts) {
  Row whole = row;
  whole.elements *= parts;
  return whole;
}

}  // namespace HWY_NAMESPACE
}  // namespace mlxcomm::reduce
HWY_AFTER_NAMESPACE();

#endif  // MLXCOMM_REDUCE_LOOPS_INL_H_
