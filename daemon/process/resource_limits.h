// Whether the system grants this process what a daemon cannot do without. Asked before anything is
// opened for others: a daemon that ran out in the middle of its start would leave a socket behind.
//
// Owner: functions. Thread: main, before any other exists. Memory: plain values.
#pragma once

#include "absl/status/status.h"

namespace mlxcomm {

// RESOURCE_EXHAUSTED: which limit, what is needed, and how to raise it.
absl::Status CheckResourceLimits();

}  // namespace mlxcomm
