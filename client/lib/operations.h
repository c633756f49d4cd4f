// One operation of a group, from the caller's arguments to its end. proto/types/operation.h says
// what each kind takes, reads and writes; this checks it.
//
// Thread: any. Memory: as Connection; tables of counts are read before Begin returns.
#pragma once

#include <cstdint>

#include "client/lib/handles.h"
#include "client/lib/mlxcomm.h"

namespace mlxcomm::client {

using Request = mlxcomm_request;

// The fields that every kind has; the others are zero.
inline Request Ask(mlxcomm_kind kind, const void* input, void* output, std::uint64_t count,
                   mlxcomm_data_type type, std::uint64_t timeout_ns) {
  Request request{};
  request.struct_size = sizeof request;
  request.kind = kind;
  request.type = type;
  request.input = input;
  request.output = output;
  request.count = count;
  request.timeout_ns = timeout_ns;  // 0: the group's.
  return request;
}

Failure Begin(mlxcomm_group& group, const Request& request, std::uint64_t& ticket);
Failure Finish(mlxcomm_group& group, std::uint64_t ticket);

}  // namespace mlxcomm::client
