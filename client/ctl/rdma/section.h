// RDMA in doctor and bugreport: the parts of its section (doctor/section.h).
#pragma once

#include <optional>
#include <span>

#include "absl/strings/string_view.h"
#include "client/ctl/doctor/section.h"

namespace mlxcomm::ctl {

extern const Section kRdmaSection;

void CheckRdma(const Facts& facts, Findings& findings);
std::span<const FindingKind> RdmaFindingKinds();
std::optional<bool> ParseRdmaEnabled(absl::string_view text);  // `rdma_ctl status`

}  // namespace mlxcomm::ctl
