#include "daemon/intake/submission.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace mlxcomm::intake {
namespace {

bool IsGarbage(const queue::SubmissionEntry& entry) {
  if (entry.purpose > queue::SubmissionPurpose::kOperateAndClose) return true;
  return !IsValid(entry.kind) || !IsValid(entry.data_type) || !IsValid(entry.reduce_operator) ||
         !IsValid(entry.plan) || (IsPointToPoint(entry.kind) && entry.check_word() != 0);
}

// Empty if the offset lies in the arena and is aligned.
std::string CheckOffset(const char* name, std::uint64_t offset, std::uint64_t alignment,
                        std::uint64_t arena_bytes) {
  if (offset > arena_bytes) {
    return absl::StrCat(name, ": offset ", offset, " is not inside the arena of ", arena_bytes,
                        " bytes");
  }
  if (offset % alignment != 0) {
    return absl::StrCat(name, ": offset ", offset, " is not a multiple of ", alignment, " bytes");
  }
  return {};
}

}  // namespace

absl::StatusOr<collective::Call> CheckSubmission(SessionId session,
                                                 const queue::SubmissionEntry& entry,
                                                 std::byte* arena, std::uint64_t arena_bytes) {
  if (IsGarbage(entry)) return absl::DataLossError("an invalid submission");
  const std::uint64_t element_bytes = DataTypeBytes(entry.data_type);
  std::string message;
  if (IsEmpty(entry.kind) && entry.count != 0) {
    message =
        absl::StrCat("count: ", OperationKindName(entry.kind), " takes none, got ", entry.count);
  } else if (HasCounts(entry.kind)) {
    message = CheckOffset("counts", entry.count, sizeof(std::uint64_t), arena_bytes);
  } else if (entry.count > arena_bytes / element_bytes) {
    message = absl::StrCat("count: ", entry.count, " elements of ", element_bytes,
                           " bytes do not fit the arena of ", arena_bytes, " bytes");
  }
  if (message.empty()) {
    message = CheckOffset("input", entry.input_offset, element_bytes, arena_bytes);
  }
  if (message.empty()) {
    message = CheckOffset("output", entry.output_offset, element_bytes, arena_bytes);
  }
  if (!message.empty()) return absl::InvalidArgumentError(message);
  collective::Call call;
  call.session = session;
  call.group = entry.group;
  call.ticket = entry.ticket;
  call.signature = {entry.kind,
                    entry.data_type,
                    entry.reduce_operator,
                    HasCounts(entry.kind) ? 0 : entry.count,
                    HasRoot(entry.kind) ? entry.peer_rank : 0,
                    entry.plan,
                    0,
                    entry.check_word()};
  call.peer_rank = entry.peer_rank;
  call.tag = entry.tag;
  call.closes_page = entry.purpose == queue::SubmissionPurpose::kOperateAndClose;
  call.timeout_ns = entry.timeout_ns;
  call.input = arena + entry.input_offset;
  call.input_bytes_available = arena_bytes - entry.input_offset;
  call.output = arena + entry.output_offset;
  call.output_bytes_available = arena_bytes - entry.output_offset;
  if (HasCounts(entry.kind)) {
    call.counts = arena + entry.count;
    call.counts_bytes_available = arena_bytes - entry.count;
  }
  return call;
}

}  // namespace mlxcomm::intake
