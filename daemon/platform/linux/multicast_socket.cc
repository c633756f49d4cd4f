#include "daemon/platform/multicast_socket.h"

#include <sys/socket.h>

#include <cerrno>

namespace mlxcomm::platform {

int BindToInterface(const FileDescriptor& socket, const std::string& interface, std::uint32_t) {
  const auto bytes = static_cast<socklen_t>(interface.size());
  if (::setsockopt(socket.get(), SOL_SOCKET, SO_BINDTODEVICE, interface.data(), bytes) == 0) {
    return 0;
  }
  // Kernels before 5.7 leave it to root; the index distinguishes datagrams of other interfaces.
  return errno == EPERM ? 0 : errno;
}

}  // namespace mlxcomm::platform
