// What links, rails and their reasons are called in messages: the daemon's values as those of
// diagnostics.proto, and the words by which releases before these enums said the same. Such a daemon
// may answer as a neighbour, or where mlxcommctl is newer than it; its states are then shown as ever,
// its reasons only by their sentences.
#pragma once

#include <string>
#include <string_view>

#include <google/protobuf/message.h>

#include "mlxcomm/v1/diagnostics.pb.h"
#include "proto/types/link_reason.h"

namespace mlxcomm {

inline v1::LinkReason::Value Told(LinkReason reason) {
  return static_cast<v1::LinkReason::Value>(reason);
}
inline v1::LinkState::Value Told(LinkState state) {
  return static_cast<v1::LinkState::Value>(state);
}
inline v1::Transport::Value Told(Transport transport) {
  return static_cast<v1::Transport::Value>(transport);
}

inline bool IsBeside(v1::Transport::Value transport) {
  return transport != v1::Transport::unknown && transport != v1::Transport::tcp &&
         transport != v1::Transport::route;
}

// As --json has them: "up", "tcp". A copy, for releases of protobuf differ in what they give.
inline std::string WordOf(v1::LinkState::Value state) {
  return std::string(v1::LinkState::Value_Name(state));
}
inline std::string WordOf(v1::RailState::Value state) {
  return std::string(v1::RailState::Value_Name(state));
}
inline std::string WordOf(v1::Transport::Value transport) {
  return std::string(v1::Transport::Value_Name(transport));
}

// What has ended is a way through other nodes: its cause is elsewhere.
inline bool GoesThroughOthers(v1::LinkReason::Value reason) {
  return reason == v1::LinkReason::way_lost_link || reason == v1::LinkReason::way_ended;
}

// RdmaRailStatus.reason.
std::string_view RdmaWord(v1::LinkReason::Value reason, bool peers_reason);

// Of an answer, in it and all that it holds: values for the words of an older daemon. The words go.
void ReadOlderWords(google::protobuf::Message& answer);
// So that an older daemon understands it too.
void WriteOlderWords(google::protobuf::Message& answer);

}  // namespace mlxcomm
