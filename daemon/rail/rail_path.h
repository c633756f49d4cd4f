// The cable that a rail uses: the interface names of its two ends, seen from this side.
//
// Two connections over the same path are the same rail, whatever their addresses; the newer one
// replaces the older. A loopback address counts as an interface, so that nodes of one host can have
// several rails. A side rail (side_rails.h) exists beside its connection: same interfaces, another
// transport.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <utility>

#include "proto/types/link_reason.h"

namespace mlxcomm::rail {

enum class Role : bool { kDialer, kAcceptor };

struct RailPath {
  std::string local;
  std::string remote;
  Transport transport = Transport::kTcp;

  RailPath() = default;
  RailPath(std::string near, std::string far, Transport over = Transport::kTcp)
      : local(std::move(near)), remote(std::move(far)), transport(over) {}
  static RailPath OfCircuit(std::uint64_t circuit) {
    return {"/circuit", "/" + std::to_string(circuit), Transport::kRoute};
  }

  bool is_side_rail() const { return IsBeside(transport); }

  friend bool operator==(const RailPath&, const RailPath&) = default;
  friend bool operator<(const RailPath& a, const RailPath& b) {
    return std::tie(a.local, a.remote, a.transport) < std::tie(b.local, b.remote, b.transport);
  }
};

}  // namespace mlxcomm::rail
