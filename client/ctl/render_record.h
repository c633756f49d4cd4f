// A FlightRecordReply as a person reads it: a pure function, tested by its text.
//
// Owner: none. Thread: any. Memory: the text.
#pragma once

#include <cstdint>
#include <string>

#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::ctl {

// A table of operations, the newest last, with the time of each phase; then, of those
// that have not ended or have failed, who is missing and which rails carried them.
std::string RenderRecord(const v1::FlightRecordReply& record);

// How long each phase of an operation took; of one that goes on, or that never came to
// it, until `now_ns` or not at all.
struct Phases {
  std::uint64_t total_ns = 0;   // From its first call here.
  std::uint64_t ranks_ns = 0;   // Until all ranks of this node had called.
  std::uint64_t peers_ns = 0;   // Until the first byte to or from another node.
  std::uint64_t data_ns = 0;    // Until the last.
  std::uint64_t end_ns = 0;     // Until its ranks had their answers.
};
Phases PhasesOf(const v1::RecordedOperation& operation, std::uint64_t now_ns);

// "2682 all_reduce sum float32[5]", "3 send int8[4] 0>1 tag 7"
std::string DescribeRecorded(const v1::RecordedOperation& operation);

}  // namespace mlxcomm::ctl
