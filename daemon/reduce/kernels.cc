#include "daemon/reduce/kernels.h"

#include <cstdint>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "daemon/reduce/kernels.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Highway's headers come after it, so that they are read anew for each target.
#include "daemon/reduce/formats-inl.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace mlxcomm::reduce {
namespace HWY_NAMESPACE {

// One row of work: everything that Combine was given, with types.
struct Row {
  const std::byte* const* inputs;
  std::size_t input_count;
  std::byte* const* outputs;
  std::size_t output_count;
  std::size_t elements;
  bool stream;
};

template <typename Stored>
const Stored* InputOf(const Row& row, std::size_t i) {
  return reinterpret_cast<const Stored*>(row.inputs[i]);
}
template <typename Stored>
Stored* OutputOf(const Row& row, std::size_t i) {
  return reinterpret_cast<Stored*>(row.outputs[i]);
}

template <typename Format, typename Operator>
HWY_INLINE hn::Vec<typename Format::Tag> CombinedAt(const Row& row, std::size_t i) {
  using Stored = typename Format::Stored;
  const typename Format::Tag d;
  auto sum = Format::Load(d, InputOf<Stored>(row, 0) + i);
  for (std::size_t k = 1; k < row.input_count; ++k) {
    sum = Operator::Apply(sum, Format::Load(d, InputOf<Stored>(row, k) + i));
  }
  return sum;
}

template <typename Format, typename Operator>
void CombineTail(const Row& row, std::size_t i) {
  using Stored = typename Format::Stored;
  for (; i < row.elements; ++i) {
    auto sum = Format::FromStored(InputOf<Stored>(row, 0)[i]);
    for (std::size_t k = 1; k < row.input_count; ++k) {
      sum = Operator::ApplyScalar(sum, Format::FromStored(InputOf<Stored>(row, k)[i]));
    }
    const Stored stored = Format::ToStored(sum);
    for (std::size_t k = 0; k < row.output_count; ++k) OutputOf<Stored>(row, k)[i] = stored;
  }
}

// Streaming stores need vector alignment of every output.
template <typename Format>
bool MayStream(const Row& row) {
  if (!Format::kStreams || !row.stream) return false;
  const std::size_t vector_bytes = hn::Lanes(typename Format::Tag()) * sizeof(typename Format::Stored);
  for (std::size_t k = 0; k < row.output_count; ++k) {
    if (reinterpret_cast<std::uintptr_t>(row.outputs[k]) % vector_bytes != 0) return false;
  }
  return true;
}

template <typename Format, typename Operator>
void CombineRow(const Row& row) {
  using Stored = typename Format::Stored;
  const typename Format::Tag d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  if constexpr (Format::kStreams) {
    if (MayStream<Format>(row)) {
      for (; i + lanes <= row.elements; i += lanes) {
        const auto sum = CombinedAt<Format, Operator>(row, i);
        for (std::size_t k = 0; k < row.output_count; ++k) {
          Format::Stream(d, sum, OutputOf<Stored>(row, k) + i);
        }
      }
      hwy::FlushStream();
      return CombineTail<Format, Operator>(row, i);
    }
  }
  for (; i + lanes <= row.elements; i += lanes) {
    const auto sum = CombinedAt<Format, Operator>(row, i);
    for (std::size_t k = 0; k < row.output_count; ++k) {
      Format::Store(d, sum, OutputOf<Stored>(row, k) + i);
    }
  }
  CombineTail<Format, Operator>(row, i);
}

template <typename Operator>
void CombineAs(DataType type, const Row& row) {
  switch (type) {
    case DataType::kFloat32: return CombineRow<Float32Format, Operator>(row);
    case DataType::kFloat16: return CombineRow<Float16Format, Operator>(row);
    case DataType::kBfloat16: return CombineRow<Bfloat16Format, Operator>(row);
    case DataType::kInt32: return CombineRow<Int32Format, Operator>(row);
  }
}

void CombineOnTarget(DataType type, ReduceOperator op, const std::byte* const* inputs,
                     std::size_t input_count, std::byte* const* outputs,
                     std::size_t output_count, std::size_t elements, Stores stores) {
  const Row row{inputs,       input_count, outputs,
                output_count, elements,    stores == Stores::kNonTemporal};
  switch (op) {
    case ReduceOperator::kNone: return;
    case ReduceOperator::kSum: return CombineAs<SumOperator>(type, row);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace mlxcomm::reduce
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mlxcomm::reduce {

HWY_EXPORT(CombineOnTarget);

bool Supports(DataType type, ReduceOperator op) { return IsValid(type) && IsValid(op); }

void Combine(DataType type, ReduceOperator op, const std::byte* const* inputs,
             std::size_t input_count, std::byte* const* outputs, std::size_t output_count,
             std::size_t elements, Stores stores) {
  if (elements == 0) return;
  if (input_count == 1) {
    // A copy moves bits, not numbers. The C library's memcpy already streams.
    for (std::size_t k = 0; k < output_count; ++k) {
      if (outputs[k] == inputs[0]) continue;
      std::memcpy(outputs[k], inputs[0], elements * DataTypeBytes(type));
    }
    return;
  }
  HWY_DYNAMIC_DISPATCH(CombineOnTarget)
  (type, op, inputs, input_count, outputs, output_count, elements, stores);
}

}  // namespace mlxcomm::reduce
#endif  // HWY_ONCE
