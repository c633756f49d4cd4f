// The gRPC server: has no port, serves the connections that intake passes on, and checks that each
// call comes from the session that it claims.
//
// Owner: Daemon. Thread: Adopt and Shutdown from any, even at the same time; README.md shows its
// own. Memory: a resource quota bounds requests; connection_relay.h bounds the rest.
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

// Returns the session that may use this token on this connection. Intake's; called on any thread.
using FindSession = std::function<std::optional<intake::SessionIdentity>(
    std::string_view token, std::string_view grpc_peer)>;

class ControlServer {
 public:
  // `recorder` and `events` are read from the server's threads.
  static std::unique_ptr<ControlServer> Create(PostedCalls& calls, FindSession find,
                                               const record::FlightRecorder& recorder,
                                               const record::EventLog& events);
  virtual ~ControlServer() = default;
  // Serves the connection soon, or closes it if Shutdown has begun.
  virtual void Adopt(intake::ControlConnection connection) = 0;
  // Counts the connections that the guard ended.
  virtual guard::EndCounts ended() const = 0;
  // Cancels calls that are open after timeout_ns, and returns when every call has been answered, so
  // the loop must continue answering. Works once; the destructor calls it with 0.
  virtual void Shutdown(std::uint64_t timeout_ns) = 0;
};

}  // namespace mlxcomm::services
