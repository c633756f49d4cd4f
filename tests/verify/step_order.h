// Which part of which step is certain to come before which, over all nodes of one operation: the
// order that edges, messages and grants impose, regardless of timing.
//
// A chunk of a step has three events:
//
//   allowed ──▶ begins to touch memory ──▶ done (no longer touches it, nor any chunk before)
//
// For a receive the second event also waits for the message; for other steps it equals the first. A
// large message is sent only after its receive has been allowed (the grant). The end of a large
// send is known only to its own node; an eager send ends at once.
//
// Owner: the verifier. Thread: any. Memory: some numbers for each chunk of each step.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "daemon/collective/plan.h"

namespace mlxcomm::collective {

struct StepRef {
  std::uint16_t node = 0;
  std::uint32_t index = 0;
};

class StepOrder {
 public:
  enum class Event : std::uint8_t { kAllowed = 0, kTouches = 1, kDone = 2 };

  explicit StepOrder(std::span<const Plan> plans) : plans_(plans) {}

  // Pairs sends with receives, then orders all events. An error names a message
  // without its counterpart, or a step that waits for itself.
  absl::Status Build();

  bool Precedes(const StepRef& a, std::uint64_t chunk_a, Event event_a, const StepRef& b,
                std::uint64_t chunk_b, Event event_b) const;
  // All of `a` ends before any of `b` begins.
  bool Ordered(const StepRef& a, const StepRef& b) const;
  // An order in which the steps could be carried out one by one.
  const std::vector<StepRef>& sequence() const { return sequence_; }
  // For a receive its send, for a send its receive.
  StepRef PartnerOf(const StepRef& step) const { return partners_[Number(step)]; }

  // Eager frames that may wait at their receiver for other messages could use up the
  // credit that those messages need.
  absl::Status CheckCredit() const;
  // No rank has finished before every rank has begun.
  absl::Status CheckBarrier() const;

  const Step& At(const StepRef& ref) const { return plans_[ref.node].steps[ref.index]; }
  // "node 1: step 7 (send 4096 bytes to node 2, tag 3)"
  std::string Describe(const StepRef& ref) const;

 private:
  std::size_t Number(const StepRef& ref) const { return first_step_[ref.node] + ref.index; }
  std::size_t EventOf(const StepRef& ref, std::uint64_t chunk, Event event) const {
    return first_event_[Number(ref)] + static_cast<std::size_t>(chunk) * 3 +
           static_cast<std::size_t>(event);
  }
  std::uint64_t LastChunk(const StepRef& ref) const { return ChunkCount(At(ref).bytes) - 1; }
  template <typename Visitor>
  void ForEachStep(Visitor visitor) const {
    for (std::size_t node = 0; node < plans_.size(); ++node) {
      for (std::size_t i = 0; i < plans_[node].steps.size(); ++i) {
        visitor(StepRef{static_cast<std::uint16_t>(node), static_cast<std::uint32_t>(i)});
      }
    }
  }
  absl::Status Pair();
  absl::Status CheckPair(const StepRef& send, const StepRef& receive) const;
  void Link(std::size_t before, std::size_t after) { links_.emplace_back(after, before); }
  void LinkStep(const StepRef& ref);
  void LinkMessage(const StepRef& send);
  absl::Status Sort();
  bool Reaches(std::size_t before, std::size_t after) const;
  bool MayWaitForMessages(const StepRef& receive) const;

  std::span<const Plan> plans_;
  std::vector<std::size_t> first_step_;                     // By node.
  std::vector<std::size_t> first_event_;                    // By step of all nodes.
  std::vector<StepRef> partners_;                           // By step of all nodes.
  std::vector<std::pair<std::size_t, std::size_t>> links_;  // (event, one before it)
  std::vector<std::size_t> before_begin_;                   // By event: into links_, sorted.
  std::vector<std::size_t> position_;                       // By event: in a topological order.
  std::vector<StepRef> sequence_;
  std::vector<bool> waits_;  // By step: events that come from another node.
  mutable std::vector<std::uint32_t> visited_;
  mutable std::uint32_t visit_ = 0;
};

}  // namespace mlxcomm::collective
