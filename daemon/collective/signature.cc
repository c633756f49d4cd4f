#include "daemon/collective/signature.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace mlxcomm::collective {
namespace {

// SplitMix64's finaliser (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators,
// 2014).
std::uint64_t Mix(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

}  // namespace

std::uint64_t Signature::Digest() const {
  // A send and its receive are one operation.
  const OperationKind shared = IsPointToPoint(kind) ? OperationKind::kSend : kind;
  const std::uint64_t head = static_cast<std::uint64_t>(root) << 32 |
                             static_cast<std::uint64_t>(plan) << 24 |
                             static_cast<std::uint64_t>(shared) << 16 |
                             static_cast<std::uint64_t>(type) << 8 | static_cast<std::uint64_t>(op);
  std::uint64_t digest = Mix(Mix(Mix(head) ^ count) ^ counts_digest);
  if (check != 0) digest = Mix(digest ^ check);
  return digest == 0 ? 1 : digest;
}

std::uint64_t DigestOf(std::span<const std::uint64_t> values) {
  std::uint64_t digest = Mix(values.size());
  for (const std::uint64_t value : values) digest = Mix(digest ^ value);
  return digest == 0 ? 1 : digest;
}

std::string Signature::Describe() const {
  std::string text = OperationKindName(kind);
  const std::string suffix = check == 0 ? "" : absl::StrFormat(" (check %06x)", check);
  if (IsEmpty(kind)) return text + suffix;
  if (op != ReduceOperator::kNone) absl::StrAppend(&text, " ", ReduceOperatorName(op));
  absl::StrAppend(&text, " ", DataTypeName(type));
  if (!HasCounts(kind)) absl::StrAppend(&text, "[", count, "]");
  if (IsFromRoot(kind)) absl::StrAppend(&text, " from root ", root);
  if (IsToRoot(kind)) absl::StrAppend(&text, " to root ", root);
  if (plan != PlanKind::kAutomatic) absl::StrAppend(&text, " by ", PlanKindName(plan));
  return text + suffix;
}

}  // namespace mlxcomm::collective
