// A FlightRecordReply as text and as a trace. Pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "mlxcomm/v1/ctl.pb.h"
#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::ctl {

// A table of operations, the newest last, with the time of each phase; then, for those that failed
// or are not done, which ranks are missing and which rails carried data.
std::string RenderRecord(const v1::FlightRecordReply& record);

// A phase of an operation begins where the one before ends. A failed operation's last phase ends
// with the failure, the current one at `now_ns`.
struct Phase {
  std::uint64_t begin_ns = 0;  // 0 if not reached, or skipped.
  std::uint64_t end_ns = 0;
};
struct Phases {
  Phase ranks;  // Lasts from the first call here until all ranks of this node had called.
  Phase peers;  // Lasts until another node's first data.
  Phase data;   // Lasts until the last byte arrived or was acknowledged.
  Phase end;    // Ends with its ranks' results; on one node, everything after the last call.
};
Phases PhasesOf(const v1::RecordedOperation& operation, std::uint64_t now_ns);

// "2682 all_reduce sum float32[5]", "3 send int8[4] 0>1 tag 7"
std::string DescribeRecorded(const v1::RecordedOperation& operation);

// A FlightRecordReply as a trace for Perfetto: Chrome's Trace Event Format, in JSON.
//
//   process  the node
//   thread   each rank of a group: a slice for each operation, inside it one for each phase
//            each direction of a rail: a slice for each frame
//            each worker: a slice for each task
//
// A slice marks the time before the oldest entry that the recorder keeps. The format requires that
// slices of a thread nest, so a rank's overlapping operations use several threads, and frames that
// a rail moved together share that time by their bytes.
//
// Print it as JSON. Times are microseconds since "otherData"'s begin_unix_ns.
v1::Trace RenderTrace(const v1::FlightRecordReply& record);

}  // namespace mlxcomm::ctl
