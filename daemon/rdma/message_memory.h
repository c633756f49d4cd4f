// Pages that a device may be given: of one's own, or of an object that another process shares. They
// do not reach over a multiple of `boundary` (limits.h; 0: they may).
//
// Owner: the caller. Thread: any. Memory: the pages.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "daemon/platform/mapping.h"

namespace mlxcomm::rdma {

// RESOURCE_EXHAUSTED: there is none like that.
absl::StatusOr<platform::Mapping> MapMessages(std::size_t bytes, std::uint64_t boundary);
// `offset`: whole pages. No core file has it.
absl::StatusOr<platform::Mapping> MapSharedMessages(int descriptor, std::uint64_t offset,
                                                    std::size_t bytes, std::uint64_t boundary);

}  // namespace mlxcomm::rdma
