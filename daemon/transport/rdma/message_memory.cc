#include "daemon/transport/rdma/message_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace mlxcomm::fabric::rdma {

absl::StatusOr<MessageMemory> MessageMemory::MapWithin(std::uint64_t boundary, std::size_t bytes,
                                                       int flags, int descriptor,
                                                       std::uint64_t offset) {
  // One that reaches over a boundary is kept until another is found, which so lies elsewhere.
  MessageMemory refused;
  for (int attempt = 0; attempt < 2; ++attempt) {
    MessageMemory found;
    void* const pages = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, descriptor,
                               static_cast<off_t>(offset));
    if (pages == MAP_FAILED) {
      return absl::ResourceExhaustedError(
          absl::StrCat("no memory for ", bytes, " bytes of messages: ", std::strerror(errno)));
    }
    found.address_ = static_cast<std::byte*>(pages);
    found.bytes_ = bytes;
    const auto first = reinterpret_cast<std::uintptr_t>(pages);
    if (boundary == 0 || first / boundary == (first + bytes - 1) / boundary) return found;
    refused = std::move(found);
  }
  return absl::ResourceExhaustedError("no memory for messages within 4 GiB");
}

absl::StatusOr<MessageMemory> MessageMemory::Map(std::size_t bytes, std::uint64_t boundary) {
  return MapWithin(boundary, bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

absl::StatusOr<MessageMemory> MessageMemory::MapShared(int descriptor, std::uint64_t offset,
                                                       std::size_t bytes, std::uint64_t boundary) {
  absl::StatusOr<MessageMemory> mapped = MapWithin(boundary, bytes, MAP_SHARED, descriptor, offset);
#if defined(MADV_DONTDUMP)
  if (mapped.ok()) ::madvise(mapped->address(), bytes, MADV_DONTDUMP);
#endif
  return mapped;
}

MessageMemory::~MessageMemory() {
  if (address_ != nullptr) ::munmap(address_, bytes_);
}

}  // namespace mlxcomm::fabric::rdma
