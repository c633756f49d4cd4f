// Fixed-size messages with file descriptors over a Unix socket (SCM_RIGHTS).
//
// Reads exactly the bytes that were asked for and not one more, because the same connection speaks
// gRPC afterwards. Works on blocking and non-blocking sockets; every call has a deadline.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace mlxcomm::queue {

inline constexpr int kDescriptorsMax = 4;

// Both return false on error, end of file or at the deadline (errno: ETIMEDOUT).
// timeout_ns is from now.
[[nodiscard]] bool SendWithDescriptors(int socket, const void* data, std::size_t bytes,
                                       const int* descriptors, int count, std::uint64_t timeout_ns);
// Receives up to `capacity` descriptors, close-on-exec; *count says how many came.
// Surplus ones are closed. On failure none is left open.
[[nodiscard]] bool ReceiveWithDescriptors(int socket, void* data, std::size_t bytes,
                                          int* descriptors, int capacity, int* count,
                                          std::uint64_t timeout_ns);

// One read of what is there, as recv; descriptors that came with it are appended, `*count` of them
// before and after.
ssize_t ReceiveSome(int socket, void* data, std::size_t bytes, int* descriptors, int capacity,
                    int* count);

}  // namespace mlxcomm::queue
