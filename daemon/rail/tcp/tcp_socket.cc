#include "daemon/rail/tcp/tcp_socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#if defined(__linux__)
#include <linux/sockios.h>
#include <sys/ioctl.h>
#endif

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string_view>

#include "proto/queue/socket_options.h"
#include "proto/system/file_descriptor.h"

namespace mlxcomm::rail {
namespace {

// Unsent bytes in the kernel: enough until the next turn, but not many, because acknowledgements
// queue behind them.
constexpr int kUnsentBytesMax = 256 * 1024;

// The send buffer in seconds at the rate: wanted, and the minimum that lasts until the driver's
// next turn.
constexpr double kHeldSeconds = 0.003;
constexpr double kHeldSecondsMin = 0.0015;
constexpr double kHeldBytesMin = 1024 * 1024;

// Linux takes half of the buffer for its own bookkeeping, and grants twice what is asked for.
#if defined(__linux__)
constexpr double kAskedPart = 0.5;
#else
constexpr double kAskedPart = 1;
#endif

// The largest size that the system grants; 0: unknown.
int SendBufferMax() {
  const FileDescriptor trial(::socket(AF_INET, SOCK_STREAM, 0));
  if (trial.get() < 0) return 0;
  int bytes = 1 << 30;
  // Some systems clamp it, some refuse.
  while (bytes >= 64 * 1024 &&
         ::setsockopt(trial.get(), SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes) != 0) {
    bytes = bytes / 4 * 3;
  }
  socklen_t length = sizeof bytes;
  if (::getsockopt(trial.get(), SOL_SOCKET, SO_SNDBUF, &bytes, &length) != 0) return 0;
  return static_cast<int>(bytes * kAskedPart);
}

void SetSendBuffer(int socket, double bytes) {
  const int asked = static_cast<int>(bytes);
  ::setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &asked, sizeof asked);
}

// Restores the system's choice, or the maximum if the system cannot.
void GiveBackSendBuffer(int socket, double max) {
#if defined(SO_BUF_LOCK)
  const int none = 0;
  if (::setsockopt(socket, SOL_SOCKET, SO_BUF_LOCK, &none, sizeof none) == 0) return;
#endif
  SetSendBuffer(socket, max);
}

}  // namespace

bool FitSendBuffer(int socket, double bytes_per_second, std::uint64_t round_trip_ns, bool fitted) {
  static std::atomic<int> known_max{0};
  if (known_max.load(std::memory_order_relaxed) == 0) known_max = SendBufferMax();
  const double max = known_max.load(std::memory_order_relaxed);
  const double trip_seconds = 2 * static_cast<double>(round_trip_ns) / 1e9;
  const double wanted_seconds = std::max(kHeldSeconds, trip_seconds);
  const double needed_seconds = std::max(kHeldSecondsMin, trip_seconds);
  const double wanted = kAskedPart * std::max(wanted_seconds * bytes_per_second, kHeldBytesMin);
  if (kAskedPart * needed_seconds * bytes_per_second > max) {
    if (fitted) GiveBackSendBuffer(socket, max);
    return false;
  }
  SetSendBuffer(socket, std::min(wanted, max));
  return true;
}

std::optional<std::uint64_t> UnacknowledgedBytes(int socket) {
  int bytes = 0;
#if defined(__linux__)
  if (::ioctl(socket, SIOCOUTQ, &bytes) != 0 || bytes < 0) return std::nullopt;
#else
  socklen_t length = sizeof bytes;
  if (::getsockopt(socket, SOL_SOCKET, SO_NWRITE, &bytes, &length) != 0 || bytes < 0) {
    return std::nullopt;
  }
#endif
  return static_cast<std::uint64_t>(bytes);
}

void LeavePacing([[maybe_unused]] int socket) {
#if defined(TCP_CONGESTION)
  char name[16] = {};
  socklen_t length = sizeof name;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name, &length) != 0) return;
  if (!std::string_view(name, ::strnlen(name, sizeof name)).starts_with("bbr")) return;
  // Reno needs no privileges anywhere.
  for (const std::string_view other : {"cubic", "reno"}) {
    if (::setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, other.data(),
                     static_cast<socklen_t>(other.size())) == 0) {
      return;
    }
  }
#endif
}

void SetUpSocket(int socket) {
#if defined(TCP_NOTSENT_LOWAT)
  ::setsockopt(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kUnsentBytesMax, sizeof kUnsentBytesMax);
#endif
  queue::SilenceSignals(socket);
}

}  // namespace mlxcomm::rail
