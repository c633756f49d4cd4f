// How frames reach nodes that are not neighbours: payloads of kTopology and circuit frames (frame.h).
//
//   kTopology       Advertisement, then neighbour_count node ids: the origin's neighbours.
//                   Flooded: a node passes on what is new to it.
//   kCircuitOpen    CircuitOpening, then node_count node ids: the route, from the opener
//                   to the destination. Each node on it remembers the node before it and
//                   the node behind it, and passes the message on.
//   kCircuitOpened  Introduction of the destination, back to the opener.
//   kCircuitFrame   FrameHeader of the frame that is carried, then a piece of its payload.
//   kCircuitClosed  the reason, as text for people. From either end, or from the node where the
//                   route broke; each node that gets it forgets the circuit and passes it on.
//
// The two ends speak the newest version of the protocol that both introductions have, as neighbours
// do; without one the destination closes the circuit. Introductions on a circuit carry no HMAC: every
// node of the route has proved the key to its neighbours, and any holder of the key could make one.
#pragma once

#include <cstdint>
#include <type_traits>

#include "proto/wire/frame.h"
#include "proto/wire/hello.h"

namespace mlxcomm::wire {

inline constexpr std::uint32_t kNeighboursMax = 64;  // That one node may advertise.
inline constexpr std::uint32_t kRouteNodesMax = 33;  // Both ends included.
inline constexpr std::uint64_t kAdvertisementMax = std::uint64_t{1} << 62;
inline constexpr std::uint32_t kCircuitTextBytesMax = 512;
// What may be under way on a circuit, in each direction, until the other end has taken it. A node
// that forwards closes a circuit that has more.
inline constexpr std::uint32_t kCircuitFramesMax = 128;
inline constexpr std::uint32_t kCircuitBytesMax = 512 * 1024;

struct Advertisement {
  NodeIdBytes origin;
  std::uint64_t incarnation;      // Of the origin's daemon.
  std::uint64_t number;           // Greater is newer; 1 to kAdvertisementMax.
  std::uint32_t neighbour_count;  // At most kNeighboursMax.
  std::uint32_t reserved;         // Zero.
  char node_name[kNameBytesMax];  // NUL-padded.
};
static_assert(sizeof(Advertisement) == 104 && std::is_trivially_copyable_v<Advertisement>);

struct CircuitOpening {
  Introduction introduction;  // Of the opener; its mac is zero.
  std::uint32_t node_count;   // 3 to kRouteNodesMax.
  std::uint32_t reserved;     // Zero.
};
static_assert(sizeof(CircuitOpening) == 168 && std::is_trivially_copyable_v<CircuitOpening>);

}  // namespace mlxcomm::wire
