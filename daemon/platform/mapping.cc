#include "daemon/platform/mapping.h"

#include <sys/mman.h>
#include <unistd.h>

#include <new>

namespace mlxcomm::platform {

Mapping::~Mapping() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

Mapping MapSparse(std::size_t bytes) {
  static const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  bytes = (bytes + page - 1) / page * page;
  void* const mapped =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
#ifdef MADV_NOHUGEPAGE
  // A huge page would take 2 MiB for the first byte.
  ::madvise(mapped, bytes, MADV_NOHUGEPAGE);
#endif
  return {mapped, bytes};
}

}  // namespace mlxcomm::platform
