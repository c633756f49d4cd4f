// Executes one plan on this node: tracks the chunks of each step and requests the next ones.
//
//   Begin ─▶ running ──all steps done, nothing under way──▶ finished
//                 └────────Abort────▶ aborting ─quiet─▶ (the owner completes the ranks)
//
// It knows neither groups nor the operation's meaning. Vectors keep their capacity.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "daemon/collective/action.h"
#include "daemon/collective/plan.h"

namespace mlxcomm::collective {

class Group;

// The execution, the step, and the low byte of the chunk's number, which is enough for the chunks
// under way.
inline constexpr std::uint64_t SendCookie(std::uint32_t execution, std::uint32_t step,
                                          std::uint32_t chunk) {
  return std::uint64_t{execution} << 40 | std::uint64_t{chunk & 0xff} << 32 | step;
}
inline constexpr std::uint32_t ExecutionOfCookie(std::uint64_t cookie) {
  return static_cast<std::uint32_t>(cookie >> 40);
}
inline constexpr std::uint8_t ChunkOfCookie(std::uint64_t cookie) {
  return static_cast<std::uint8_t>(cookie >> 32);
}
inline constexpr std::uint32_t StepOfCookie(std::uint64_t cookie) {
  return static_cast<std::uint32_t>(cookie);
}

class Execution {
 public:
  struct Buffers {
    const std::byte* input = nullptr;
    std::byte* output = nullptr;
  };
  struct Setting {
    std::uint32_t id = 0;  // The operation's.
    OperationKey key;
    Signature signature;
    const GroupLayout* layout = nullptr;
  };

  struct Traffic {
    std::uint64_t changes = 0;  // Includes messages without payload and acknowledgements.
    std::uint64_t sent_bytes = 0;
    std::uint64_t received_bytes = 0;
  };

  explicit Execution(Group& group);

  // Write the plan here, then call Begin. `buffers` by local rank; `scratch` has
  // plan().scratch_bytes.
  Plan& plan() { return plan_; }
  const Plan& plan() const { return plan_; }
  void Begin(const Setting& setting, const std::vector<Buffers>& buffers, std::byte* scratch);
  std::byte* scratch() const { return scratch_; }
  const Traffic& traffic() const { return traffic_; }
  std::byte* TakeScratch() { return std::exchange(scratch_, nullptr); }

  enum class Fit : std::uint8_t {
    kFits,
    kMismatch,   // The ranks on the two nodes do not agree on the step's check.
    kViolation,  // No step expects it: the peer's fault.
  };
  [[nodiscard]] Fit OnGrant(std::uint16_t node, std::uint16_t tag);
  [[nodiscard]] Fit OnEager(std::uint16_t node, std::uint16_t tag, std::uint64_t bytes,
                            std::uint64_t check, std::int32_t stash);
  [[nodiscard]] Fit OnData(std::uint16_t node, std::uint16_t tag, std::uint64_t offset,
                           std::uint64_t bytes);
  // Returns whether a solicited frame may arrive for the step.
  bool HasSolicited(std::uint16_t node, std::uint16_t tag) const {
    const int index = FindStep(node, tag, /*receive=*/true);
    return index >= 0 && states_[static_cast<std::size_t>(index)].solicited;
  }
  // The node may be out of credit: solicits the frames that could be used at once.
  void SolicitFrom(std::uint16_t node);
  void OnDataReleased(std::uint32_t step, std::uint8_t chunk);
  void OnLocalWorkDone(std::uint32_t step, std::uint32_t chunk);
  void OnCredit(std::uint32_t step);

  void Abort();
  void OnWithdrawn(std::uint16_t node) { std::erase(withdrawals_, node); }
  void OnNodeLost(std::uint16_t node);
  // The node's ranks left with all that they needed, so unacknowledged sends have reached them.
  void OnReceiverLeft(std::uint16_t node);

  bool finished() const { return !aborted_ && steps_open_ == 0; }
  // Nothing outside touches the buffers any more.
  bool quiet() const { return under_way_ == 0 && withdrawals_.empty(); }
  bool aborted() const { return aborted_; }
  // The first node whose data or grant is awaited; -1: none.
  int AwaitedNode() const;
  // Returns whether a step waits for a send or grant of another node's rank.
  bool NeedsPeer() const;

 private:
  // Reserved, because any of a group's executions may get an operation.
  static constexpr std::size_t kStepsUsual = 64;

  struct StepState {
    std::uint32_t chunks = 1;
    std::uint32_t issued = 0;     // Chunks start in order.
    std::uint32_t done = 0;       // Finished without a gap.
    std::uint64_t done_mask = 0;  // Finished after the gap: bit i = chunk done + i.
    std::uint32_t under_way = 0;
    std::int32_t stash = -1;
    bool granted = false;  // Sends: the receiver has requested it.
    bool posted = false;
    bool solicited = false;  // Eager receives: requested, not arrived.
    bool waits = false;      // Eager sends: for credit. Eager receives: in unsolicited_.
  };
  struct TaggedStep {
    std::uint64_t name = 0;  // NameOf(node, tag, receive).
    std::uint32_t index = 0;
  };

  static bool IsReceive(const Step& step) {
    return step.kind == StepKind::kReceive || step.kind == StepKind::kReduceReceived;
  }
  static std::uint64_t NameOf(std::uint16_t node, std::uint16_t tag, bool receive) {
    return std::uint64_t{node} << 17 | std::uint64_t{tag} << 1 | (receive ? 1 : 0);
  }
  void IndexSteps();
  void IndexSuccessors();
  void SetOperands(const Step& step, std::uint64_t offset, LocalWork& work) const;
  reduce::Reduction ReductionOf(const Step& step) const;
  int FindStep(std::uint16_t node, std::uint16_t tag, bool receive) const;
  std::uint32_t ReadyChunks(std::size_t index) const;
  void Advance(std::size_t index);
  void AdvanceLocal(std::size_t index, std::uint32_t ready);
  void AdvanceSend(std::size_t index, std::uint32_t ready);
  void AdvanceReceive(std::size_t index);
  void MarkDone(std::size_t index, std::uint32_t chunk);
  void IssueLocal(std::size_t index, std::uint32_t chunk);
  void IssueStashed(std::size_t index);
  // The operands follow.
  LocalWork& AddWork(std::size_t index, std::uint32_t chunk);
  Action& NewAction(Action::Kind kind, const Step& step);
  Action& NewFrame(wire::FrameType type, const Step& step);
  const std::byte* InputAt(const Place& place, std::int32_t local_rank) const;
  std::byte* OutputAt(const Place& place, std::int32_t local_rank) const;

  Group& group_;
  Setting setting_;
  wire::FrameHeader frame_;  // The fields that all frames share.
  Plan plan_;
  std::vector<Buffers> buffers_;
  std::byte* scratch_ = nullptr;
  std::vector<StepState> states_;
  std::vector<TaggedStep> tagged_;          // Sends and receives, sorted by name.
  std::vector<std::uint32_t> unsolicited_;  // Eager receives that could use their frame now.
  // Step i's successors are successors_[successor_begin_[i] .. successor_begin_[i + 1]).
  std::vector<std::uint32_t> successor_begin_;
  std::vector<std::uint32_t> successors_;
  std::vector<std::uint16_t> withdrawals_;  // Nodes with an outstanding OnWithdrawn.
  Traffic traffic_;
  std::size_t steps_open_ = 0;
  std::uint64_t under_way_ = 0;  // Local chunks and unreleased data frames.
  bool aborted_ = false;
};

}  // namespace mlxcomm::collective
