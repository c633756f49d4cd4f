// Memory that can be passed to another process by its descriptor.
//
// Pages are allocated when touched. The size can never change, so neither side can make the other
// fault: sealed on Linux (memfd), fixed by the first ftruncate on macOS (shm_open).
//
// Owner: the session that created it. Thread: any. Memory: unmapped and closed with the object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "daemon/platform/mapping.h"
#include "proto/system/file_descriptor.h"

namespace mlxcomm::platform {

class SharedSegment {
 public:
  // `bytes` is rounded up to whole pages. RESOURCE_EXHAUSTED: the system's error.
  static absl::StatusOr<SharedSegment> Create(const char* name, std::uint64_t bytes);

  std::byte* data() const { return mapping_.data(); }
  std::uint64_t bytes() const { return mapping_.bytes(); }
  int descriptor() const { return descriptor_.get(); }
  // Keeps the memory mapped, but it cannot be passed on any more.
  void CloseDescriptor() { descriptor_.Reset(); }

 private:
  SharedSegment(FileDescriptor descriptor, Mapping mapping)
      : descriptor_(std::move(descriptor)), mapping_(std::move(mapping)) {}

  FileDescriptor descriptor_;
  Mapping mapping_;
};

// Implemented for each system: an empty object of exactly `bytes`. Not valid, with errno set, on
// failure.
FileDescriptor MakeFixedSizeObject(const char* name, std::uint64_t bytes);

}  // namespace mlxcomm::platform
