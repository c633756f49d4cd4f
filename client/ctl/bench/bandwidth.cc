#include "client/ctl/bench/bandwidth.h"

#include <algorithm>
#include <iterator>

namespace mlxcomm::ctl {
namespace {

constexpr OperationKind kKinds[] = {
    OperationKind::kAllReduce, OperationKind::kAllGather, OperationKind::kReduceScatter,
    OperationKind::kBroadcast, OperationKind::kReduce,    OperationKind::kAllToAll,
    OperationKind::kGather,    OperationKind::kScatter,   OperationKind::kSend};
constexpr int kNumbersMax = 32;  // Of data types and operators.

bool HasBlocks(OperationKind kind) {
  switch (kind) {
    case OperationKind::kAllGather:
    case OperationKind::kReduceScatter:
    case OperationKind::kAllToAll:
    case OperationKind::kGather:
    case OperationKind::kScatter: return true;
    default: return false;
  }
}

template <typename Value>
std::optional<Value> Find(std::string_view name, const char* (*name_of)(Value)) {
  for (int number = 1; number < kNumbersMax; ++number) {
    const auto value = static_cast<Value>(number);
    if (IsValid(value) && name == name_of(value)) return value;
  }
  return std::nullopt;
}

}  // namespace

const char* BenchKindName(OperationKind kind) {
  return kind == OperationKind::kSend ? "send_recv" : OperationKindName(kind);
}

std::optional<OperationKind> FindBenchKind(std::string_view name) {
  const auto* const found = std::find_if(std::begin(kKinds), std::end(kKinds),
                                         [&](auto kind) { return name == BenchKindName(kind); });
  return found == std::end(kKinds) ? std::nullopt : std::optional(*found);
}

std::string BenchKindNames(const char* separator) {
  std::string names;
  for (const OperationKind kind : kKinds) {
    names += (names.empty() ? "" : separator) + std::string(BenchKindName(kind));
  }
  return names;
}

std::optional<DataType> FindDataType(std::string_view name) { return Find(name, DataTypeName); }
std::optional<ReduceOperator> FindOperator(std::string_view name) {
  return Find(name, ReduceOperatorName);
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
  for (auto bytes = static_cast<double>(from); bytes <= static_cast<double>(to); bytes *= factor) {
    const std::uint64_t count = BenchCount(subject, static_cast<std::uint64_t>(bytes));
    if (counts.empty() || count > counts.back()) counts.push_back(count);
  }
  return counts;
}

double AlgorithmBandwidth(std::uint64_t bytes, double nanoseconds) {
  return nanoseconds <= 0 ? 0 : static_cast<double>(bytes) * 1e9 / nanoseconds;
}

double BusBandwidth(const BenchSubject& subject, std::uint64_t bytes, double nanoseconds) {
  const double algorithm = AlgorithmBandwidth(bytes, nanoseconds);
  const double others = (subject.ranks - 1.0) / subject.ranks;
  if (subject.kind == OperationKind::kAllReduce) return algorithm * 2 * others;
  return HasBlocks(subject.kind) ? algorithm * others : algorithm;
}

}  // namespace mlxcomm::ctl
