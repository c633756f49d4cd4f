#include <arpa/inet.h>

#include <algorithm>

#include "daemon/fabric/rdma/queue_pair.h"

namespace mlxcomm::fabric::rdma {

std::string GidText(const Gid& gid) {
  constexpr std::array<std::uint8_t, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  char text[INET6_ADDRSTRLEN] = {};
  if (std::equal(kMapped.begin(), kMapped.end(), gid.begin())) {
    ::inet_ntop(AF_INET, gid.data() + kMapped.size(), text, sizeof text);
  } else {
    ::inet_ntop(AF_INET6, gid.data(), text, sizeof text);
  }
  return text;
}

}  // namespace mlxcomm::fabric::rdma
