// Results that are combined a chunk at a time, in the first cache, and copied to the outputs from
// there, so that whole lines are written.
//
//   inputs ──▶ kernels ──▶ chunk ──string copy──▶ every output
//
// A store first fetches the line that it writes to, mostly from another core's cache: that of the
// rank, which has read its last output there. Where cores share no cache that takes longer than the
// rest: half of the time, from some kilobytes to some megabytes. A string copy ("rep movsb") of
// some kilobytes writes whole lines and fetches none, on x86-64 processors with ERMS (Intel 64 and
// IA-32 Architectures Optimization Reference Manual, "Enhanced REP MOVSB"; AMD has it since Zen 3).
// On others a copy gains nothing. Nor do short rows: with more than 16 ranks each has less than 8
// KiB of a piece of work.
//
// Owner: kernels.cc. Thread: any. Memory: a chunk on the stack.
#pragma once

#include "daemon/reduce/row.h"

namespace mlxcomm::reduce {

// False: it would gain nothing.
bool CanStoreWholeLines(DataType type, const Row& row);
// The same as CombineDirectly; requires CanStoreWholeLines.
void CombineIntoWholeLines(DataType type, ReduceOperator op, const Row& row);

}  // namespace mlxcomm::reduce
