// A FlightRecordReply as text for people: a pure function, tested by its text.
#pragma once

#include <cstdint>
#include <string>

#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::ctl {

// A table of operations, the newest last, with the time of each phase; then, for those that have
// not ended or have failed, who is missing and which rails carried them.
std::string RenderRecord(const v1::FlightRecordReply& record);

// A phase of an operation; they follow one another. The phase in which it has failed ends then; the
// current one ends at `now_ns`.
struct Phase {
  std::uint64_t begin_ns = 0;  // 0: not reached, or not needed.
  std::uint64_t end_ns = 0;
};
struct Phases {
  Phase ranks;  // From its first call here until all ranks of this node had called.
  Phase peers;  // Until another node's first data; only sending is none.
  Phase data;   // Until the last byte had come or was acknowledged.
  Phase end;    // Until its ranks had their answers; on one node everything after the last call.
};
Phases PhasesOf(const v1::RecordedOperation& operation, std::uint64_t now_ns);

// "2682 all_reduce sum float32[5]", "3 send int8[4] 0>1 tag 7"
std::string DescribeRecorded(const v1::RecordedOperation& operation);

}  // namespace mlxcomm::ctl
