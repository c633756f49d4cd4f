// One Events call: the kept events, then new ones, as fast as its reader takes them.
//
//   events there ──▶ write one, wait until it has gone ──▶ next
//   none there   ──▶ not following: done;  following: look again after kLookAgainMs
//
// It polls the log, so that code that adds an event never meets gRPC.
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

#include "daemon/intake/user_directory.h"
#include "daemon/record/event_log.h"
#include "daemon/services/call_queue.h"
#include "mlxcomm/v1/diagnostics.grpc.pb.h"

namespace mlxcomm::services {

inline constexpr std::uint32_t kLookAgainMs = 100;

struct EventReader {
  std::string node;  // The log's node.
  uid_t uid = 0;
  intake::User viewer;  // Other users' events are skipped.
};

// How many readers there are. Ordinary users together may not take all places, so an operator
// always finds one.
class EventStreams {
 public:
  static constexpr std::uint32_t kMax = 32;
  static constexpr std::uint32_t kPerUserMax = 8;
  static constexpr std::uint32_t kOrdinaryMax = 24;

  // False: the limit is reached.
  bool Begin(const EventReader& reader);
  void End(const EventReader& reader);

 private:
  std::uint32_t all_ = 0;
  std::uint32_t ordinary_ = 0;
  std::map<uid_t, std::uint32_t> of_user_;  // Ordinary ones.
};

// All of it outlives the calls.
struct EventsMethod {
  v1::Diagnostics::AsyncService& service;
  const record::EventLog& log;
  EventStreams& streams;
  // Nothing, if the call does not come from a session.
  std::function<std::optional<EventReader>(const grpc::ServerContext&)> identify;
};

// Further calls get RESOURCE_EXHAUSTED while too many read.
void ServeEvents(CallQueue& queue, const EventsMethod& method);

}  // namespace mlxcomm::services
