// The loop over a row for a Format and an Operator, once for each SIMD target.
//
//   |■■■■|■■■■|■■■■|■■··|     whole vectors, then the rest in one padded vector
//
// The rest goes through the same lanes as the others, so an element's bits do not
// depend on where it lies, and no operator has a scalar twin that could differ.
//
// Owner: the kernels. Thread: any. Memory: one vector on the stack.
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

// Where a vector of each input begins: at an element of the row.
template <typename Stored>
struct WholeVector {
  std::size_t first;
  HWY_INLINE const Stored* Of(const Row& row, std::size_t k) const {
    return reinterpret_cast<const Stored*>(row.inputs[k]) + first;
  }
};

// The last elements, too few for a vector; the other lanes are zero.
template <typename Stored>
struct PaddedVector {
  Stored* lanes;
  std::size_t first;
  HWY_INLINE const Stored* Of(const Row& row, std::size_t k) const {
    const std::size_t bytes = (row.elements - first) * sizeof(Stored);
    std::memcpy(lanes, row.inputs[k] + first * sizeof(Stored), bytes);
    return lanes;
  }
};

template <typename Format, typename Operator, typename Place>
HWY_INLINE typename Format::Vector CombinedAt(const Row& row, const Place& place) {
  auto combined = Format::Load(place.Of(row, 0));
  for (std::size_t k = 1; k < row.input_count; ++k) {
    combined = Operator::Apply(combined, Format::Load(place.Of(row, k)));
  }
  if constexpr (Operator::kDivides) {
    const typename Format::Tag d;
    combined = hn::Div(combined, hn::Set(d, static_cast<hn::TFromD<decltype(d)>>(row.divisor)));
  }
  return combined;
}

template <typename Format, typename Operator>
void CombineRest(const Row& row, std::size_t first) {
  using Stored = typename Format::Stored;
  if (first == row.elements) return;
  HWY_ALIGN Stored lanes[Format::kCountMax] = {};
  const auto combined = CombinedAt<Format, Operator>(row, PaddedVector<Stored>{lanes, first});
  Format::Store(combined, lanes);
  for (std::size_t k = 0; k < row.output_count; ++k) {
    std::memcpy(OutputOf<Stored>(row, k) + first, lanes, (row.elements - first) * sizeof(Stored));
  }
}

// Streaming stores need vector alignment of every output.
template <typename Format>
bool MayStream(const Row& row) {
  if (!row.streams) return false;
  const std::size_t vector_bytes = Format::Count() * sizeof(typename Format::Stored);
  for (std::size_t k = 0; k < row.output_count; ++k) {
    if (reinterpret_cast<std::uintptr_t>(row.outputs[k]) % vector_bytes != 0) return false;
  }
  return true;
}

template <typename Format, typename Operator>
void CombineRow(const Row& row) {
  using Stored = typename Format::Stored;
  const std::size_t count = Format::Count();
  std::size_t i = 0;
  if constexpr (Format::kStreams) {
    if (MayStream<Format>(row)) {
      for (; i + count <= row.elements; i += count) {
        const auto combined = CombinedAt<Format, Operator>(row, WholeVector<Stored>{i});
        for (std::size_t k = 0; k < row.output_count; ++k) {
          Format::Stream(combined, OutputOf<Stored>(row, k) + i);
        }
      }
      hwy::FlushStream();
      return CombineRest<Format, Operator>(row, i);
    }
  }
  for (; i + count <= row.elements; i += count) {
    const auto combined = CombinedAt<Format, Operator>(row, WholeVector<Stored>{i});
    for (std::size_t k = 0; k < row.output_count; ++k) {
      Format::Store(combined, OutputOf<Stored>(row, k) + i);
    }
  }
  CombineRest<Format, Operator>(row, i);
}

// The same bytes seen as elements of which `parts` make one of the row's.
HWY_INLINE Row InParts(const Row& row, std::size_t parts) {
  Row whole = row;
  whole.elements *= parts;
  return whole;
}

}  // namespace HWY_NAMESPACE
}  // namespace mlxcomm::reduce
HWY_AFTER_NAMESPACE();

#endif  // MLXCOMM_REDUCE_LOOPS_INL_H_
