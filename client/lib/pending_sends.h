// Pending sends: their payload is in the arena, and no thread waits for the receiver. So ranks that
// all send first, then receive, do not deadlock.
//
//   GoOn ──▶ under way ──ReapSends, by a later call──▶ ended
//     '───more than SendBytesMax() to that rank, or kSendsMax: waits for the oldest to it
//
// A failure of such a send has failed its group, so the group's next operation raises it.
//
// Owner: the process, once in each library that contains this file. Thread: any; GoOn may wait,
// ReapSends never does. Memory: the payloads, in the arena; at most about kSendsMax.
#pragma once

#include <cstdint>
#include <memory>

#include "client/lib/mlxcomm.h"

namespace mlxcomm::client {

inline constexpr std::uint64_t kSendsMax = 256;  // The most pending sends of a process.

// Set by MLXCOMM_SEND_BYTES, read once for the process; 64 MiB by default. 0: each send waits for
// its receiver.
std::uint64_t SendBytesMax();

// `ticket` is that of a send to `rank`; `keeps` is kept until it has ended, and keeps the group.
// Returns the failure of an earlier send that had to be waited for.
mlxcomm_code GoOn(mlxcomm_group* group, std::uint64_t ticket, std::uint32_t rank,
                  std::uint64_t bytes, std::shared_ptr<const void> keeps, mlxcomm_error* error);
void ReapSends();
// Waits for one of the sends, and reports on standard error if it fails; its group's next operation
// fails as well. False if there are none.
bool AwaitASend();
// At the end of a process: waits for all of them, as long as their receivers may still call, or
// until Ctrl-C.
void AwaitSends();

}  // namespace mlxcomm::client
