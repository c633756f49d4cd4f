// The names of links' states, rails and reasons in messages: the daemon's values as those of
// diagnostics.proto, and the words that releases before these enums used. A daemon of such a
// release may be a neighbour, or older than mlxcommctl; its states are then shown as always, its
// reasons only by their sentences.
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
inline std::string WordOf(v1::Transport::Value transport) {
  return std::string(v1::Transport::Value_Name(transport));
}

// A circuit has ended: the cause lies at another node.
inline bool GoesThroughOthers(v1::LinkReason::Value reason) {
  return reason == v1::LinkReason::way_lost_link || reason == v1::LinkReason::way_ended;
}

// RdmaRailStatus.reason.
std::string_view RdmaWord(v1::LinkReason::Value reason, bool peers_reason);

// Sets values for an older daemon's words, in an answer and all that it holds, and clears the
// words.
void ReadOlderWords(google::protobuf::Message& answer);
// Adds the words, so that an older daemon understands the answer too.
void WriteOlderWords(google::protobuf::Message& answer);

}  // namespace mlxcomm
