// Converts transports, states and reasons of links to values of diagnostics.proto, and these to
// words.
#pragma once

#include <string>

#include "mlxcomm/v1/diagnostics.pb.h"
#include "proto/types/link_reason.h"

namespace mlxcomm {

#define MLXCOMM_SAME(ours, reported) \
  static_assert(static_cast<int>(LinkReason::ours) == static_cast<int>(v1::LinkReason::reported));
MLXCOMM_LINK_REASONS(MLXCOMM_SAME)
#undef MLXCOMM_SAME
static_assert(kLinkReasons == v1::LinkReason::Value_ARRAYSIZE);
#define MLXCOMM_SAME(ours, reported) \
  static_assert(static_cast<int>(Transport::ours) == static_cast<int>(v1::Transport::reported));
MLXCOMM_TRANSPORTS(MLXCOMM_SAME)
#undef MLXCOMM_SAME
static_assert(kTransports == v1::Transport::Value_ARRAYSIZE);

inline v1::LinkReason::Value Reported(LinkReason reason) {
  return static_cast<v1::LinkReason::Value>(reason);
}
inline v1::Transport::Value Reported(Transport transport) {
  return static_cast<v1::Transport::Value>(transport);
}

// nullptr if the node has no link to that peer.
inline v1::LinkStatus* FindLink(v1::NodeStatus& node, const std::string& peer_id) {
  for (v1::LinkStatus& link : *node.mutable_links()) {
    if (link.peer_id() == peer_id) return &link;
  }
  return nullptr;
}

// Separates a node's name from the first digits of its id if several nodes have that name.
inline constexpr char kIdBehind = '~';
inline constexpr std::size_t kIdDigits = 4;
// Returns "mac" for "mac~1a2b" if the node's id begins with these digits; empty: no other node has
// its name.
inline std::string SharedName(const std::string& name, const std::string& id) {
  const std::size_t behind = name.rfind(kIdBehind);
  const bool shared = behind != std::string::npos && name.size() - behind - 1 == kIdDigits &&
                      id.starts_with(name.substr(behind + 1));
  return shared ? name.substr(0, behind) : "";
}

inline bool IsBeside(v1::Transport::Value transport) {
  return IsBeside(static_cast<Transport>(transport));
}

// The words in --json: "up", "tcp". Copies, because releases of protobuf return different types.
inline std::string WordOf(v1::LinkState::Value state) {
  return std::string(v1::LinkState::Value_Name(state));
}
inline std::string WordOf(v1::RailState::Value state) {
  return std::string(v1::RailState::Value_Name(state));
}
inline std::string WordOf(v1::LinkReason::Value reason) {
  return std::string(v1::LinkReason::Value_Name(reason));
}
inline std::string WordOf(v1::Transport::Value transport) {
  return std::string(v1::Transport::Value_Name(transport));
}

// True if a circuit has ended, for a cause at another node.
inline bool GoesThroughOthers(v1::LinkReason::Value reason) {
  return reason == v1::LinkReason::way_lost_link || reason == v1::LinkReason::way_ended;
}

}  // namespace mlxcomm
