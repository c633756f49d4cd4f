#include "daemon/platform/shared_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace mlxcomm::platform {
namespace {

[[maybe_unused]] constexpr std::uint64_t kLargePageBytes = 2 * 1024 * 1024;

}  // namespace

absl::StatusOr<SharedSegment> SharedSegment::Create(const char* name, std::uint64_t bytes) {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  bytes = (bytes + page - 1) / page * page;
  FileDescriptor object = MakeFixedSizeObject(name, bytes);
  if (!object.valid()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no shared memory object of ", bytes, " bytes: ", std::strerror(errno)));
  }
  int flags = MAP_SHARED;
#if defined(MAP_NORESERVE)
  flags |= MAP_NORESERVE;
#endif
  void* const data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, object.get(), 0);
  if (data == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot map ", bytes, " bytes: ", std::strerror(errno)));
  }
#if defined(MADV_HUGEPAGE)
  // A hint; the other process gives it for its own mapping.
  if (bytes >= kLargePageBytes) ::madvise(data, bytes, MADV_HUGEPAGE);
#endif
  return SharedSegment(std::move(object), Mapping(data, bytes));
}

}  // namespace mlxcomm::platform
