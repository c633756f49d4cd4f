// The question of `plan`, as an operation of a whole group, or the reason for its refusal.
//
// Making plans costs time and memory that grow with the group and with the data, so every figure has
// a limit, and a refusal names it.
//
// Memory: members of kPlanRanksMax ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/collective/whole_operation.h"
#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::ctl {

inline constexpr std::uint32_t kPlanNodesMax = 32;
inline constexpr std::uint32_t kPlanRanksPerNodeMax = 64;
inline constexpr std::uint32_t kPlanRanksMax = 256;
inline constexpr std::uint64_t kPlanBytesMax = std::uint64_t{1} << 40;  // As in the cost model.

struct PlanOptions {
  std::string socket_path;
  std::string operation;
  std::string data_type;  // Empty, as all below: chosen automatically.
  std::string reduce_operator;
  std::string plan;
  std::optional<std::uint64_t> bytes;
  std::uint32_t nodes = 0;
  std::uint32_t ranks_per_node = 1;
  std::uint32_t root = 0;
  std::uint64_t latency_ns = 0;  // 0, as below: this node's figure.
  std::uint64_t bytes_per_second = 0;
  std::uint32_t links_per_node = 0;
  bool steps = false;
  bool json = false;
  bool dot = false;
};

// The links' figures, and where each comes from: "given", "this node", "default".
struct PlanCosts {
  collective::LinkCosts costs;
  const char* latency_source = "default";
  const char* bytes_per_second_source = "default";
  const char* links_per_node_source = "default";
};

// False: the question has all figures itself.
bool NeedsOwnCosts(const PlanOptions& options);
// The given figures, else those that the daemon reports for this node (0: not measured), else
// defaults.
PlanCosts ChooseCosts(const PlanOptions& options, const v1::LinkCosts& own);

// INVALID_ARGUMENT: the question is wrong. The ranks of a node are consecutive.
absl::StatusOr<collective::WholeOperation> ReadPlanQuestion(const PlanOptions& options,
                                                            const collective::LinkCosts& costs);

}  // namespace mlxcomm::ctl
