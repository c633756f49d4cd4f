// A FlightRecordReply as a trace for Perfetto: Chrome's Trace Event Format, in JSON.
//
//   process  the node
//   thread   each rank of a group: a slice for each operation, inside it one for each phase
//            each direction of a rail: a slice for each frame
//            each worker: a slice for each piece of work
//
// There may have been more frames and pieces than the recorder keeps: a slice stands for the time
// before, and says so. Slices of one thread must nest in that format. So overlapping operations of
// a rank go to further threads of the same name, and frames that a rail moved in one go, with one
// begin and end, share that time by their bytes.
#pragma once

#include "mlxcomm/v1/ctl.pb.h"
#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::ctl {

// To be written as JSON. Times are microseconds since the trace's first moment, which "otherData"
// has.
v1::Trace RenderTrace(const v1::FlightRecordReply& record);

}  // namespace mlxcomm::ctl
