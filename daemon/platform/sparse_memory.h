// Memory of a fixed size of which the system gives only the pages that are touched, and takes all of them
// back when the object goes. For buffers that most owners never fill: the allocator would keep what one
// of them has used for the next, and nobody else would get it.
//
// Thread: any. Memory: an anonymous mapping, zero at first.
#pragma once

#include <cstddef>
#include <utility>

namespace mlxcomm::platform {

class SparseMemory {
 public:
  // Rounded up to whole pages. Throws std::bad_alloc where there is no address space for it.
  explicit SparseMemory(std::size_t bytes);
  ~SparseMemory();
  SparseMemory(SparseMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
  SparseMemory& operator=(SparseMemory&&) = delete;
  SparseMemory(const SparseMemory&) = delete;
  SparseMemory& operator=(const SparseMemory&) = delete;

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* data_;
  std::size_t bytes_;
};

}  // namespace mlxcomm::platform
