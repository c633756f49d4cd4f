#include "proto/queue/doorbell.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "proto/queue/descriptor_passing.h"
#include "proto/queue/socket_options.h"

namespace mlxcomm::queue {
namespace {

bool Prepare(int end) {
  return SilenceSignals(end) && ::fcntl(end, F_SETFD, FD_CLOEXEC) == 0 &&
         ::fcntl(end, F_SETFL, O_NONBLOCK) == 0;
}

}  // namespace

bool MakeDoorbellPair(int ends[2]) {
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return false;
  if (Prepare(ends[0]) && Prepare(ends[1])) return true;
  const int saved = errno;
  ::close(ends[0]);
  ::close(ends[1]);
  errno = saved;
  return false;
}

void RingDoorbell(int doorbell) {
  const char byte = 1;
  while (::send(doorbell, &byte, 1, kNoSignal | MSG_DONTWAIT) < 0 && errno == EINTR) {
  }
}

// Reads once, so that a fast writer cannot block the reader. The remaining bytes keep the
// descriptor readable.
DoorbellState DrainDoorbell(int doorbell, int* descriptor) {
  if (descriptor != nullptr) *descriptor = -1;
  char bytes[4096];
  for (;;) {
    int count = 0;
    const ssize_t got = ReceiveSome(doorbell, bytes, sizeof bytes, descriptor,
                                    /*capacity=*/descriptor == nullptr ? 0 : 1, &count);
    if (got > 0) return DoorbellState::kRung;
    if (got == 0) return DoorbellState::kOtherSideGone;
    if (errno == EINTR) continue;
    return errno == EAGAIN || errno == EWOULDBLOCK ? DoorbellState::kSilent
                                                   : DoorbellState::kOtherSideGone;
  }
}

DoorbellState WaitForDoorbell(int doorbell, std::uint64_t timeout_ns, int* descriptor) {
  if (descriptor != nullptr) *descriptor = -1;
  pollfd waited{doorbell, POLLIN, 0};
  // Rounded up, so that a short wait does not become a spin.
  const std::uint64_t ms = std::min<std::uint64_t>((timeout_ns + 999'999) / 1'000'000, 3'600'000);
  if (::poll(&waited, 1, static_cast<int>(ms)) <= 0) return DoorbellState::kSilent;
  return DrainDoorbell(doorbell, descriptor);
}

}  // namespace mlxcomm::queue
