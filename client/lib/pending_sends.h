// Sends that have gone on: their payload lies in the arena, and no thread waits for the receiver. So ranks
// that all send first and receive then do not wait for one another in a circle.
//
//   GoOn ──▶ under way ──ReapSends, by whatever comes next──▶ ended
//     '───more than SendBytesMax() to that rank: waits for the oldest
//
// A failure of such a send has failed its group, so the group's next operation raises it.
//
// Owner: the process, once in each library that contains this file. Thread: any; GoOn may wait, ReapSends
// never does. Memory: the payloads, in the arena; at most kSendsMax for each group and rank.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "client/lib/mlxcomm.h"

namespace mlxcomm::client {

inline constexpr std::size_t kSendsMax = 64;

// By MLXCOMM_SEND_BYTES, read once for the process; 64 MiB by default. 0: each send waits for its receiver.
std::uint64_t SendBytesMax();

// `ticket` is that of a send to `rank`; `keeps` is kept until it has ended, and keeps the group. Returns
// the failure of an earlier send that had to be waited for.
mlxcomm_code GoOn(mlxcomm_group* group, std::uint64_t ticket, std::uint32_t rank,
                  std::uint64_t bytes, std::shared_ptr<const void> keeps, mlxcomm_error* error);
void ReapSends();
void ReportLateSends();  // Reaps, and reports on standard error those that failed.
bool AnySends();
// Waits until none is under way. False: not within `most`, or Ctrl-C came first.
bool DrainSends(std::chrono::milliseconds most);

}  // namespace mlxcomm::client
