#include "daemon/intake/control_connection.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <utility>

#include "proto/queue/socket_options.h"

namespace mlxcomm::intake {
namespace {

// macOS gives a socket of its own accord 8 KiB, which one long request fills. Best effort.
void Prepare(int socket) {
  constexpr int kBytes = 256 * 1024;
  ::setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &kBytes, sizeof kBytes);
  ::setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &kBytes, sizeof kBytes);
  ::fcntl(socket, F_SETFL, O_NONBLOCK);
  ::fcntl(socket, F_SETFD, FD_CLOEXEC);
}

}  // namespace

bool ControlConnection::MakePair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return false;
  relay.Reset(ends[0]);
  grpc.Reset(ends[1]);
  for (const int end : ends) Prepare(end);
  queue::SilenceSignals(grpc.get());
  return true;
}

void ControlConnection::SetProcess(FileDescriptor connection) {
  process = std::move(connection);
  Prepare(process.get());
}

}  // namespace mlxcomm::intake
