#include "daemon/fabric/tcp/tcp_socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cstring>
#include <string_view>

#include "proto/queue/no_signal.h"

namespace mlxcomm::fabric {
namespace {

// What the kernel may hold that it has not sent: enough until the thread runs again, and
// little, for acknowledgements wait behind it. What is on the way comes on top of it.
constexpr int kUnsentBytesMax = 256 * 1024;

#if defined(TCP_CONGESTION)
// BBR, the default of some hosts, is made for long ways: it sends by a timer, at a rate that
// it measures anew whenever the connection was idle. On a cable and on loopback that costs a
// third of the throughput. Reno may be taken without privileges everywhere.
void LeavePacing(int socket) {
  char name[16] = {};
  socklen_t length = sizeof name;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name, &length) != 0) return;
  if (!std::string_view(name, ::strnlen(name, sizeof name)).starts_with("bbr")) return;
  for (const std::string_view other : {"cubic", "reno"}) {
    if (::setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, other.data(),
                     static_cast<socklen_t>(other.size())) == 0) {
      return;
    }
  }
}
#endif

}  // namespace

void SetUpSocket(int socket) {
#if defined(TCP_NOTSENT_LOWAT)
  ::setsockopt(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kUnsentBytesMax, sizeof kUnsentBytesMax);
#endif
#if defined(TCP_CONGESTION)
  LeavePacing(socket);
#endif
  queue::SilenceSignals(socket);
}

}  // namespace mlxcomm::fabric
