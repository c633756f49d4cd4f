// The sizes of a measurement, and the bandwidths that follow from its times, as in nccl-tests
// (https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md).
//
//   size S      the bytes that a rank passes; if each rank has a block, all blocks together
//   algorithm   S / t
//   bus         algorithm x RingLoad (proto/types/operation_shape.h): 2 (n - 1) / n for all_reduce,
//               (n - 1) / n for operations with blocks, otherwise 1
//
// In a ring with a rank on each node, the bus bandwidth is what each link carries in one direction,
// so it compares with the bandwidth of the cable.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/types/operation.h"

namespace mlxcomm::ctl {

struct BenchSubject {
  OperationKind kind = OperationKind::kAllReduce;  // kSend: send_recv.
  DataType type = DataType::kFloat32;
  ReduceOperator op = ReduceOperator::kSum;  // kNone if the kind does not reduce.
  std::uint32_t ranks = 1;
};

// Finds "all_reduce", "float32", "sum".
std::optional<OperationKind> FindBenchKind(std::string_view name);
std::optional<DataType> FindDataType(std::string_view name);
std::optional<ReduceOperator> FindOperator(std::string_view name);
const char* BenchKindName(OperationKind kind);  // "send_recv" for kSend.
std::string BenchKindNames(const char* separator);

// The number of elements (of one block, for an operation with blocks) whose size is at most
// `bytes`; at least one.
std::uint64_t BenchCount(const BenchSubject& subject, std::uint64_t bytes);
std::uint64_t BenchBytes(const BenchSubject& subject, std::uint64_t count);

// The counts for from, from x factor, ... and `to`, without duplicates.
std::vector<std::uint64_t> BenchCounts(const BenchSubject& subject, std::uint64_t from,
                                       std::uint64_t to, double factor);

// Bytes per second.
double AlgorithmBandwidth(std::uint64_t bytes, double nanoseconds);
double BusBandwidth(const BenchSubject& subject, std::uint64_t bytes, double nanoseconds);

}  // namespace mlxcomm::ctl
