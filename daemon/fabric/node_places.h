// Which nodes have a place among this daemon's neighbours, where more want one than may have one. A holder
// of the key may invent nodes, so one that is wanted here is never kept out by one that has only come. Who
// yields, first of all those of the lowest claim:
//
//   kComes  it has connected by itself
//   kFound  a hello on one of this machine's interfaces has found it
//   kNamed  the configuration names its address
//   kInJob  a group with ranks of this machine has ranks there: yields to nobody
//
// README.md, Links, says who yields among those of one claim. While there are free places, one address may
// have all.
//
// Functions of their arguments. Thread: any. Memory: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "daemon/link/fabric_listener.h"
#include "proto/wire/hello.h"

namespace mlxcomm::fabric {

// Where a connection comes from, or leads to.
struct ConnectionOrigin {
  std::string address;                              // Of the other side, without the port.
  link::NodeClaim claim = link::NodeClaim::kComes;  // By the address that was dialed.
};

struct PlaceHolder {
  link::NodeClaim claim = link::NodeClaim::kComes;
  std::string address;    // Without the port.
  std::string interface;  // Of this machine.
};

struct PlaceAnswer {
  enum class Kind : std::uint8_t { kFree, kYields, kFull, kAddressFull };
  Kind kind = Kind::kFree;
  std::size_t who = 0;  // kYields: of the holders.
};

// How many nodes one address may hold once all places are taken.
inline constexpr std::size_t NodesOfAddressMax(std::size_t nodes_max) {
  return nodes_max / 4 < 8 ? 8 : nodes_max / 4;
}
// A node's first connection needs only the node's place; further ones, of one that is neither named nor in a
// job, are made only while there are fewer than these in all, and of its address.
inline constexpr std::size_t ConnectionsMax(std::size_t nodes_max) { return 2 * nodes_max; }
inline constexpr std::size_t ConnectionsOfAddressMax(std::size_t nodes_max) {
  return 2 * NodesOfAddressMax(nodes_max);
}

// Why a node or its connection is refused, in the words of both sides: what there is, where it is set, what
// to do. `verdict`: kTooMany..; `here`: "here" for the side that refuses, "there" for the other.
std::string TooManyText(wire::VerdictCode verdict, std::size_t nodes_max, const char* here);

// kTooMany..
bool IsTooMany(wire::VerdictCode verdict);

// `holders`: oldest first, the newcomer not among them.
PlaceAnswer FindPlace(const PlaceHolder& newcomer, std::span<const PlaceHolder> holders,
                      std::size_t nodes_max);

}  // namespace mlxcomm::fabric
