// One Events call: what is kept, then what comes, as fast as its reader takes it.
//
//   events there ──▶ write one, wait until it has gone ──▶ next
//   none there   ──▶ not following: done;  following: look again after kLookAgainMs
//
// It looks rather than is told, so that who adds an event never meets gRPC.
//
// Owner: itself (call_queue.h); DiagnosticsCalls has the count of them. Thread: the queue's.
// Memory: a batch of events each.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include <sys/types.h>

#include <grpcpp/grpcpp.h>

#include "daemon/control/call_queue.h"
#include "daemon/intake/user_directory.h"
#include "daemon/record/event_log.h"
#include "mlxcomm/v1/diagnostics.grpc.pb.h"

namespace mlxcomm::control {

inline constexpr std::uint32_t kLookAgainMs = 100;

struct EventReader {
  std::string node;  // Whose log it is.
  uid_t uid = 0;
  intake::User viewer;  // What belongs to others is passed over.
};

// How many read. Who sees only his own may not take all the places, alone or with others like
// him: an operator finds one.
class EventStreams {
 public:
  static constexpr std::uint32_t kMax = 32;
  static constexpr std::uint32_t kPerUserMax = 8;
  static constexpr std::uint32_t kOrdinaryMax = 24;

  // False: there are as many as may be.
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
  // Nobody, if the call does not come from a session.
  std::function<std::optional<EventReader>(const grpc::ServerContext&)> identify;
};

// RESOURCE_EXHAUSTED is told to those who come while too many read.
void ServeEvents(CallQueue& queue, const EventsMethod& method);

}  // namespace mlxcomm::control
