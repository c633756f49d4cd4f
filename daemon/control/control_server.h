// The gRPC server: listens on no port, lives on the connections that intake hands
// over, and checks on every call that it comes from the session it claims.
//
// Owner: Daemon. Thread: Adopt and Shutdown on the engine thread; calls on gRPC's.
// Memory: bounded by a resource quota.
#pragma once

#include <cstdint>
#include <memory>

#include "daemon/control/control_port.h"
#include "daemon/platform/file_descriptor.h"

namespace mlxcomm::control {

class ControlServer {
 public:
  static std::unique_ptr<ControlServer> Create(ControlPort& port, const intake::Intake& intake);
  virtual ~ControlServer() = default;
  virtual void Adopt(platform::FileDescriptor connection) = 0;
  // Calls still open after timeout_ns are cancelled.
  virtual void Shutdown(std::uint64_t timeout_ns) = 0;
};

}  // namespace mlxcomm::control
