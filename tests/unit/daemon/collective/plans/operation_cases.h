// Whole operations for tests: groups of every shape, and calls of every kind on them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/verify/plan_verifier.h"

namespace mlxcomm::collective {

// The node of each rank, in order of rank.
struct GroupShape {
  std::string name;
  std::vector<int> node_of_rank;
};

inline GroupShape EvenShape(int nodes, int ranks_per_node) {
  GroupShape shape{std::to_string(nodes) + "x" + std::to_string(ranks_per_node), {}};
  for (int rank = 0; rank < nodes * ranks_per_node; ++rank) {
    shape.node_of_rank.push_back(rank / ranks_per_node);
  }
  return shape;
}

inline std::vector<GroupShape> AllShapes() {
  return {EvenShape(1, 1),
          EvenShape(1, 4),
          EvenShape(2, 1),
          EvenShape(2, 2),
          EvenShape(3, 1),
          EvenShape(4, 1),
          EvenShape(4, 2),
          EvenShape(5, 1),
          EvenShape(6, 1),
          EvenShape(7, 1),
          EvenShape(8, 1),
          EvenShape(8, 2),
          {"unequal", {0, 0, 0, 1}},
          {"unequal_of_four", {0, 1, 1, 1, 2, 2, 3}},
          {"interleaved", {0, 1, 0, 1}},
          {"interleaved_of_three", {0, 1, 2, 2, 1, 0, 0}},
          {"interleaved_of_four", {0, 1, 2, 3, 0, 1, 2, 3}}};
}

inline std::vector<Member> MembersOf(const GroupShape& shape) {
  std::vector<Member> members;
  for (const int node : shape.node_of_rank) {
    Member member;
    member.node.bytes[0] = static_cast<std::uint8_t>(node + 1);
    member.node_name = "node-" + std::to_string(node);
    member.pid = 100 + members.size();
    members.push_back(member);
  }
  return members;
}

// Counts that differ between ranks; some are 0.
inline std::uint64_t VaryingCount(std::uint64_t count, std::uint64_t from, std::uint64_t to) {
  return count * ((from * 3 + to * 5) % 4) / 2;
}

inline WholeOperation MakeOperation(const GroupShape& shape, OperationKind kind, PlanKind plan,
                                    std::uint64_t count, std::uint32_t root = 0) {
  WholeOperation operation;
  operation.members = MembersOf(shape);
  operation.signature.kind = kind;
  operation.signature.type = DataType::kFloat32;
  operation.signature.op = Reduces(kind) ? ReduceOperator::kSum : ReduceOperator::kNone;
  operation.signature.count = IsEmpty(kind) || HasCounts(kind) ? 0 : count;
  operation.signature.root = HasRoot(kind) ? root : 0;
  operation.signature.plan = plan;
  const std::uint32_t size = operation.size();
  if (IsPointToPoint(kind)) operation.ends = {size - 1, root};
  if (CountsPerRank(kind) == 1) {
    operation.counts.emplace_back();
    for (std::uint32_t rank = 0; rank < size; ++rank) {
      operation.counts[0].push_back(VaryingCount(count, rank, 0));
    }
  }
  for (std::uint32_t rank = 0; CountsPerRank(kind) == 2 && rank < size; ++rank) {
    std::vector<std::uint64_t>& table = operation.counts.emplace_back();
    for (std::uint32_t to = 0; to < size; ++to) table.push_back(VaryingCount(count, rank, to));
    for (std::uint32_t from = 0; from < size; ++from) {
      table.push_back(VaryingCount(count, from, rank));
    }
  }
  return operation;
}

// Without recv: with its send it is one operation.
inline const std::vector<OperationKind> kAllKinds = [] {
  std::vector<OperationKind> kinds;
  kOperations.ForEach([&](const OperationRow& row) {
    if (row.value != OperationKind::kReceive) kinds.push_back(row.value);
  });
  return kinds;
}();
inline const std::vector<PlanKind> kAllPlans = [] {
  std::vector<PlanKind> plans;
  kPlanKinds.ForEach([&](const PlanKindRow& row) { plans.push_back(row.value); });
  return plans;
}();

}  // namespace mlxcomm::collective
