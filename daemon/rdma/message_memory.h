// Memory for a device: private pages, or pages of an object that another process shares. They do
// not cross a multiple of `boundary` (limits.h; 0: no limit).
//
// Owner: the caller. Thread: any. Memory: the pages.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "daemon/platform/mapping.h"

namespace mlxcomm::rdma {

absl::StatusOr<platform::Mapping> MapMessages(std::size_t bytes, std::uint64_t boundary);
// `offset`: whole pages. Core files omit the mapping.
absl::StatusOr<platform::Mapping> MapSharedMessages(int descriptor, std::uint64_t offset,
                                                    std::size_t bytes, std::uint64_t boundary);

}  // namespace mlxcomm::rdma
