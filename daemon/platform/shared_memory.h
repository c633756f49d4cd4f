// A segment of memory that can be passed to another process by its descriptor.
//
// Sparse: address space is reserved at once, pages are allocated only when they are touched. Its
// size can never change afterwards, so neither side can make the other fault: sealed on Linux
// (memfd), fixed by the first ftruncate on macOS (shm_open).
//
// Owner: the session that made it. Thread: any. Memory: unmapped and closed with the object.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "proto/system/file_descriptor.h"

namespace mlxcomm::platform {

class SharedSegment {
 public:
  // `bytes` is rounded up to whole pages. RESOURCE_EXHAUSTED with the system's reason.
  static absl::StatusOr<SharedSegment> Create(const char* name, std::uint64_t bytes);

  SharedSegment(SharedSegment&& other) noexcept;
  SharedSegment& operator=(SharedSegment&& other) noexcept;
  ~SharedSegment();

  std::byte* data() const { return data_; }
  std::uint64_t bytes() const { return bytes_; }
  int descriptor() const { return descriptor_.get(); }
  // The memory stays mapped; nobody else can be given it any more.
  void CloseDescriptor() { descriptor_.Reset(); }

 private:
  SharedSegment(FileDescriptor descriptor, std::byte* data, std::uint64_t bytes)
      : descriptor_(std::move(descriptor)), data_(data), bytes_(bytes) {}

  FileDescriptor descriptor_;
  std::byte* data_ = nullptr;
  std::uint64_t bytes_ = 0;
};

// The part that differs between systems: an empty object of exactly `bytes`, whose
// size is fixed. Invalid with errno set on failure.
FileDescriptor MakeFixedSizeObject(const char* name, std::uint64_t bytes);

}  // namespace mlxcomm::platform
