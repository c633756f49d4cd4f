// Which cable a rail lies on: the interface names of its two ends, seen from this one.
//
// Two connections over the same path are the same rail, whatever their addresses are
// (IPv4 and IPv6 over one cable would share it anyhow): the newer takes the older's place.
// On a loopback interface the address stands for the interface, so that nodes of one host
// can have several rails. A circuit is on a path of its own, which no interface is called. An
// RDMA rail is beside the connection over which it was made: the same interfaces, and both are
// there at once.
//
// Owner: plain values. Thread: any. Memory: two short strings.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"

namespace mlxcomm::fabric {

struct RailPath {
  std::string local;
  std::string remote;
  bool rdma = false;

  RailPath() = default;
  RailPath(std::string near, std::string far, bool over_rdma = false)
      : local(std::move(near)), remote(std::move(far)), rdma(over_rdma) {}
  static RailPath OfCircuit(std::uint64_t circuit) {
    return {"/circuit", absl::StrCat("/", absl::Hex(circuit, absl::kZeroPad16)), false};
  }

  friend bool operator==(const RailPath&, const RailPath&) = default;
  friend bool operator<(const RailPath& a, const RailPath& b) {
    return std::tie(a.local, a.remote, a.rdma) < std::tie(b.local, b.remote, b.rdma);
  }
};

}  // namespace mlxcomm::fabric
