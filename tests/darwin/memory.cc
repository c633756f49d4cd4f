// Shared memory and pages as on macOS.
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

namespace {

constexpr std::size_t kNameMax = 31;  // PSHMNAMLEN
constexpr long kPageBytes = 16 * 1024;

bool IsSharedMemory(int descriptor) {
  struct statfs where{};
  return ::fstatfs(descriptor, &where) == 0 && where.f_type == TMPFS_MAGIC;
}

}  // namespace

extern "C" {

int __real_shm_open(const char* name, int flags, mode_t mode);
int __real_ftruncate(int descriptor, off_t bytes);
long __real_sysconf(int name);
void* __real_mmap(void* at, std::size_t bytes, int protection, int flags, int descriptor,
                  off_t offset);
int __real_madvise(void* at, std::size_t bytes, int advice);

int __wrap_shm_open(const char* name, int flags, mode_t mode) {
  if (std::strlen(name) <= kNameMax) return __real_shm_open(name, flags, mode);
  errno = ENAMETOOLONG;
  return -1;
}

// For an object whose size is already set.
int __wrap_ftruncate(int descriptor, off_t bytes) {
  struct stat facts{};
  if (::fstat(descriptor, &facts) == 0 && facts.st_nlink == 0 && facts.st_size != 0 &&
      IsSharedMemory(descriptor)) {
    errno = EINVAL;
    return -1;
  }
  return __real_ftruncate(descriptor, bytes);
}

long __wrap_sysconf(int name) { return name == _SC_PAGESIZE ? kPageBytes : __real_sysconf(name); }

int __wrap_getpagesize() { return static_cast<int>(kPageBytes); }

// Begins at a 16 KiB page: maps a larger range first, and unmaps the surplus.
void* __wrap_mmap(void* at, std::size_t bytes, int protection, int flags, int descriptor,
                  off_t offset) {
  if (offset % kPageBytes != 0) {
    errno = EINVAL;
    return MAP_FAILED;
  }
  const auto page = static_cast<std::size_t>(kPageBytes);
  if ((flags & MAP_FIXED) != 0 || bytes == 0 || bytes > SIZE_MAX - 2 * page) {
    return __real_mmap(at, bytes, protection, flags, descriptor, offset);
  }
  const auto whole = static_cast<std::size_t>(__real_sysconf(_SC_PAGESIZE));
  const std::size_t length = (bytes + whole - 1) / whole * whole;
  void* const room =
      __real_mmap(at, length + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return MAP_FAILED;
  auto* const first = static_cast<char*>(room);
  const auto place = reinterpret_cast<std::uintptr_t>(room);
  const std::size_t before = (page - place % page) % page;
  void* const mapped =
      __real_mmap(first + before, bytes, protection, flags | MAP_FIXED, descriptor, offset);
  const int reason = errno;
  if (mapped == MAP_FAILED) {
    ::munmap(room, length + page);
  } else {
    if (before != 0) ::munmap(first, before);
    ::munmap(first + before + length, page - before);
  }
  errno = reason;
  return mapped;
}

int __wrap_madvise(void* at, std::size_t bytes, int advice) {
  if (advice == MADV_FREE && __real_madvise(at, bytes, MADV_REMOVE) == 0) return 0;
  return __real_madvise(at, bytes, advice);
}
}
