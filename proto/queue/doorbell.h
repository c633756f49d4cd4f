// One end of the stream socket pair between a client and its daemon: a byte wakes the other side's
// sleeping consumer, end-of-file shows that the other side is dead, which no eventfd could show.
//
// Bytes carry nothing, so a full socket buffer needs no second ring: the consumer is being woken
// already.
//
// Owner: the owner of the descriptor; these are functions on it. Thread: any.
#pragma once

#include <cstdint>

namespace mlxcomm::queue {

// A connected pair, non-blocking, close-on-exec, without SIGPIPE. False: errno.
[[nodiscard]] bool MakeDoorbellPair(int ends[2]);

void RingDoorbell(int doorbell);

enum class DoorbellState : std::uint8_t { kRung, kSilent, kOtherSideGone };

// Takes the bytes that are there, up to a bound, without waiting.
DoorbellState DrainDoorbell(int doorbell);
// As DrainDoorbell; a descriptor that came with a byte (hello.h) is the caller's then, -1: none did.
DoorbellState DrainDoorbell(int doorbell, int& descriptor);
// Waits up to timeout_ns for a byte or the end, then drains. kSilent: neither.
// Returns early, also kSilent, when a signal comes in.
DoorbellState WaitForDoorbell(int doorbell, std::uint64_t timeout_ns);
DoorbellState WaitForDoorbell(int doorbell, std::uint64_t timeout_ns, int& descriptor);

}  // namespace mlxcomm::queue
