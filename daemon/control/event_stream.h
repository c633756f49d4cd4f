// One Events call: what is kept, then what comes, as fast as its reader takes it.
//
//   events there ──▶ write one, wait until it has gone ──▶ next
//   none there   ──▶ not following: done;  following: look again after kLookAgainMs
//
// It looks rather than is told, so that who adds an event never meets gRPC.
//
// Owner: gRPC deletes it when the call is over. Thread: gRPC's. Memory: a batch of events.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <grpcpp/grpcpp.h>

#include "daemon/intake/user_directory.h"
#include "daemon/telemetry/event_log.h"
#include "mlxcomm/v1/diagnostics.grpc.pb.h"

namespace mlxcomm::control {

inline constexpr std::uint32_t kEventStreamsMax = 16;
inline constexpr std::uint32_t kLookAgainMs = 100;

struct EventReader {
  std::string node;          // Whose log it is.
  intake::User viewer;       // What belongs to others is passed over.
};

// RESOURCE_EXHAUSTED where kEventStreamsMax are being read. `log` outlives the call.
grpc::ServerWriteReactor<v1::EventsReply>* StreamEvents(const telemetry::EventLog& log,
                                                        const EventReader& reader,
                                                        const v1::EventsRequest& request);

}  // namespace mlxcomm::control
