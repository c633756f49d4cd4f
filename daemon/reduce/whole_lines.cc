#include "daemon/reduce/row.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace mlxcomm::reduce {
namespace {

constexpr std::size_t kChunkBytes = 16 * 1024;  // Half of the first-level cache.
constexpr std::size_t kBytesMin = 8 * 1024;     // A string copy takes some time to start.
constexpr std::size_t kInputsMax = 64;
constexpr std::size_t kPageBytes = 4096;

#if defined(__x86_64__)
bool HasFastStringCopy() {
  constexpr unsigned kExtendedFeatures = 7;
  constexpr unsigned kEnhancedRepMovsb = 1u << 9;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(kExtendedFeatures, 0, &eax, &ebx, &ecx, &edx) != 0 &&
         (ebx & kEnhancedRepMovsb) != 0;
}
#else
bool HasFastStringCopy() { return false; }
#endif

// Not memcpy, whose implementation may change. Sanitizers see only what the compiler generates.
void CopyWholeLines(std::byte* to, const std::byte* from, std::size_t bytes) {
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
#else
  std::memcpy(to, from, bytes);
#endif
}

// Such an output's lines are fetched anyway.
bool HasOutputThatIsAnInput(const Row& row) {
  const auto* const end = row.inputs + row.input_count;
  return std::find_first_of(row.inputs, end, row.outputs, row.outputs + row.output_count) != end;
}

// Half a page from the output within its page: some processors (Zen 3 and 4) copy far more slowly
// if the two page offsets are almost the same.
std::byte* ChunkFor(const std::byte* output, std::byte* memory) {
  const auto place = reinterpret_cast<std::uintptr_t>(memory);
  const auto wanted = reinterpret_cast<std::uintptr_t>(output) + kPageBytes / 2;
  return memory + (wanted - place) % kPageBytes;
}

// Whole pages, so that all chunks have the same alignment, of nearly equal sizes.
std::size_t BytesOfChunk(std::size_t bytes) {
  const std::size_t chunks = (bytes + kChunkBytes - 1) / kChunkBytes;
  return (bytes + chunks * kPageBytes - 1) / (chunks * kPageBytes) * kPageBytes;
}

}  // namespace

bool CanStoreWholeLines(DataType type, const Row& row) {
  static const bool has_fast_string_copy = HasFastStringCopy();
  return has_fast_string_copy && row.input_count <= kInputsMax && row.output_count > 0 &&
         row.elements * DataTypeBytes(type) >= kBytesMin && !HasOutputThatIsAnInput(row);
}

void CombineIntoWholeLines(DataType type, ReduceOperator op, const Row& row) {
  std::array<std::byte, kChunkBytes + kPageBytes> memory;
  std::byte* const combined = ChunkFor(row.outputs[0], memory.data());
  std::array<const std::byte*, kInputsMax> inputs;
  Row chunk = row;
  chunk.inputs = inputs.data();
  chunk.outputs = &combined;
  chunk.output_count = 1;
  const std::size_t element_bytes = DataTypeBytes(type);
  const std::size_t each = BytesOfChunk(row.elements * element_bytes) / element_bytes;
  for (std::size_t first = 0; first < row.elements; first += each) {
    chunk.elements = std::min(each, row.elements - first);
    const std::size_t offset = first * element_bytes;
    for (std::size_t k = 0; k < row.input_count; ++k) inputs[k] = row.inputs[k] + offset;
    CombineDirectly(type, op, chunk);
    for (std::size_t k = 0; k < row.output_count; ++k) {
      CopyWholeLines(row.outputs[k] + offset, combined, chunk.elements * element_bytes);
    }
  }
}

}  // namespace mlxcomm::reduce
