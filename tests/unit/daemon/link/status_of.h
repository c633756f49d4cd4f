// The status of links, for tests of their makers.
#pragma once

#include <vector>

#include "daemon/link/link.h"
#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::link {

// `fabric`: Links or a TcpFabric.
template <typename Describes>
std::vector<v1::LinkStatus> StatusOfLinks(const Describes& links) {
  v1::NodeStatus status;
  links.Describe(status);
  return {status.links().begin(), status.links().end()};
}

inline v1::LinkStatus StatusOf(const Link& link) {
  v1::LinkStatus status;
  link.Describe(status);
  return status;
}

}  // namespace mlxcomm::link
