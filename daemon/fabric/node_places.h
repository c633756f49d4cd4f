// Decides which nodes keep a place when more want to be neighbours than the limit allows. A key
// holder can invent nodes, so a wanted node never loses to one that merely connected. Lower claims
// yield first:
//
//   kComes  it has connected
//   kFound  a hello on one of this machine's interfaces has found it
//   kNamed  the configuration names its address
//   kInJob  a group has ranks there and here: never yields
//
// README.md has the rules within one claim. While places are free, one address may take them all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "daemon/link/fabric_listener.h"
#include "proto/wire/hello.h"

namespace mlxcomm::fabric {

struct ConnectionOrigin {
  std::string address;                              // The peer's, without the port.
  link::NodeClaim claim = link::NodeClaim::kComes;  // Given by the address that was dialed.
};

struct PlaceHolder {
  link::NodeClaim claim = link::NodeClaim::kComes;
  std::string address;    // Lacks the port.
  std::string interface;  // Belongs to this machine.
};

struct PlaceAnswer {
  enum class Kind : std::uint8_t { kFree, kYields, kFull, kAddressFull };
  Kind kind = Kind::kFree;
  std::size_t who = 0;  // kYields: index into the holders.
};

// Returns how many nodes one address may hold once all places are taken.
inline constexpr std::size_t NodesOfAddressMax(std::size_t nodes_max) {
  return nodes_max / 4 < 8 ? 8 : nodes_max / 4;
}
// Limits of further connections, in total and from one address, for nodes neither configured nor in
// a job.
inline constexpr std::size_t ConnectionsMax(std::size_t nodes_max) { return 2 * nodes_max; }
inline constexpr std::size_t ConnectionsOfAddressMax(std::size_t nodes_max) {
  return 2 * NodesOfAddressMax(nodes_max);
}

// Why a node or its connection is refused, and the remedy. `here`: "here" or "there", where the
// limit is.
std::string TooManyText(wire::VerdictCode verdict, std::size_t nodes_max, const char* here);

bool IsTooMany(wire::VerdictCode verdict);

// `holders`: oldest first, the newcomer not among them.
PlaceAnswer FindPlace(const PlaceHolder& newcomer, std::span<const PlaceHolder> holders,
                      std::size_t nodes_max);

}  // namespace mlxcomm::fabric
