// Pages that a device may be given: of one's own, or of an object that another process shares. They
// do not reach over a multiple of `boundary` (limits.h; 0: they may).
//
// Owner: itself, movable. Thread: any. Memory: mapped until it is destroyed, or left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"

namespace mlxcomm::fabric::rdma {

class MessageMemory {
 public:
  // RESOURCE_EXHAUSTED: there is none like that.
  static absl::StatusOr<MessageMemory> Map(std::size_t bytes, std::uint64_t boundary);
  // `offset`: whole pages. No core file has it.
  static absl::StatusOr<MessageMemory> MapShared(int descriptor, std::uint64_t offset,
                                                 std::size_t bytes, std::uint64_t boundary);
  MessageMemory() = default;
  MessageMemory(MessageMemory&& other) noexcept { *this = std::move(other); }
  MessageMemory& operator=(MessageMemory&& other) noexcept {
    std::swap(address_, other.address_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~MessageMemory();
  // It stays mapped to the end of the process.
  void Leave() { address_ = nullptr; }
  std::byte* address() const { return address_; }
  std::size_t bytes() const { return bytes_; }

 private:
  static absl::StatusOr<MessageMemory> MapWithin(std::uint64_t boundary, std::size_t bytes,
                                                 int flags, int descriptor, std::uint64_t offset);

  std::byte* address_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace mlxcomm::fabric::rdma
