#include "client/ctl/bench/bandwidth.h"

#include <algorithm>

#include "proto/types/operation_shape.h"

namespace mlxcomm::ctl {
namespace {

constexpr char kSendAndReceive[] = "send_recv";

// Returns whether the kind's size is one number.
bool IsMeasured(const OperationRow& row) {
  return row.input.extent != Extent::kNothing && !HasCounts(row.value);
}

}  // namespace

const char* BenchKindName(OperationKind kind) {
  return IsPointToPoint(kind) ? kSendAndReceive : OperationKindName(kind);
}

std::optional<OperationKind> FindBenchKind(std::string_view name) {
  std::optional<OperationKind> found;
  kOperations.ForEach([&](const OperationRow& row) {
    if (IsMeasured(row) && name == BenchKindName(row.value)) found = row.value;
  });
  return found;
}

std::string BenchKindNames(const char* separator) {
  std::string names;
  kOperations.ForEach([&](const OperationRow& row) {
    if (!IsMeasured(row)) return;
    names += (names.empty() ? "" : separator) + std::string(BenchKindName(row.value));
  });
  return names;
}

std::optional<DataType> FindDataType(std::string_view name) {
  const DataTypeRow* const row = kDataTypes.FindNamed(name);
  return row == nullptr ? std::nullopt : std::optional(row->value);
}

std::optional<ReduceOperator> FindOperator(std::string_view name) {
  const ReduceOperatorRow* const row = kReduceOperators.FindNamed(name);
  if (row == nullptr || row->value == ReduceOperator::kNone) return std::nullopt;
  return row->value;
}

std::uint64_t BenchBytes(const BenchSubject& subject, std::uint64_t count) {
  return count * DataTypeBytes(subject.type) * (HasBlocks(subject.kind) ? subject.ranks : 1);
}

std::uint64_t BenchCount(const BenchSubject& subject, std::uint64_t bytes) {
  return std::max<std::uint64_t>(1, bytes / BenchBytes(subject, 1));
}

std::vector<std::uint64_t> BenchCounts(const BenchSubject& subject, std::uint64_t from,
                                       std::uint64_t to, double factor) {
  std::vector<std::uint64_t> counts;
  auto bytes = static_cast<double>(from);
  while (bytes <= static_cast<double>(to)) {
    const std::uint64_t count = BenchCount(subject, static_cast<std::uint64_t>(bytes));
    if (counts.empty() || count > counts.back()) counts.push_back(count);
    bytes *= factor;
  }
  const std::uint64_t last = BenchCount(subject, to);
  if (counts.empty() || last > counts.back()) counts.push_back(last);
  return counts;
}

double AlgorithmBandwidth(std::uint64_t bytes, double nanoseconds) {
  return nanoseconds <= 0 ? 0 : static_cast<double>(bytes) * 1e9 / nanoseconds;
}

double BusBandwidth(const BenchSubject& subject, std::uint64_t bytes, double nanoseconds) {
  return AlgorithmBandwidth(bytes, nanoseconds) * RingLoad(subject.kind, subject.ranks);
}

}  // namespace mlxcomm::ctl
