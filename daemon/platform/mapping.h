// Mapped memory: all of its pages go back to the system with the object, and none stays with an allocator.
//
// Owner: the code that made it. Thread: any. Memory: the mapping.
#pragma once

#include <cstddef>
#include <utility>

namespace mlxcomm::platform {

class Mapping {
 public:
  Mapping() = default;
  Mapping(void* data, std::size_t bytes) : data_(static_cast<std::byte*>(data)), bytes_(bytes) {}
  Mapping(Mapping&& other) noexcept { *this = std::move(other); }
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Mapping();
  // It stays mapped to the end of the process.
  void Leave() { data_ = nullptr; }
  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// Zeros, of which the system gives the pages that are touched: for buffers that most owners never fill.
// Rounded up to whole pages. Throws std::bad_alloc where there is no address space for it.
Mapping MapSparse(std::size_t bytes);

}  // namespace mlxcomm::platform
