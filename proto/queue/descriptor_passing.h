// Fixed-size messages with file descriptors over a Unix socket (SCM_RIGHTS).
//
// Reads exactly the requested bytes, because the connection speaks gRPC afterwards. Works on
// blocking and non-blocking sockets; every call has a deadline.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace mlxcomm::queue {

inline constexpr int kDescriptorsMax = 4;

// Both return false on an error, at end of file, or at the deadline (errno: ETIMEDOUT).
[[nodiscard]] bool SendWithDescriptors(int socket, const void* data, std::size_t bytes,
                                       const int* descriptors, int count, std::uint64_t timeout_ns);
// Receives up to `capacity` descriptors, close-on-exec, and sets *count. Surplus descriptors are
// closed; on failure all of them are.
[[nodiscard]] bool ReceiveWithDescriptors(int socket, void* data, std::size_t bytes,
                                          int* descriptors, int capacity, int* count,
                                          std::uint64_t timeout_ns);

// Receives once, without waiting, as recv does. Appends descriptors and updates *count.
ssize_t ReceiveSome(int socket, void* data, std::size_t bytes, int* descriptors, int capacity,
                    int* count);

}  // namespace mlxcomm::queue
