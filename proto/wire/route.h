// Routing to nodes that are not neighbours: payloads of kTopology and circuit frames (frame.h).
//
//   kTopology       Advertisement, then neighbour_count node ids: the origin's neighbours.
//                   Flooded: a node forwards an advertisement that is new to it.
//   kCircuitOpen    CircuitOpening, then node_count node ids: the route from the opener to the
//                   destination. Each node stores its neighbours on the route and forwards it.
//   kCircuitOpened  Introduction of the destination, back to the opener.
//   kCircuitFrame   FrameHeader of the carried frame, then a chunk of its payload.
//   kCircuitClosed  the reason, as text for people. From either end, or from the node where the
//                   route broke; each node forgets the circuit and forwards the frame.
//
// The two ends speak the newest version in both introductions, as neighbours do; without one the
// destination closes the circuit. Introductions on a circuit have no HMAC: every node on the route
// has proved the key to its neighbours, and any holder of the key could make one.
#pragma once

#include <cstdint>
#include <type_traits>

#include "proto/wire/frame.h"
#include "proto/wire/hello.h"

namespace mlxcomm::wire {

inline constexpr std::uint32_t kNeighboursMax = 64;  // Limits one advertisement.
inline constexpr std::uint32_t kRouteNodesMax = 33;  // Including both ends.
inline constexpr std::uint64_t kAdvertisementMax = std::uint64_t{1} << 62;
inline constexpr std::uint32_t kCircuitTextBytesMax = 512;
// Limits of a circuit for frames in flight in each direction. A forwarding node closes a circuit
// that exceeds them.
inline constexpr std::uint32_t kCircuitFramesMax = 128;
inline constexpr std::uint32_t kCircuitBytesMax = 512 * 1024;

struct Advertisement {
  NodeIdBytes origin;
  std::uint64_t incarnation;      // The origin's daemon's.
  std::uint64_t number;           // Greater is newer; 1 to kAdvertisementMax.
  std::uint32_t neighbour_count;  // Never above kNeighboursMax.
  std::uint32_t reserved;         // Zero.
  char node_name[kNameBytesMax];  // NUL-padded.
};
static_assert(sizeof(Advertisement) == 104 && std::is_trivially_copyable_v<Advertisement>);

struct CircuitOpening {
  Introduction introduction;  // The opener's; its mac is zero.
  std::uint32_t node_count;   // 3 to kRouteNodesMax.
  std::uint32_t reserved;     // Zero.
};
static_assert(sizeof(CircuitOpening) == 168 && std::is_trivially_copyable_v<CircuitOpening>);

}  // namespace mlxcomm::wire
