// The gRPC server: listens on no port, serves the connections that intake passes on, and checks on
// every call that it comes from the session it claims.
//
// Owner: Daemon. Thread: Adopt and Shutdown from any, also at the same time; calls on one of its
// own (call_queue.h), statuses on another, the record on a third (answer_thread.h), bytes on the relay's.
// Memory: requests are bounded by a resource quota, and what the quota does not count by the relay
// (connection_relay.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "daemon/intake/guard/end_reason.h"
#include "daemon/intake/session.h"
#include "daemon/record/event_log.h"
#include "daemon/record/flight_recorder.h"
#include "daemon/services/posted_calls.h"

namespace mlxcomm::services {

// Intake's: the session that may use this token on this connection; from any thread.
using FindSession = std::function<std::optional<intake::SessionIdentity>(
    std::string_view token, std::string_view grpc_peer)>;

class ControlServer {
 public:
  // `recorder` and `events` are read from the server's threads.
  static std::unique_ptr<ControlServer> Create(PostedCalls& calls, FindSession find,
                                               const record::FlightRecorder& recorder,
                                               const record::EventLog& events);
  virtual ~ControlServer() = default;
  // Serves the connection, soon; once Shutdown has begun it is closed instead.
  virtual void Adopt(intake::ControlConnection connection) = 0;
  // Connections that were ended for what came on them; from any thread.
  virtual guard::EndCounts ended() const = 0;
  // Call it once. Calls that are open after timeout_ns are cancelled; returns when every call has
  // been answered, so another thread must go on answering. The destructor does it with 0.
  virtual void Shutdown(std::uint64_t timeout_ns) = 0;
};

}  // namespace mlxcomm::services
