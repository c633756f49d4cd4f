#include "daemon/platform/multicast_socket.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

namespace mlxcomm::platform {

int BindToInterface(const FileDescriptor& socket, const std::string&, std::uint32_t index) {
  const auto bound = static_cast<int>(index);
  return ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_BOUND_IF, &bound, sizeof bound) == 0 ? 0
                                                                                            : errno;
}

}  // namespace mlxcomm::platform
