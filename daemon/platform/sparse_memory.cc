#include "daemon/platform/sparse_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <new>

namespace mlxcomm::platform {
namespace {

std::size_t PageBytes() {
  static const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

}  // namespace

SparseMemory::SparseMemory(std::size_t bytes)
    : data_(nullptr), bytes_((bytes + PageBytes() - 1) / PageBytes() * PageBytes()) {
  void* const mapped =
      ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
#ifdef MADV_NOHUGEPAGE
  // A huge page would be 2 MiB for the first byte. Where there are none, the call fails, and may.
  ::madvise(mapped, bytes_, MADV_NOHUGEPAGE);
#endif
  data_ = static_cast<std::byte*>(mapped);
}

SparseMemory::~SparseMemory() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

}  // namespace mlxcomm::platform
