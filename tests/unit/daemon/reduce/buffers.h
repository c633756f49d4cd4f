// Rows of elements for the kernels, and the instruction sets to try them on.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "daemon/reduce/row.h"
#include "hwy/highway.h"
#include "tests/unit/daemon/reduce/oracle.h"

namespace mlxcomm::reduce {

// One buffer; its first element lies `shift` elements into vector-aligned memory, with other bytes
// around the buffer.
class Buffer {
 public:
  Buffer(DataType type, std::size_t elements, std::size_t shift)
      : bytes_(DataTypeBytes(type)),
        length_(elements * bytes_),
        memory_(length_ + shift * bytes_ + 3 * kAlignment, kOthers) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
    first_ = kAlignment + (kAlignment - address % kAlignment) % kAlignment + shift * bytes_;
  }
  Buffer(const Buffer&) = delete;  // A copy would have another alignment.
  Buffer(Buffer&&) = default;
  std::byte* data() { return memory_.data() + first_; }
  oracle::Bits at(std::size_t i) const {
    oracle::Bits bits = 0;
    std::memcpy(&bits, memory_.data() + first_ + i * bytes_, bytes_);
    return bits;
  }
  void set(std::size_t i, oracle::Bits bits) { std::memcpy(data() + i * bytes_, &bits, bytes_); }
  // Nothing has been written outside of the elements.
  bool KeptOthers() const {
    const auto is_kept = [](std::byte byte) { return byte == kOthers; };
    const auto first = memory_.begin() + static_cast<std::ptrdiff_t>(first_);
    return std::all_of(memory_.begin(), first, is_kept) &&
           std::all_of(first + static_cast<std::ptrdiff_t>(length_), memory_.end(), is_kept);
  }

 private:
  static constexpr std::size_t kAlignment = 256;
  static constexpr std::byte kOthers{0x5c};
  std::size_t bytes_;
  std::size_t length_;
  std::vector<std::byte> memory_;
  std::size_t first_;
};

// Combines columns[i], the inputs' elements at index i; returns the output's elements.
inline std::vector<oracle::Bits> Combined(const Reduction& reduction,
                                          const std::vector<std::vector<oracle::Bits>>& columns) {
  std::vector<Buffer> in;
  std::vector<const std::byte*> inputs;
  for (std::size_t k = 0; k < columns[0].size(); ++k) {
    Buffer& buffer = in.emplace_back(reduction.type, columns.size(), 0);
    for (std::size_t i = 0; i < columns.size(); ++i) buffer.set(i, columns[i][k]);
    inputs.push_back(buffer.data());
  }
  Buffer out(reduction.type, columns.size(), 0);
  std::byte* output = out.data();
  Combine(reduction, inputs.data(), inputs.size(), &output, 1, columns.size());
  std::vector<oracle::Bits> result;
  for (std::size_t i = 0; i < columns.size(); ++i) result.push_back(out.at(i));
  return result;
}

// Runs `check` on every instruction set of this program and this machine. If the kernels lack one,
// as in sanitizer builds, their baseline runs.
template <typename Check>
void OnEveryTarget(const Check& check) {
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    check();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace mlxcomm::reduce
