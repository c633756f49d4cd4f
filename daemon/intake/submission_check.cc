#include "daemon/intake/submission_check.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace mlxcomm::intake {
namespace {

bool IsGarbage(const queue::SubmissionEntry& entry) {
  if (!IsValid(entry.kind) || !IsValid(entry.data_type) || !IsValid(entry.reduce_operator)) {
    return true;
  }
  return std::any_of(std::begin(entry.reserved), std::end(entry.reserved),
                     [](std::uint8_t byte) { return byte != 0; });
}

// Empty: [offset, offset + bytes) lies in the arena, aligned to its elements.
std::string CheckRange(const char* name, std::uint64_t offset, std::uint64_t bytes,
                       std::uint64_t alignment, std::uint64_t arena_bytes) {
  if (offset > arena_bytes || bytes > arena_bytes - offset) {
    return absl::StrCat(name, ": [", offset, ", +", bytes, ") is not inside the arena of ",
                        arena_bytes, " bytes");
  }
  if (offset % alignment != 0) {
    return absl::StrCat(name, ": offset ", offset, " is not a multiple of ", alignment, " bytes");
  }
  return {};
}

}  // namespace

CheckedSubmission CheckSubmission(const queue::SubmissionEntry& entry, std::byte* arena,
                                  std::uint64_t arena_bytes) {
  CheckedSubmission checked;
  if (IsGarbage(entry)) return checked;
  checked.finding = Finding::kWrong;
  Submission& submission = checked.submission;
  submission.entry = entry;
  const bool reads = entry.kind != OperationKind::kReceive && entry.kind != OperationKind::kBarrier;
  const bool writes = entry.kind != OperationKind::kSend && entry.kind != OperationKind::kBarrier;
  if (!reads && !writes && entry.count != 0) {
    checked.message = absl::StrCat("count: a barrier has none, got ", entry.count);
    return checked;
  }
  const std::uint64_t element_bytes = DataTypeBytes(entry.data_type);
  if (entry.count > arena_bytes / element_bytes) {
    checked.message = absl::StrCat("count: ", entry.count, " elements of ", element_bytes,
                                   " bytes do not fit the arena of ", arena_bytes, " bytes");
    return checked;
  }
  const std::uint64_t bytes = entry.count * element_bytes;
  if (reads) {
    checked.message = CheckRange("input", entry.input_offset, bytes, element_bytes, arena_bytes);
    if (!checked.message.empty()) return checked;
    submission.input = arena + entry.input_offset;
    submission.input_bytes = bytes;
  }
  if (writes) {
    checked.message = CheckRange("output", entry.output_offset, bytes, element_bytes, arena_bytes);
    if (!checked.message.empty()) return checked;
    submission.output = arena + entry.output_offset;
    submission.output_bytes_available = arena_bytes - entry.output_offset;
  }
  checked.finding = Finding::kFine;
  return checked;
}

}  // namespace mlxcomm::intake
