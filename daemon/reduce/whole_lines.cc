#include "daemon/reduce/whole_lines.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace mlxcomm::reduce {
namespace {

#if defined(__x86_64__)
constexpr bool kCopyFetchesNothing = true;
#else
constexpr bool kCopyFetchesNothing = false;
#endif
constexpr std::size_t kChunkBytes = 16 * 1024;  // Half of the first cache.
constexpr std::size_t kBytesLeast = 8 * 1024;   // Of less, memcpy may store as the kernels do.
constexpr std::size_t kInputsMost = 64;

// Its lines are fetched anyway.
bool HasOutputThatIsAnInput(const Row& row) {
  const auto* const end = row.inputs + row.input_count;
  return std::find_first_of(row.inputs, end, row.outputs, row.outputs + row.output_count) != end;
}

}  // namespace

bool CanStoreWholeLines(DataType type, const Row& row) {
  return kCopyFetchesNothing && row.input_count <= kInputsMost &&
         row.elements * DataTypeBytes(type) >= kBytesLeast && !HasOutputThatIsAnInput(row);
}

void CombineIntoWholeLines(DataType type, ReduceOperator op, const Row& row) {
  alignas(64) std::array<std::byte, kChunkBytes> combined;
  std::byte* const output = combined.data();
  std::array<const std::byte*, kInputsMost> inputs;
  Row chunk = row;
  chunk.inputs = inputs.data();
  chunk.outputs = &output;
  chunk.output_count = 1;
  const std::size_t element_bytes = DataTypeBytes(type);
  const std::size_t each = kChunkBytes / element_bytes;
  for (std::size_t first = 0; first < row.elements; first += each) {
    chunk.elements = std::min(each, row.elements - first);
    const std::size_t offset = first * element_bytes;
    for (std::size_t k = 0; k < row.input_count; ++k) inputs[k] = row.inputs[k] + offset;
    CombineDirectly(type, op, chunk);
    for (std::size_t k = 0; k < row.output_count; ++k) {
      std::memcpy(row.outputs[k] + offset, output, chunk.elements * element_bytes);
    }
  }
}

}  // namespace mlxcomm::reduce
