#include <arpa/inet.h>

#include "daemon/transport/rdma/choose_gid.h"
#include "daemon/transport/rdma/queue_pair.h"

namespace mlxcomm::fabric::rdma {

std::string GidText(const Gid& gid) {
  char text[INET6_ADDRSTRLEN] = {};
  if (MirrorsIpv4(gid)) {
    ::inet_ntop(AF_INET, gid.data() + 12, text, sizeof text);
  } else {
    ::inet_ntop(AF_INET6, gid.data(), text, sizeof text);
  }
  return text;
}

}  // namespace mlxcomm::fabric::rdma
