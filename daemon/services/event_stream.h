// An Events call: sends the kept events, then new ones, as fast as its reader takes them.
//
//   an event ──▶ write it, wait until gRPC has sent it ──▶ next
//   none     ──▶ not following: done;  following: poll again after kPollMs
//
// Owner: itself (call_queue.h); DiagnosticsCalls counts them. Thread: the queue's. Memory: a batch
// of events each.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include <sys/types.h>

#include <grpcpp/grpcpp.h>

#include "daemon/intake/session.h"
#include "daemon/record/event_log.h"
#include "daemon/services/call_queue.h"
#include "mlxcomm/v1/diagnostics.grpc.pb.h"

namespace mlxcomm::services {

inline constexpr std::uint32_t kPollMs = 100;

// Counts the readers. Ordinary users together cannot take all places, so an operator always finds
// one.
class EventStreams {
 public:
  static constexpr std::uint32_t kMax = 32;
  static constexpr std::uint32_t kPerUserMax = 8;
  static constexpr std::uint32_t kOrdinaryMax = 24;

  // False if the limit is reached.
  bool Begin(const intake::Peer& reader);
  void End(const intake::Peer& reader);

 private:
  std::uint32_t all_ = 0;
  std::uint32_t ordinary_ = 0;
  std::map<uid_t, std::uint32_t> of_user_;  // Ordinary users.
};

// All outlive the calls.
struct EventsMethod {
  v1::Diagnostics::AsyncService& service;
  const std::string& node;  // The log's node.
  const record::EventLog& log;
  EventStreams& streams;
  // Returns nothing if the call does not come from a session.
  std::function<std::optional<intake::SessionIdentity>(const grpc::ServerContext&)> identify;
};

// Refuses calls beyond the limits of EventStreams with RESOURCE_EXHAUSTED.
void ServeEvents(CallQueue& queue, const EventsMethod& method);

}  // namespace mlxcomm::services
