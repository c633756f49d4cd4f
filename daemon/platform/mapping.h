// Mapped memory: its pages return to the system with the object and never stay with an allocator.
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
  // Keeps the memory mapped until the process exits.
  void Leave() { data_ = nullptr; }
  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// Zeroed memory whose pages are allocated when touched, for buffers that are rarely filled. Rounded
// up to whole pages. Throws std::bad_alloc if no address space is left.
Mapping MapSparse(std::size_t bytes);

}  // namespace mlxcomm::platform
