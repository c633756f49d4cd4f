// A plan: the steps of one node for one operation, as pure data. plans/plans.h lists the planners;
// an Execution executes a plan without knowing the operation.
//
//   kLocal    sources ─combine─▶ destinations     on this node, in shared memory
//   kSend     source ─▶ node                      meets the step there with the same tag
//   kReceive  node ─▶ destination
//   kReduceReceived  node ─▶ destination = operand op received, or the other way round
//
// A step of n bytes has ChunkCount(n) chunks; README.md, Plan, says when a chunk may start.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "daemon/collective/group_layout.h"
#include "daemon/collective/signature.h"

namespace mlxcomm::collective {

// The slowest link between two nodes of the group (plans/estimate.h), measured once and frozen into
// the group, so that every node always makes the same choice.
struct LinkCosts {
  std::uint64_t latency_ns = 30'000;
  std::uint64_t bytes_per_second = 4'000'000'000;  // Each direction; > 0.
  // A node can fill this many links at once: 1 behind one cable or switch port, 2 in a ring of
  // cables, N-1 if each pair has its own cable.
  std::uint32_t links_per_node = 2;

  friend bool operator==(const LinkCosts&, const LinkCosts&) = default;
};

// The amount of data of an operation; a barrier is an all_reduce of nothing.
struct Traffic {
  OperationKind kind = OperationKind::kAllReduce;
  std::uint32_t nodes = 2;  // >= 2
  std::uint32_t ranks = 2;
  // all_reduce, reduce, broadcast, all_to_all: a rank's count (all_to_all: per other rank).
  // Otherwise the blocks of all ranks together.
  std::uint64_t bytes = 0;
};

enum class StepKind : std::uint8_t { kLocal, kSend, kReceive, kReduceReceived };

struct Place {
  enum class Side : std::uint8_t { kInput, kOutput, kScratch };
  static constexpr std::int32_t kEveryLocalRank = -1;

  Side side = Side::kInput;
  std::int32_t local_rank = 0;  // Index in GroupLayout::local_ranks(), or kEveryLocalRank.
                                // kScratch: 0.
  std::uint64_t offset = 0;     // Bytes.
};

struct Step {
  static constexpr std::int32_t kNone = -1;

  StepKind kind = StepKind::kLocal;
  // Makes final values of a reduction, so a mean divides here. Each element of a result comes from
  // one such step on one node, or from equal ones on all.
  bool finishes = false;
  bool received_first = false;  // kReduceReceived: received op operand.
  std::uint16_t tag = 0;    // kSend and receives: unique between the two nodes, in each direction.
  std::uint16_t node = 0;   // kSend and receives: index in the layout.
  Place source = {};        // kLocal, kSend; kReduceReceived: the operand.
  Place destination = {};   // kLocal and receives.
  std::uint64_t bytes = 0;  // 0: no payload, or nothing to do.
  // kLocal: combines this many sources, source_stride bytes apart, in order; if several, of one
  // rank.
  std::uint32_t source_count = 1;
  std::uint64_t source_stride = 0;
  // Eager sends and receives: must match on both sides, or the operation is a MISMATCH; 0: none.
  std::uint64_t check = 0;
  // Plan::after[after_begin .. after_begin + after_count): earlier steps. Set by Add.
  std::uint32_t after_begin = 0;
  std::uint32_t after_count = 0;
};

// Rounds up to whole cache lines, which blocks in scratch memory do not share.
constexpr std::uint64_t InLines(std::uint64_t bytes) { return (bytes + 63) / 64 * 64; }

struct Plan {
  std::vector<Step> steps;
  std::vector<std::int32_t> after;  // All steps' predecessors, packed.
  std::uint64_t scratch_bytes = 0;
  PlanKind between_nodes = PlanKind::kAutomatic;  // The choice; kAutomatic: one node.

  void Clear() {
    steps.clear();
    after.clear();
    scratch_bytes = 0;
    between_nodes = PlanKind::kAutomatic;
  }
  // Returns the new step's index, for later steps' `before`. Ignores Step::kNone in `before`.
  std::int32_t Add(Step step, std::span<const std::int32_t> before) {
    step.after_begin = static_cast<std::uint32_t>(after.size());
    for (const std::int32_t index : before) {
      if (index != Step::kNone) after.push_back(index);
    }
    step.after_count = static_cast<std::uint32_t>(after.size()) - step.after_begin;
    steps.push_back(step);
    return static_cast<std::int32_t>(steps.size()) - 1;
  }
  std::int32_t Add(const Step& step, std::initializer_list<std::int32_t> before = {}) {
    return Add(step, std::span<const std::int32_t>(before.begin(), before.size()));
  }
  std::span<const std::int32_t> AfterOf(const Step& step) const {
    return {after.data() + step.after_begin, step.after_count};
  }
  // Adds scratch memory, aligned for every type and to a cache line. Returns its offset.
  std::uint64_t AddScratch(std::uint64_t bytes) {
    const std::uint64_t offset = scratch_bytes;
    scratch_bytes += InLines(bytes);
    return offset;
  }
};

inline constexpr std::uint64_t kEagerBytes = 16 * 1024;  // wire::kEagerBytesMax
// Fits a core's cache together with its operand; a multiple of every element size.
inline constexpr std::uint64_t kChunkBytes = 256 * 1024;

inline std::uint64_t ChunkCount(std::uint64_t bytes) {
  return bytes == 0 ? 1 : (bytes + kChunkBytes - 1) / kChunkBytes;
}
// Steps up to this size travel eagerly, in one frame.
inline bool IsEager(std::uint64_t bytes) { return bytes <= kEagerBytes; }
// Somewhat larger data arrives sooner in a few eager steps than in one that waits for a grant. They
// use up credit, so there are few. 1: one step of either kind.
inline constexpr std::uint64_t kEagerPartsMax = 4;
inline std::uint64_t EagerParts(std::uint64_t bytes) {
  const std::uint64_t parts = (bytes + kEagerBytes - 1) / kEagerBytes;
  return parts <= kEagerPartsMax ? std::max<std::uint64_t>(parts, 1) : 1;
}

// Divides `count` elements into `parts`; the first count % parts are one longer.
struct Part {
  std::uint64_t offset = 0;
  std::uint64_t count = 0;
};
inline Part PartOf(std::uint64_t count, std::uint64_t parts, std::uint64_t index) {
  const std::uint64_t base = count / parts;
  const std::uint64_t longer = count % parts;
  return {index * base + std::min(index, longer), base + (index < longer ? 1 : 0)};
}

inline constexpr std::uint16_t kNodesMax = 1024;
// Ranks of one group on one node: the maximum inputs of the kernels, and sources of a local step.
inline constexpr std::size_t kLocalRanksMax = 64;

struct PointToPoint {
  std::uint32_t source_rank = 0;
  std::uint32_t destination_rank = 0;
};

struct PlanRequest {
  const Signature& signature;
  const GroupLayout& layout;  // The plan is for layout.self().
  LinkCosts costs;            // The same on all nodes.
  PointToPoint ends = {};     // send and recv only.
  // all_gather_v: one table of size entries. all_to_all_v: per local rank, its size send counts,
  // then its size receive counts. Elements.
  std::span<const std::span<const std::uint64_t>> counts = {};
  // A local rank's output is its input. Only this node knows, so it may change only when its steps
  // start.
  bool in_place = false;
  // The number of elements for which slices (plans/slices.h) and scratch memory are chosen, if a
  // proof uses fewer elements but needs the same steps; 0: the signature's.
  std::uint64_t chosen_for = 0;
};

// The cost model chooses the planner, unless signature.plan forces one that the kind offers.
void MakePlan(const PlanRequest& request, Plan& plan);

}  // namespace mlxcomm::collective
