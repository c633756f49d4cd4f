// Attaches a LinkReason to a status as a payload, so that it survives code that only forwards
// statuses.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "proto/types/link_reason.h"

namespace mlxcomm::rail {

inline constexpr char kReasonPayload[] = "mlxcomm.v1.LinkReason";

// Returns `other` if the status carries none.
inline LinkReason ReasonOf(const absl::Status& status, LinkReason other = LinkReason::kNone) {
  const auto payload = status.GetPayload(kReasonPayload);
  if (!payload.has_value() || payload->size() != 1) return other;
  return LinkReasonOf(static_cast<unsigned char>((*payload)[0]), other);
}

// Keeps the first reason, which is closest to the failure.
inline absl::Status WithReason(absl::Status status, LinkReason reason) {
  if (status.ok() || ReasonOf(status) != LinkReason::kNone) return status;
  const char number = static_cast<char>(reason);
  status.SetPayload(kReasonPayload, absl::Cord(absl::string_view(&number, 1)));
  return status;
}

}  // namespace mlxcomm::rail
