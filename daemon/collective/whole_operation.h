// One operation as all ranks of a group have called it, and the plans of all its nodes: no node has
// all of this, and it proves that their plans fit together.
//
// Owner: the code that verifies plans. Thread: any. Memory: tables for every rank.
#pragma once

#include <cstdint>
#include <string>
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
  // Where a rank reads and writes, its input and output are the same memory.
  bool in_place = false;
  std::uint64_t chosen_for = 0;  // As in PlanRequest.

  std::uint32_t size() const { return static_cast<std::uint32_t>(members.size()); }
  std::uint64_t element_bytes() const { return DataTypeBytes(signature.type); }
  // The same for all ranks; with tables of counts, in each of their entries.
  void SetCount(std::uint64_t count);
  GroupLayout LayoutAt(std::uint16_t node) const;
  // The elements that the rank reads and writes.
  OperationShape ShapeAt(std::uint32_t rank) const;
  std::uint64_t InputBytes(std::uint32_t rank) const;
  std::uint64_t OutputBytes(std::uint32_t rank) const;
  // "node 1: step 7 (send 4096 bytes to node 2, tag 3)"
  std::string Describe(std::uint16_t node, std::size_t index, const Step& step) const;
};

// The plan of that node.
Plan MakePlanOf(const WholeOperation& operation, std::uint16_t node);
// By node.
std::vector<Plan> MakePlans(const WholeOperation& operation);

}  // namespace mlxcomm::collective
