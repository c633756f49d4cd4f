#include "daemon/rdma/message_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace mlxcomm::rdma {
namespace {

absl::StatusOr<platform::Mapping> MapWithin(std::uint64_t boundary, std::size_t bytes, int flags,
                                            int descriptor, std::uint64_t offset) {
  // A mapping across a boundary is kept during the next attempt, which therefore lies elsewhere.
  platform::Mapping refused;
  for (int attempt = 0; attempt < 2; ++attempt) {
    void* const pages = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, descriptor,
                               static_cast<off_t>(offset));
    if (pages == MAP_FAILED) {
      return absl::ResourceExhaustedError(
          absl::StrCat("no memory for ", bytes, " bytes of messages: ", std::strerror(errno)));
    }
    platform::Mapping found(pages, bytes);
    const auto first = reinterpret_cast<std::uintptr_t>(pages);
    if (boundary == 0 || first / boundary == (first + bytes - 1) / boundary) return found;
    refused = std::move(found);
  }
  return absl::ResourceExhaustedError(
      "no memory for messages that does not cross a 4 GiB boundary");
}

}  // namespace

absl::StatusOr<platform::Mapping> MapMessages(std::size_t bytes, std::uint64_t boundary) {
  return MapWithin(boundary, bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

absl::StatusOr<platform::Mapping> MapSharedMessages(int descriptor, std::uint64_t offset,
                                                    std::size_t bytes, std::uint64_t boundary) {
  absl::StatusOr<platform::Mapping> mapped =
      MapWithin(boundary, bytes, MAP_SHARED, descriptor, offset);
#if defined(MADV_DONTDUMP)
  if (mapped.ok()) ::madvise(mapped->data(), bytes, MADV_DONTDUMP);
#endif
  return mapped;
}

}  // namespace mlxcomm::rdma
