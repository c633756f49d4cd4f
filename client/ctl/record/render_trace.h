// A FlightRecordReply as a trace for Perfetto: Chrome's Trace Event Format, in JSON.
//
//   process  the node
//   thread   each rank of a group: a slice for each operation, inside it one for each phase
//            each direction of a rail: a slice for each frame
//            each worker: a slice for each task
//
// A slice marks the time before the oldest entry that the recorder keeps. The format requires that slices of
// a thread nest, so a rank's overlapping operations use several threads, and frames that a rail moved
// together share that time by their bytes.
#pragma once

#include "mlxcomm/v1/ctl.pb.h"
#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::ctl {

// Print it as JSON. Times are microseconds since "otherData"'s begin_unix_ns.
v1::Trace RenderTrace(const v1::FlightRecordReply& record);

}  // namespace mlxcomm::ctl
