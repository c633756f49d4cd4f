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
#include <utility>

#include "absl/status/statusor.h"
#include "daemon/platform/mapping.h"
#include "proto/system/file_descriptor.h"

namespace mlxcomm::platform {

class SharedSegment {
 public:
  // `bytes` is rounded up to whole pages. RESOURCE_EXHAUSTED with the system's reason.
  static absl::StatusOr<SharedSegment> Create(const char* name, std::uint64_t bytes);

  std::byte* data() const { return mapping_.data(); }
  std::uint64_t bytes() const { return mapping_.bytes(); }
  int descriptor() const { return descriptor_.get(); }
  // The memory stays mapped; nobody else can be given it any more.
  void CloseDescriptor() { descriptor_.Reset(); }

 private:
  SharedSegment(FileDescriptor descriptor, Mapping mapping)
      : descriptor_(std::move(descriptor)), mapping_(std::move(mapping)) {}

  FileDescriptor descriptor_;
  Mapping mapping_;
};

// The part that differs between systems: an empty object of exactly `bytes`, whose
// size is fixed. Invalid with errno set on failure.
FileDescriptor MakeFixedSizeObject(const char* name, std::uint64_t bytes);

}  // namespace mlxcomm::platform
