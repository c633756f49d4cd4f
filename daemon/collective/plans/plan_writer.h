// Provides what every planner needs: the request as small numbers, and one call per kind of step.
//
// Only one value per node travels, whatever the number of its ranks: Contribution() makes it,
// Deliver() passes a result to all local ranks. A node with one rank needs neither, and copies
// nothing.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "daemon/collective/plan.h"

namespace mlxcomm::collective {

inline Place InputOf(int local_rank, std::uint64_t offset) {
  return {Place::Side::kInput, local_rank, offset};
}
inline Place OutputOf(int local_rank, std::uint64_t offset) {
  return {Place::Side::kOutput, local_rank, offset};
}
inline Place Everyones(Place place) {
  place.local_rank = Place::kEveryLocalRank;
  return place;
}
inline Place ScratchAt(std::uint64_t offset) { return {Place::Side::kScratch, 0, offset}; }
inline Place Shifted(Place place, std::uint64_t bytes) {
  place.offset += bytes;
  return place;
}

// Stays on the stack for groups of usual size.
template <typename T>
using SmallTable = absl::InlinedVector<T, 64>;

class PlanWriter {
 public:
  struct Value {
    Place place;
    std::int32_t step = Step::kNone;
  };
  using Before = std::initializer_list<std::int32_t>;

  PlanWriter(const PlanRequest& request, Plan& plan);

  int nodes() const { return layout_.node_count(); }
  int self() const { return layout_.self(); }
  bool several_local() const { return layout_.local_ranks().size() > 1; }
  // Returns whether the input, which is sent in place, is never overwritten.
  bool input_stays() const { return !several_local() && !in_place_; }
  const GroupLayout& layout() const { return layout_; }
  const std::vector<std::uint32_t>& RanksOn(int node) const {
    return layout_.ranks_on(static_cast<std::uint16_t>(node));
  }
  std::uint64_t bytes() const { return count_ * element_bytes_; }
  std::uint64_t count() const { return count_; }
  std::uint64_t element_bytes() const { return element_bytes_; }
  int RootNode() const { return layout_.node_of(root_); }
  bool AtRoot() const { return RootNode() == self(); }
  // The root's index among the local ranks, or -1.
  int RootLocal() const { return layout_.LocalIndexOf(root_); }
  Plan& plan() { return plan_; }

  std::int32_t Copy(const Place& source, const Place& destination, std::uint64_t bytes,
                    Before before = {}) {
    return plan_.Add({.source = source, .destination = destination, .bytes = bytes}, before);
  }
  std::int32_t Combine(std::uint64_t offset, const Place& destination, std::uint64_t bytes,
                       Before before = {}) {
    return Copy(Everyones(InputOf(0, offset)), destination, bytes, before);
  }
  // Combines final values that lie `stride` bytes apart, in order.
  std::int32_t CombineSlots(const Place& first, std::uint64_t stride, const Place& destination,
                            std::uint64_t bytes, std::span<const std::int32_t> before);
  // This node's part of a reduction: its only rank's input, or the local inputs combined into
  // `work`.
  Value Contribution(std::uint64_t offset, const Place& work, std::uint64_t bytes,
                     Before before = {});
  std::int32_t Send(int node, std::uint64_t tag, const Place& source, std::uint64_t bytes,
                    Before before = {}) {
    return SendAfterAll(node, tag, source, bytes, {before.begin(), before.size()});
  }
  std::int32_t SendAfterAll(int node, std::uint64_t tag, const Place& source, std::uint64_t bytes,
                            std::span<const std::int32_t> before);
  std::int32_t Receive(int node, std::uint64_t tag, const Place& destination, std::uint64_t bytes,
                       Before before = {});
  std::int32_t ReduceReceived(int node, std::uint64_t tag, const Place& operand,
                              const Place& destination, std::uint64_t bytes, Before before = {});
  // Copies from the first local rank's output to the others'.
  void Deliver(std::uint64_t offset, std::uint64_t bytes, std::int32_t after);
  std::int32_t Finish(std::int32_t step);

 private:
  Step Exchange(StepKind kind, int node, std::uint64_t tag, std::uint64_t bytes) const;

  const GroupLayout& layout_;
  Plan& plan_;
  std::uint64_t count_;
  std::uint64_t element_bytes_;
  std::uint32_t root_;
  bool in_place_;
};

}  // namespace mlxcomm::collective
