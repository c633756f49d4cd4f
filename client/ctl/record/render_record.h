// A FlightRecordReply as a person reads it: a pure function, tested by its text.
#pragma once

#include <cstdint>
#include <string>

#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::ctl {

// A table of operations, the newest last, with the time of each phase; then, of those
// that have not ended or have failed, who is missing and which rails carried them.
std::string RenderRecord(const v1::FlightRecordReply& record);

// The phases of an operation, one after the other. The one in which it has failed lasts
// until then; the one that goes on, until `now_ns`.
struct Phase {
  std::uint64_t begin_ns = 0;  // 0: it never came to it, or had no need to.
  std::uint64_t end_ns = 0;
};
struct Phases {
  Phase ranks;  // From its first call here until all ranks of this node had called.
  Phase peers;  // Until another node was heard. Own data that went out alone is none.
  Phase data;   // Until the last byte had come or was acknowledged.
  Phase end;    // Until its ranks had their answers; on one node all after the last call.
};
Phases PhasesOf(const v1::RecordedOperation& operation, std::uint64_t now_ns);

// "2682 all_reduce sum float32[5]", "3 send int8[4] 0>1 tag 7"
std::string DescribeRecorded(const v1::RecordedOperation& operation);

}  // namespace mlxcomm::ctl
