// What `plan` is asked, as an operation of a whole group, or why it is refused.
//
// Making plans costs time and memory that grow with the group and with the data, so every figure has
// a limit, and a refusal names it.
//
// Owner: none, pure functions. Thread: any. Memory: members of kPlanRanksMax ranks.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "client/ctl/verbs.h"
#include "daemon/collective/whole_operation.h"
#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::ctl {

inline constexpr std::uint32_t kPlanNodesMax = 32;
inline constexpr std::uint32_t kPlanRanksPerNodeMax = 64;
inline constexpr std::uint32_t kPlanRanksMax = 256;
inline constexpr std::uint64_t kPlanBytesMax = std::uint64_t{1} << 40;  // As the cost model.

// The links' figures, and where each comes from: "given", "this node", "default".
struct PlanCosts {
  collective::LinkCosts costs;
  const char* latency_source = "default";
  const char* bytes_per_second_source = "default";
  const char* links_per_node_source = "default";
};

// False: the question has all figures itself.
bool NeedsOwnCosts(const PlanOptions& options);
// What is given, else what the daemon says that this node has (0: not measured), else the default.
PlanCosts ChooseCosts(const PlanOptions& options, const v1::LinkCosts& own);

// INVALID_ARGUMENT otherwise. Every rank of a node lies beside the others.
absl::StatusOr<collective::WholeOperation> ReadPlanQuestion(const PlanOptions& options,
                                                            const collective::LinkCosts& costs);

}  // namespace mlxcomm::ctl
