// The sizes of a measurement, and the bandwidths that follow from its times, as in nccl-tests
// (https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md).
//
//   size S      what a rank passes; where there is a block for or of each rank, all blocks together
//   algorithm   S / t
//   bus         algorithm x RingLoad (proto/types/operation_shape.h): 2 (n - 1) / n of an all_reduce,
//               (n - 1) / n where there are blocks, otherwise 1
//
// The bus bandwidth is what each link carries in one direction where every rank is a node of a
// ring, for any number of ranks: comparable with what the cable can carry.
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
  ReduceOperator op = ReduceOperator::kSum;  // kNone where the kind does not reduce.
  std::uint32_t ranks = 1;
};

// By the names that people use: "all_reduce", "float32", "sum".
std::optional<OperationKind> FindBenchKind(std::string_view name);
std::optional<DataType> FindDataType(std::string_view name);
std::optional<ReduceOperator> FindOperator(std::string_view name);
const char* BenchKindName(OperationKind kind);      // "send_recv" for kSend.
std::string BenchKindNames(const char* separator);  // All of them.

// Elements as the operation counts them (of a block, where there is one for each rank), for a size
// of at most `bytes`; at least one.
std::uint64_t BenchCount(const BenchSubject& subject, std::uint64_t bytes);
std::uint64_t BenchBytes(const BenchSubject& subject, std::uint64_t count);

// from, from x factor, ... and `to`, without those that give the same count again.
std::vector<std::uint64_t> BenchCounts(const BenchSubject& subject, std::uint64_t from,
                                       std::uint64_t to, double factor);

// Bytes per second.
double AlgorithmBandwidth(std::uint64_t bytes, double nanoseconds);
double BusBandwidth(const BenchSubject& subject, std::uint64_t bytes, double nanoseconds);

}  // namespace mlxcomm::ctl
