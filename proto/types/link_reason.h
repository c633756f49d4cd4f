// The transports of links, and the reasons why a link is not up, which daemons send to each other
// and report (mlxcomm/v1/diagnostics.proto).
//
// The payload path does not include protobuf, so the list is repeated here; proto/status_words.h
// asserts that both agree. A number never changes its meaning.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace mlxcomm {

// X(our name, the message's name)
#define MLXCOMM_TRANSPORTS(X) \
  X(kUnknown, unknown)        \
  X(kTcp, tcp)                \
  X(kRdma, rdma)              \
  X(kRoute, route)

enum class Transport : std::uint8_t {
#define MLXCOMM_VALUE(ours, reported) ours,
  MLXCOMM_TRANSPORTS(MLXCOMM_VALUE)
#undef MLXCOMM_VALUE
};

// "tcp", as in messages and texts.
inline constexpr std::string_view WordOf(Transport transport) {
#define MLXCOMM_WORD(ours, reported) \
  if (transport == Transport::ours) return #reported;
  MLXCOMM_TRANSPORTS(MLXCOMM_WORD)
#undef MLXCOMM_WORD
  return "unknown";
}

// True for rails next to a connection, on its cable.
inline constexpr bool IsBeside(Transport transport) {
  return transport != Transport::kUnknown && transport != Transport::kTcp &&
         transport != Transport::kRoute;
}

#define MLXCOMM_LINK_REASONS(X)                 \
  X(kNone, none)                                \
  X(kNoAnswer, no_answer)                       \
  X(kConnectionRefused, connection_refused)     \
  X(kNoRouteToHost, no_route_to_host)           \
  X(kUnknownHost, unknown_host)                 \
  X(kConnectFailed, connect_failed)             \
  X(kOwnNode, own_node)                         \
  X(kNotADaemon, not_a_daemon)                  \
  X(kVersionTooFar, version_too_far)            \
  X(kWrongCluster, wrong_cluster)               \
  X(kWrongKey, wrong_key)                       \
  X(kNotProved, not_proved)                     \
  X(kTlsFailed, tls_failed)                     \
  X(kRefused, refused)                          \
  X(kPeerStopping, peer_stopping)               \
  X(kAnotherConnection, another_connection)     \
  X(kTooMany, too_many)                         \
  X(kEndedEarly, ended_early)                   \
  X(kCut, cut)                                  \
  X(kReset, reset)                              \
  X(kSilent, silent)                            \
  X(kInterfaceDown, interface_down)             \
  X(kViolation, violation)                      \
  X(kReplaced, replaced)                        \
  X(kKeyRetired, key_retired)                   \
  X(kPeerStopped, peer_stopped)                 \
  X(kPeerRestarted, peer_restarted)             \
  X(kOtherNode, other_node)                     \
  X(kStopped, stopped)                          \
  X(kWayLostLink, way_lost_link)                \
  X(kWayEnded, way_ended)                       \
  X(kLooking, looking)                          \
  X(kBeingMade, being_made)                     \
  X(kNoOffer, no_offer)                         \
  X(kTransportOff, transport_off)               \
  X(kNoLibrary, no_library)                     \
  X(kNoDevice, no_device)                       \
  X(kDriverSilent, driver_silent)               \
  X(kDriverFailed, driver_failed)               \
  X(kPortDown, port_down)                       \
  X(kNoGid, no_gid)                             \
  X(kEncrypted, encrypted)                      \
  X(kDeviceExhausted, device_exhausted)         \
  X(kDeviceMemory, device_memory)               \
  X(kGidWithoutIpv4, gid_without_ipv4)          \
  X(kPeerGidWithoutIpv4, peer_gid_without_ipv4) \
  X(kDeviceNotOpened, device_not_opened)        \
  X(kNotMade, not_made)                         \
  X(kBytesChanged, bytes_changed)               \
  X(kLargeLost, large_lost)                     \
  X(kSameId, same_id)

enum class LinkReason : std::uint8_t {
#define MLXCOMM_VALUE(ours, reported) ours,
  MLXCOMM_LINK_REASONS(MLXCOMM_VALUE)
#undef MLXCOMM_VALUE
};

// The number of values, including kUnknown and kNone.
#define MLXCOMM_ONE(ours, reported) 1,
inline constexpr std::uint32_t kTransports =
    std::initializer_list<int>{MLXCOMM_TRANSPORTS(MLXCOMM_ONE)}.size();
inline constexpr std::uint32_t kLinkReasons =
    std::initializer_list<int>{MLXCOMM_LINK_REASONS(MLXCOMM_ONE)}.size();
#undef MLXCOMM_ONE

// Converts a number from another process; returns `other` if this release does not know it.
inline constexpr LinkReason LinkReasonOf(std::uint32_t number, LinkReason other) {
  return number != 0 && number < kLinkReasons ? static_cast<LinkReason>(number) : other;
}

}  // namespace mlxcomm
