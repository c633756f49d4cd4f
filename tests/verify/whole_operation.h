// One operation as all ranks of a group have called it: no node has all of this. Tests
// use it to print the plans of all nodes, and to prove that they fit together.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/collective/plan.h"
#include "proto/types/operation_shape.h"

namespace mlxcomm::collective {

struct WholeOperation {
  Signature signature;
  std::vector<Member> members;  // In order of rank.
  LinkCosts costs = {};
  PointToPoint ends = {};  // send and recv only.
  // all_gather_v: one table, size entries. all_to_all_v: one table for each rank.
  std::vector<std::vector<std::uint64_t>> counts = {};
  // If a rank reads and writes, its input and output are the same memory.
  bool in_place = false;
  std::uint64_t chosen_for = 0;  // The same as in PlanRequest.

  std::uint32_t size() const { return static_cast<std::uint32_t>(members.size()); }
  std::uint64_t element_bytes() const { return DataTypeBytes(signature.type); }
  // The same for all ranks; with tables of counts, in each of their entries.
  void SetCount(std::uint64_t count);
  GroupLayout LayoutAt(std::uint16_t node) const;
};

// The plan of that node.
Plan MakePlanOf(const WholeOperation& operation, std::uint16_t node);

}  // namespace mlxcomm::collective
