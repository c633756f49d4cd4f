// Translates the flight recorder's tracks to a FlightRecordReply.
//
// Owner: none, pure functions over a copy of the record. Thread: any, while the record
// is being written. Memory: the copy and the reply, both bounded (kSpansMax).
#pragma once

#include <cstddef>
#include <cstdint>

#include "daemon/telemetry/flight_recorder.h"
#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::control {

// Of all rails, and of all workers: their newest, so that a reply stays far below the
// 4 MiB that gRPC takes.
inline constexpr std::size_t kSpansMax = 16384;

struct RecordClocks {
  std::uint64_t monotonic_ns = 0;  // As the events have it.
  std::uint64_t unix_ns = 0;       // At the same time.
};

void WriteRecordReply(const telemetry::FlightRecorder& recorder,
                      const v1::FlightRecordRequest& request, const RecordClocks& now,
                      v1::FlightRecordReply& reply);

}  // namespace mlxcomm::control
