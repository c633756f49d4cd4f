// A rank's call of an operation. The intake fills it from a checked copy of what the process has
// submitted, the node adds the rank, and the core keeps it until the operation ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "daemon/collective/signature.h"

namespace mlxcomm::collective {

using SessionId = std::uint64_t;  // Never reused, never 0.

struct Call {
  SessionId session = 0;
  std::uint64_t group = 0;
  std::uint64_t ticket = 0;
  std::uint32_t rank = 0;
  Signature signature;          // Without counts_digest, which Group sets.
  std::uint32_t peer_rank = 0;  // send, recv
  // send, recv. Collectives: the lower half of their number on the group's page.
  std::uint32_t tag = 0;
  // Other ranks may have called it on the group's page, which closes (jobs/direct_groups.h).
  bool closes_page = false;
  // It may exceed the timeout while a rank that it waits for may still call (roll_call.h).
  bool by_liveness = false;
  std::uint64_t timeout_ns = 0;  // > 0; from the intake also 0, the daemon's default.
  // A collective's number among those of its rank, if the ranks also carry some out directly;
  // nullopt: it follows the last one.
  std::optional<std::uint64_t> number;

  // The memory in the process's arena that it reads and writes. The process may change it at any
  // time, so what is checked is copied.
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::uint64_t input_bytes_available = 0;  // Counted from `input` to the arena's end.
  std::uint64_t output_bytes_available = 0;
  const std::byte* counts = nullptr;  // Set if the kind has a table of counts.
  std::uint64_t counts_bytes_available = 0;
};

}  // namespace mlxcomm::collective
