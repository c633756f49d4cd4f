// What every planner needs: the request as small numbers, and one call for each kind of step.
//
// Between nodes only one value of a node travels, whatever number of ranks it has: Contribution()
// makes it from the inputs of the local ranks, Deliver() passes what has come to all of them. Where
// a node has a single rank, neither does anything: its input is sent, and its output received into,
// without a copy.
//
// Owner: a planner, for one call. Thread: the loop's. Memory: appends to the plan.
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
inline Place Behind(Place place, std::uint64_t bytes) {
  place.offset += bytes;
  return place;
}

// Tables by local rank or by node; on the stack for groups of usual size.
template <typename T>
using SmallTable = absl::InlinedVector<T, 64>;

class PlanWriter {
 public:
  // A value in memory, and the step that puts it there.
  struct Value {
    Place place;
    std::int32_t step = Step::kNone;
  };
  using Before = std::initializer_list<std::int32_t>;

  PlanWriter(const PlanRequest& request, Plan& plan);

  int nodes() const { return layout_.node_count(); }
  int self() const { return layout_.self(); }
  bool several_local() const { return layout_.local_ranks().size() > 1; }
  // Nothing is written to an input that is sent from where it is.
  bool input_stays() const { return !several_local() && !in_place_; }
  const GroupLayout& layout() const { return layout_; }
  const std::vector<std::uint32_t>& RanksOn(int node) const {
    return layout_.ranks_on(static_cast<std::uint16_t>(node));
  }
  // The length of one rank's count.
  std::uint64_t bytes() const { return count_ * element_bytes_; }
  std::uint64_t count() const { return count_; }
  std::uint64_t element_bytes() const { return element_bytes_; }
  int RootNode() const { return layout_.node_of(root_); }
  bool AtRoot() const { return RootNode() == self(); }
  // The root's place among the local ranks; -1 elsewhere.
  int RootLocal() const { return layout_.LocalIndexOf(root_); }
  Plan& plan() { return plan_; }

  std::int32_t Copy(const Place& source, const Place& destination, std::uint64_t bytes,
                    Before before = {}) {
    return plan_.Add({.source = source, .destination = destination, .bytes = bytes}, before);
  }
  // The inputs of all local ranks at `offset`, combined.
  std::int32_t Combine(std::uint64_t offset, const Place& destination, std::uint64_t bytes,
                       Before before = {}) {
    return Copy(Everyones(InputOf(0, offset)), destination, bytes, before);
  }
  // Values that lie `stride` bytes apart, combined in that order; final.
  std::int32_t CombineSlots(const Place& first, std::uint64_t stride, const Place& destination,
                            std::uint64_t bytes, std::span<const std::int32_t> before);
  // This node's part of a reduction at `offset` of the inputs: the only rank's input
  // itself, or the local ranks' inputs combined into `work`.
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
  // From the first local rank's output to those of the others.
  void Deliver(std::uint64_t offset, std::uint64_t bytes, std::int32_t after);
  // Marks a step as one that makes final values.
  std::int32_t Finish(std::int32_t step);

 private:
  // The fields that sends and receives have in common.
  Step Exchange(StepKind kind, int node, std::uint64_t tag, std::uint64_t bytes) const;

  const GroupLayout& layout_;
  Plan& plan_;
  std::uint64_t count_;
  std::uint64_t element_bytes_;
  std::uint32_t root_;
  bool in_place_;
};

}  // namespace mlxcomm::collective
