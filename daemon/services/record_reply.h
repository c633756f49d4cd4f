// Translates the flight recorder's tracks into a FlightRecordReply.
//
// Thread: any, even while others write the record. Memory: a copy and a reply, both bounded
// (kSpansMax, kReplyBytesMax).
#pragma once

#include <cstddef>
#include <cstdint>

#include "daemon/intake/user_directory.h"
#include "daemon/record/flight_recorder.h"
#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::services {

// The newest of all rails, and as many of all workers: about 2 MiB of a reply.
inline constexpr std::size_t kSpansMax = 16384;
// gRPC accepts 4 MiB. Older operations that do not fit are counted as left out.
inline constexpr std::size_t kReplyBytesMax = (std::size_t{7} << 20) / 2;

struct RecordClocks {
  std::uint64_t monotonic_ns = 0;  // The events' clock.
  std::uint64_t unix_ns = 0;       // The same moment.
};

// Writes what `viewer` may see, and counts the rest.
void WriteRecordReply(const record::FlightRecorder& recorder,
                      const v1::FlightRecordRequest& request, const intake::User& viewer,
                      const RecordClocks& now, v1::FlightRecordReply& reply);

}  // namespace mlxcomm::services
