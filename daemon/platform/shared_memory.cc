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
  // A hint, where the system has huge pages; the other process gives it for its own mapping.
  if (bytes >= kLargePageBytes) ::madvise(data, bytes, MADV_HUGEPAGE);
#endif
  return SharedSegment(std::move(object), static_cast<std::byte*>(data), bytes);
}

SharedSegment::SharedSegment(SharedSegment&& other) noexcept
    : descriptor_(std::move(other.descriptor_)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

SharedSegment& SharedSegment::operator=(SharedSegment&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

SharedSegment::~SharedSegment() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

}  // namespace mlxcomm::platform
