// The gRPC server: listens on no port, lives on the connections that intake hands
// over, and checks on every call that it comes from the session it claims.
//
// Owner: Daemon. Thread: Adopt and Shutdown from any, also at once; calls on one of its own
// (call_queue.h), statuses and the record are made on others (aside.h). Memory: bounded by a resource quota.
#pragma once

#include <cstdint>
#include <memory>

#include "daemon/control/control_port.h"
#include "daemon/platform/file_descriptor.h"
#include "daemon/record/event_log.h"
#include "daemon/record/flight_recorder.h"

namespace mlxcomm::control {

class ControlServer {
 public:
  // `recorder` and `events` are read from the server's threads.
  static std::unique_ptr<ControlServer> Create(ControlPort& port, const intake::Intake& intake,
                                               const record::FlightRecorder& recorder,
                                               const record::EventLog& events);
  virtual ~ControlServer() = default;
  // Serves the connection; once Shutdown has begun it is closed instead.
  virtual void Adopt(platform::FileDescriptor connection) = 0;
  // Once. Calls still open after timeout_ns are cancelled; returns when every call has
  // been answered, so somebody must go on answering. The destructor does it with 0.
  virtual void Shutdown(std::uint64_t timeout_ns) = 0;
};

}  // namespace mlxcomm::control
