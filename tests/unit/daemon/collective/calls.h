// Calls as ranks make them, with int32 by default.
#pragma once

#include <cstddef>
#include <cstdint>

#include "daemon/collective/operation.h"

namespace mlxcomm::collective {

inline Call AllReduce(const void* input, void* output, std::uint64_t count,
                      DataType type = DataType::kInt32) {
  Call call;
  call.ticket = 1;
  call.signature = {OperationKind::kAllReduce, type, ReduceOperator::kSum, count};
  call.input = static_cast<const std::byte*>(input);
  call.output = static_cast<std::byte*>(output);
  return call;
}

inline Call Plain(OperationKind kind, const void* input, void* output, std::uint64_t count) {
  Call call = AllReduce(input, output, count);
  call.signature.kind = kind;
  call.signature.op = ReduceOperator::kNone;
  call.output_bytes_available = 1 << 30;
  return call;
}

}  // namespace mlxcomm::collective
