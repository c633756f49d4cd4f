// One operation of a group, from the caller's arguments to its end. What each kind reads
// and writes is proto/types/operation_shape.h's to say; here is how that is checked.
//
// Owner: functions. Thread: any. Memory: as Connection; tables of counts are read before
// Begin returns.
#pragma once

#include <cstdint>

#include "client/lib/handles.h"
#include "client/lib/mlxcomm.h"

namespace mlxcomm::client {

struct Request {
  OperationKind kind = OperationKind::kBarrier;
  const void* input = nullptr;
  void* output = nullptr;
  std::uint64_t count = 0;
  mlxcomm_data_type type = MLXCOMM_FLOAT32;
  ReduceOperator op = ReduceOperator::kNone;
  std::uint32_t peer = 0;  // Or the root.
  std::uint32_t tag = 0;
  std::uint64_t timeout_ns = 0;  // 0: the group's.
  const std::uint64_t* counts = nullptr;
  const std::uint64_t* receive_counts = nullptr;
};

Failure Begin(mlxcomm_group& group, const Request& request, std::uint64_t& ticket);
Failure Finish(mlxcomm_group& group, std::uint64_t ticket);

}  // namespace mlxcomm::client
