// Memory that this process shares with others.
//
// Owner: the code that mapped it. Thread: any. Memory: the mapping.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <memory>

namespace mlxcomm::client {

struct Unmap {
  std::size_t bytes = 0;
  void operator()(std::byte* memory) const { ::munmap(memory, bytes); }
};
using Mapping = std::unique_ptr<std::byte, Unmap>;

// Closes the descriptor. Returns nullptr and sets errno if the system refuses.
inline Mapping MapShared(int descriptor, std::size_t bytes) {
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  ::close(descriptor);
  return memory == MAP_FAILED ? Mapping() : Mapping(static_cast<std::byte*>(memory), {bytes});
}

}  // namespace mlxcomm::client
