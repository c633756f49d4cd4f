// The states of links and rails, and their reasons, in messages: the daemon's values as those of
// diagnostics.proto, and these as words.
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

// nullptr: the node has none to that peer.
inline v1::LinkStatus* FindLink(v1::NodeStatus& node, const std::string& peer_id) {
  for (v1::LinkStatus& link : *node.mutable_links()) {
    if (link.peer_id() == peer_id) return &link;
  }
  return nullptr;
}

// Between a node's name and the first digits of its id, in a status with other nodes of that name.
inline constexpr char kIdBehind = '~';
inline constexpr std::size_t kIdDigits = 4;
// "mac" of "mac~1a2b", where that is the node's id; empty: no other node has its name.
inline std::string SharedName(const std::string& name, const std::string& id) {
  const std::size_t behind = name.rfind(kIdBehind);
  const bool shared = behind != std::string::npos && name.size() - behind - 1 == kIdDigits &&
                      id.starts_with(name.substr(behind + 1));
  return shared ? name.substr(0, behind) : "";
}

// Whether rails of that transport are made beside connections.
inline bool IsBeside(v1::Transport::Value transport) {
  return IsBeside(static_cast<Transport>(transport));
}

// As --json has them: "up", "tcp". A copy, because releases of protobuf differ in what they return.
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

// A circuit has ended: the cause lies at another node.
inline bool GoesThroughOthers(v1::LinkReason::Value reason) {
  return reason == v1::LinkReason::way_lost_link || reason == v1::LinkReason::way_ended;
}

}  // namespace mlxcomm
