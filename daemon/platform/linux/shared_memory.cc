#include "daemon/platform/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace mlxcomm::platform {

FileDescriptor MakeFixedSizeObject(const char* name, std::uint64_t bytes) {
  FileDescriptor object(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!object.valid()) return {};
  if (::ftruncate(object.get(), static_cast<off_t>(bytes)) != 0) return {};
  if (::fcntl(object.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) return {};
  return object;
}

}  // namespace mlxcomm::platform
