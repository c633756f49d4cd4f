// A plan: the steps that one node takes for one operation, as pure data.
//
// A planner computes it from (signature, layout, node) alone, so all nodes plan
// alike without a word; an Execution carries it out without knowing which
// operation it is. A new operation or algorithm is a new planner file.
//
//   kLocal    sources ─combine─▶ destinations     on this node, in shared memory
//   kSend     source ─▶ node                      meets the step there with the same tag
//   kReceive  node ─▶ destination
//   kReduceReceived  node ─▶ destination = operand op received
//
// A step of n bytes is done in chunks (ChunkBytes(n)). It may start a chunk when
// each step in `after` has done that part: the same chunk where both steps are
// equally long, otherwise all of it.
//
// Owner: Execution. Thread: engine. Memory: the vector of steps, reused.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "daemon/collective/group_layout.h"
#include "daemon/collective/signature.h"

namespace mlxcomm::collective {

enum class StepKind : std::uint8_t { kLocal, kSend, kReceive, kReduceReceived };

// A place in the buffers of this node's ranks.
struct Place {
  enum class Side : std::uint8_t { kInput, kOutput };
  static constexpr std::int32_t kEveryLocalRank = -1;

  Side side = Side::kInput;
  std::int32_t local_rank = 0;  // Index in GroupLayout::local_ranks(), or kEveryLocalRank.
  std::uint64_t offset = 0;     // Bytes.
};

struct Step {
  static constexpr std::int32_t kNone = -1;

  StepKind kind = StepKind::kLocal;
  std::uint16_t tag = 0;   // kSend and receives: unique between the two nodes.
  std::uint16_t node = 0;  // kSend and receives: index in the layout.
  Place source;            // kLocal, kSend; kReduceReceived: the operand.
  Place destination;       // kLocal and receives.
  std::uint64_t bytes = 0; // 0 is a message without payload, or nothing to do.
  std::array<std::int32_t, 2> after = {kNone, kNone};  // Indices of earlier steps.
};

struct Plan {
  std::vector<Step> steps;

  void Clear() { steps.clear(); }
  // Returns the new step's index, for `after`.
  std::int32_t Add(const Step& step) {
    steps.push_back(step);
    return static_cast<std::int32_t>(steps.size()) - 1;
  }
};

inline constexpr std::uint64_t kEagerBytes = 16 * 1024;  // wire::kEagerBytesMax
// Stays in a core's cache together with its operand; a multiple of every type.
inline constexpr std::uint64_t kChunkBytes = 256 * 1024;

inline std::uint64_t ChunkCount(std::uint64_t bytes) {
  return bytes == 0 ? 1 : (bytes + kChunkBytes - 1) / kChunkBytes;
}
// Steps up to this size travel eagerly, in one frame.
inline bool IsEager(std::uint64_t bytes) { return bytes <= kEagerBytes; }

// How `count` elements are cut into `parts`: as even as possible, the first
// count % parts one longer. Offset and length in elements.
struct Part {
  std::uint64_t offset = 0;
  std::uint64_t count = 0;
};
inline Part PartOf(std::uint64_t count, std::uint64_t parts, std::uint64_t index) {
  const std::uint64_t base = count / parts;
  const std::uint64_t longer = count % parts;
  return {index * base + std::min(index, longer), base + (index < longer ? 1 : 0)};
}

// Nodes of one group. Tags of ring steps (2 N) stay far below 2^16.
inline constexpr std::uint16_t kNodesMax = 1024;
// Ranks of one group on one node: the kernels take as many inputs.
inline constexpr std::size_t kLocalRanksMax = 64;

// Point-to-point operations have two ends instead of the group.
struct PointToPoint {
  std::uint32_t source_rank = 0;
  std::uint32_t destination_rank = 0;
};

// Each planner fills `plan` for the node layout.self().
//
// Ring all-reduce: a reduce-scatter pass, then an all-gather pass, N-1 steps each;
// each node sends 2 (N-1)/N of the data, which is optimal (Patarasuk and Yuan,
// Bandwidth Optimal All-reduce Algorithms for Clusters of Workstations, 2009).
void PlanRingAllReduce(const Signature& signature, const GroupLayout& layout, Plan& plan);
// Ring all-gather: N-1 steps, each passing on the blocks received in the last.
void PlanRingAllGather(const Signature& signature, const GroupLayout& layout, Plan& plan);
// One send, one receive, or one copy where both ranks are on this node.
void PlanPointToPoint(const Signature& signature, const GroupLayout& layout,
                      const PointToPoint& ends, Plan& plan);

// Chooses the planner. `ends` matters for send and receive only.
void MakePlan(const Signature& signature, const GroupLayout& layout, const PointToPoint& ends,
              Plan& plan);

}  // namespace mlxcomm::collective
