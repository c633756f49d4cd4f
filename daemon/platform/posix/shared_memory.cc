#include "daemon/platform/shared_memory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace mlxcomm::platform {

// On macOS the size of a POSIX object can be set only once: a later ftruncate fails in every
// process, so no seal is needed. Names are at most 31 characters (PSHMNAMLEN).
FileDescriptor MakeFixedSizeObject(const char*, std::uint64_t bytes) {
  for (int attempt = 0; attempt < 16; ++attempt) {
    char unique[32];
    std::snprintf(unique, sizeof unique, "/mlxcomm.%08x%08x", arc4random(), arc4random());
    FileDescriptor object(::shm_open(unique, O_RDWR | O_CREAT | O_EXCL, S_IRUSR | S_IWUSR));
    if (!object.valid()) {
      if (errno == EEXIST) continue;
      return {};
    }
    ::shm_unlink(unique);
    ::fcntl(object.get(), F_SETFD, FD_CLOEXEC);
    if (::ftruncate(object.get(), static_cast<off_t>(bytes)) != 0) return {};
    return object;
  }
  return {};
}

}  // namespace mlxcomm::platform
