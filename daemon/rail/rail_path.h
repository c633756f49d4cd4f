// Which cable a rail lies on: the interface names of its two ends, seen from this one.
//
// Two connections over the same path are the same rail, whatever their addresses are
// (IPv4 and IPv6 over one cable would share it anyhow): the newer takes the older's place.
// On a loopback interface the address stands for the interface, so that nodes of one host
// can have several rails. A circuit is on a path of its own, which no interface is called. A
// side rail (side_rails.h) is beside the connection over which it was made: the same interfaces,
// another transport, and both are there at once.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <utility>

#include "proto/types/link_reason.h"

namespace mlxcomm::rail {

// A connection's end.
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

  bool is_beside() const { return IsBeside(transport); }

  friend bool operator==(const RailPath&, const RailPath&) = default;
  friend bool operator<(const RailPath& a, const RailPath& b) {
    return std::tie(a.local, a.remote, a.transport) < std::tie(b.local, b.remote, b.transport);
  }
};

}  // namespace mlxcomm::rail
