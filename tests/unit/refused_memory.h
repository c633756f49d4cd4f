// An operator new that can refuse, for the whole program: one source of a separate program includes
// it.
//
//   refuse_after = 3;   // The fourth allocation of this thread throws std::bad_alloc, and later
//                       ones do not.
//
// Owner: the program. Thread: any; each has its own number. Memory: malloc's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace mlxcomm {

inline thread_local std::int64_t refuse_after = -1;  // -1 means that none is refused.

inline void* AllocateUnlessRefused(std::size_t bytes) {
  if (refuse_after >= 0) {
    --refuse_after;
    if (refuse_after < 0) throw std::bad_alloc();
  }
  if (void* const memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}

}  // namespace mlxcomm

// Not inline: the standard forbids that for these.
void* operator new(std::size_t bytes) { return mlxcomm::AllocateUnlessRefused(bytes); }
void* operator new[](std::size_t bytes) { return mlxcomm::AllocateUnlessRefused(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
