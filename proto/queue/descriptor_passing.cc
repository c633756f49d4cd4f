#include "proto/queue/descriptor_passing.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "proto/queue/socket_options.h"

namespace mlxcomm::queue {
namespace {

using Clock = std::chrono::steady_clock;

#if defined(MSG_CMSG_CLOEXEC)
constexpr int kCloseOnExec = MSG_CMSG_CLOEXEC;
#else
constexpr int kCloseOnExec = 0;  // macOS: set by fcntl after receipt.
#endif

bool Await(int socket, short events, Clock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) {
      errno = ETIMEDOUT;
      return false;
    }
    pollfd waited{socket, events, 0};
    const int ready = ::poll(&waited, 1, static_cast<int>(std::min<long long>(left, 60'000)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

bool IsTransient(int error) { return error == EINTR || error == EAGAIN || error == EWOULDBLOCK; }

// Moves the message's descriptors into `descriptors` and closes surplus ones.
void TakeDescriptors(msghdr& message, int* descriptors, int capacity, int* count) {
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t arrived = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < arrived; ++i) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
      if (*count >= capacity) {
        ::close(descriptor);
        continue;
      }
      ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
      descriptors[(*count)++] = descriptor;
    }
  }
}

}  // namespace

bool SendWithDescriptors(int socket, const void* data, std::size_t bytes, const int* descriptors,
                         int count, std::uint64_t timeout_ns) {
  if (count > kDescriptorsMax) {
    errno = EINVAL;
    return false;
  }
  const auto deadline = Clock::now() + std::chrono::nanoseconds(timeout_ns);
  std::size_t sent = 0;
  while (sent < bytes) {
    iovec part{const_cast<char*>(static_cast<const char*>(data)) + sent, bytes - sent};
    alignas(cmsghdr) char control[CMSG_SPACE(kDescriptorsMax * sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (sent == 0 && count > 0) {  // The first byte carries the descriptors.
      const std::size_t payload = static_cast<std::size_t>(count) * sizeof(int);
      message.msg_control = control;
      message.msg_controllen = static_cast<decltype(message.msg_controllen)>(CMSG_SPACE(payload));
      cmsghdr* const header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = static_cast<decltype(header->cmsg_len)>(CMSG_LEN(payload));
      std::memcpy(CMSG_DATA(header), descriptors, payload);
    }
    const ssize_t done = ::sendmsg(socket, &message, kNoSignal | MSG_DONTWAIT);
    if (done >= 0) {
      sent += static_cast<std::size_t>(done);
    } else if (!IsTransient(errno) || !Await(socket, POLLOUT, deadline)) {
      return false;
    }
  }
  return true;
}

ssize_t ReceiveSome(int socket, void* data, std::size_t bytes, int* descriptors, int capacity,
                    int* count) {
  iovec part{data, bytes};
  alignas(cmsghdr) char control[CMSG_SPACE(kDescriptorsMax * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  // Without it the system discards descriptors. Closing them here could block in a file system.
  if (capacity > 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
  }
  const ssize_t done = ::recvmsg(socket, &message, MSG_DONTWAIT | kCloseOnExec);
  if (done > 0) TakeDescriptors(message, descriptors, capacity, count);
  return done;
}

bool ReceiveWithDescriptors(int socket, void* data, std::size_t bytes, int* descriptors,
                            int capacity, int* count, std::uint64_t timeout_ns) {
  const auto deadline = Clock::now() + std::chrono::nanoseconds(timeout_ns);
  std::size_t received = 0;
  *count = 0;
  while (received < bytes) {
    const ssize_t done = ReceiveSome(socket, static_cast<char*>(data) + received, bytes - received,
                                     descriptors, capacity, count);
    if (done > 0) {
      received += static_cast<std::size_t>(done);
      continue;
    }
    if (done < 0 && IsTransient(errno) && Await(socket, POLLIN, deadline)) continue;
    if (done == 0) errno = ECONNRESET;
    const int saved = errno;
    for (int i = 0; i < *count; ++i) ::close(descriptors[i]);
    *count = 0;
    errno = saved;
    return false;
  }
  return true;
}

}  // namespace mlxcomm::queue
