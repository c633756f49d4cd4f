#include "tests/sim/expected.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace mlxcomm::sim {
namespace {

bool IsSameForAll(OperationKind kind) {
  return kind == OperationKind::kAllReduce || kind == OperationKind::kAllGather ||
         kind == OperationKind::kAllGatherV || kind == OperationKind::kBroadcast;
}

std::string Differs(std::size_t at, const std::string& what) {
  return absl::StrCat("byte ", at, " of ", what, " is wrong");
}

}  // namespace

std::string Expected::Wrong(std::size_t index, const Step& step, std::uint32_t rank,
                            const oracle::Bytes& output) {
  const oracle::Operation& o = step.operation;
  const std::string what = absl::StrCat(OperationKindName(o.kind), " ", DataTypeName(o.type), "[",
                                        o.count, "] over ", o.size, " ranks");
  if (step.kind == Step::Kind::kMessage) {
    if (rank != step.destination) return {};
    const oracle::Bytes wanted =
        oracle::Input(o.type, ReduceOperator::kNone, step.source, o.count, o.salt);
    const auto wrong = std::mismatch(wanted.begin(), wanted.end(), output.begin(), output.end());
    if (wrong.first == wanted.end() && wrong.second == output.end()) return {};
    return Differs(static_cast<std::size_t>(wrong.first - wanted.begin()), what);
  }
  if (!o.ShapeFor(rank).writes) return {};
  const auto known = same_for_all_.find(index);
  if (known != same_for_all_.end()) {
    const oracle::Bytes& first = known->second;
    const auto wrong = std::mismatch(first.begin(), first.end(), output.begin(), output.end());
    if (wrong.first == first.end() && wrong.second == output.end()) return {};
    return absl::StrCat(Differs(static_cast<std::size_t>(wrong.first - first.begin()), what),
                        ", or not as another rank has it");
  }
  const std::int64_t wrong = oracle::FirstWrong(o, rank, output);
  if (wrong >= 0) return absl::StrCat("element ", wrong, " of ", what, " is wrong");
  if (IsSameForAll(o.kind)) {
    same_for_all_[index] = output;
    if (same_for_all_.size() > kKeptMax) same_for_all_.erase(same_for_all_.begin());
  }
  return {};
}

}  // namespace mlxcomm::sim
