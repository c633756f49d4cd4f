// One end of the stream socket pair between a client and its daemon: a byte wakes the other side's
// sleeping consumer, and end-of-file shows that the other side is dead, which an eventfd cannot
// show. The bytes mean nothing, so a full socket buffer does not matter.
//
// Owner: the descriptor's owner. Thread: any.
#pragma once

#include <cstdint>

namespace mlxcomm::queue {

// A connected pair, non-blocking, close-on-exec, without SIGPIPE. False: errno.
[[nodiscard]] bool MakeDoorbellPair(int ends[2]);

void RingDoorbell(int doorbell);

enum class DoorbellState : std::uint8_t { kRung, kSilent, kOtherSideGone };

// Reads available bytes, up to a bound, without waiting. The caller then owns *descriptor, which
// was sent with a byte (-1: none); with nullptr, the system discards descriptors.
DoorbellState DrainDoorbell(int doorbell, int* descriptor = nullptr);
// Waits up to timeout_ns for a byte or the end, then drains. kSilent: neither, or a signal has
// arrived.
DoorbellState WaitForDoorbell(int doorbell, std::uint64_t timeout_ns, int* descriptor = nullptr);

}  // namespace mlxcomm::queue
