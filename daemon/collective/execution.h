// Carries out one plan on this node: keeps, for each step, which chunks may start, which are under
// way and which are done, and asks for the next ones.
//
//   Begin ─▶ running ──all steps done, nothing under way──▶ finished
//                 └────────Abort────▶ aborting ─quiet─▶ (the owner completes the ranks)
//
// It does not know groups or the meaning of the operation. It gets credit, stash and work slots
// from its ExecutionHost.
//
// Owner: Group, reused for many operations. Thread: the loop's. Memory: vectors that keep their
// capacity, enough for kStepsUsual from the start; names buffers, never touches them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "daemon/collective/action.h"
#include "daemon/collective/plan.h"

namespace mlxcomm::collective {

// The cookie in the answer to a kSendData action: the execution, the step, and the end of the
// chunk's number, which is enough because fewer are under way at a time.
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

class ExecutionHost {
 public:
  virtual ~ExecutionHost() = default;
  virtual ActionQueue& actions() = 0;
  // One eager frame to `node` may be sent. False: the host calls
  // Execution::OnCredit(step) when it is this step's turn.
  virtual bool TakeCredit(std::uint16_t node, std::uint32_t execution, std::uint32_t step) = 0;
  // An eager frame from `node` could be used at once. True: it may come without
  // credit; the execution sends the grant.
  virtual bool Solicit(std::uint16_t node) = 0;
  virtual void Unsolicit() = 0;
  virtual void FreeStash(std::int32_t slot) = 0;
  virtual const std::byte* StashData(std::int32_t slot) const = 0;
  // A work slot, and the cookie under which OnLocalWorkDone will come back.
  virtual LocalWork& NewWork(std::uint32_t execution, std::uint32_t step, std::uint32_t chunk,
                             std::uint64_t& cookie) = 0;
};

class Execution {
 public:
  struct Buffers {
    const std::byte* input = nullptr;
    std::byte* output = nullptr;
  };
  struct Setting {
    std::uint32_t id = 0;  // The host's name for this execution.
    OperationKey key;
    Signature signature;
    const GroupLayout* layout = nullptr;
  };

  struct Traffic {
    std::uint64_t changes = 0;  // Counts messages without payload, and acknowledgements, too.
    std::uint64_t sent_bytes = 0;
    std::uint64_t received_bytes = 0;
  };

  explicit Execution(ExecutionHost& host);

  // The planner writes here; then call Begin. `buffers` by local rank; `scratch` has
  // plan().scratch_bytes, nullptr where that is 0.
  Plan& plan() { return plan_; }
  const Plan& plan() const { return plan_; }
  void Begin(const Setting& setting, const std::vector<Buffers>& buffers, std::byte* scratch);
  // As given to Begin; Take leaves nothing.
  std::byte* scratch() const { return scratch_; }
  const Traffic& traffic() const { return traffic_; }
  std::byte* TakeScratch() { return std::exchange(scratch_, nullptr); }

  enum class Fit : std::uint8_t {
    kFits,
    kMismatch,   // The ranks on the two nodes do not agree on the step's check.
    kViolation,  // It fits no step: the peer's fault.
  };
  [[nodiscard]] Fit OnGrant(std::uint16_t node, std::uint16_t tag);
  [[nodiscard]] Fit OnEager(std::uint16_t node, std::uint16_t tag, std::uint64_t bytes,
                            std::uint64_t check, std::int32_t stash);
  [[nodiscard]] Fit OnData(std::uint16_t node, std::uint16_t tag, std::uint64_t offset,
                           std::uint64_t bytes);
  // Whether a solicited frame may come for the step.
  bool HasSolicited(std::uint16_t node, std::uint16_t tag) const {
    const int index = FindStep(node, tag, /*receive=*/true);
    return index >= 0 && states_[static_cast<std::size_t>(index)].solicited;
  }
  // The node may have run out of credit: solicits the frames that could be used at once.
  void SolicitFrom(std::uint16_t node);
  void OnDataReleased(std::uint32_t step, std::uint8_t chunk);
  void OnLocalWorkDone(std::uint32_t step, std::uint32_t chunk);
  void OnCredit(std::uint32_t step);

  // Stops: no further chunk starts; sends and receives are withdrawn.
  void Abort();
  void OnWithdrawn(std::uint16_t node) { std::erase(withdrawals_, node); }
  // The fabric has released everything that concerned the node.
  void OnNodeLost(std::uint16_t node);
  // The same, where the node's ranks had left with all that they wanted: the sends that they did
  // not acknowledge have reached them.
  void OnReceiverLeft(std::uint16_t node);

  bool finished() const { return !aborted_ && steps_open_ == 0; }
  // Nothing outside touches the buffers any more.
  bool quiet() const { return under_way_ == 0 && withdrawals_.empty(); }
  bool aborted() const { return aborted_; }
  // The first node from which data or a grant is awaited; -1: none.
  int AwaitedNode() const;
  // Some step waits for what only another node's rank can do: send, or grant.
  bool NeedsPeer() const;

 private:
  // It is chance which of a group's executions an operation gets: none should have to grow late,
  // except the first time for a long ring all_reduce (plans/slices.h), whose plan is far longer.
  static constexpr std::size_t kStepsUsual = 64;

  struct StepState {
    std::uint32_t chunks = 1;
    std::uint32_t issued = 0;     // Started; chunks start in order.
    std::uint32_t done = 0;       // Finished without a gap.
    std::uint64_t done_mask = 0;  // Finished beyond the gap: bit i = chunk done + i.
    std::uint32_t under_way = 0;
    std::int32_t stash = -1;
    bool granted = false;  // Sends: the receiver has asked for it.
    bool posted = false;
    bool solicited = false;  // Eager receives: asked for, not come yet.
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
  std::uint32_t DivisorOf(const Step& step) const;
  int FindStep(std::uint16_t node, std::uint16_t tag, bool receive) const;
  std::uint32_t ReadyChunks(std::size_t index) const;
  void Advance(std::size_t index);
  void AdvanceLocal(std::size_t index, std::uint32_t ready);
  void AdvanceSend(std::size_t index, std::uint32_t ready);
  void AdvanceReceive(std::size_t index);
  void MarkDone(std::size_t index, std::uint32_t chunk);
  void IssueLocal(std::size_t index, std::uint32_t chunk);
  void IssueStashed(std::size_t index);
  void Dispatch(std::size_t index, const LocalWork& work, std::uint64_t cookie);
  Action& NewAction(Action::Kind kind, const Step& step);
  const std::byte* InputAt(const Place& place, std::int32_t local_rank) const;
  std::byte* OutputAt(const Place& place, std::int32_t local_rank) const;
  void CheckInvariants() const;

  ExecutionHost& host_;
  Setting setting_;
  std::uint64_t digest_ = 0;
  Plan plan_;
  std::vector<Buffers> buffers_;
  std::byte* scratch_ = nullptr;
  std::vector<StepState> states_;
  std::vector<TaggedStep> tagged_;          // Sends and receives, sorted by name.
  std::vector<std::uint32_t> unsolicited_;  // Eager receives that could use their frame now.
  // Successors of each step, packed: those of step i are
  // successors_[successor_begin_[i] .. successor_begin_[i + 1]).
  std::vector<std::uint32_t> successor_begin_;
  std::vector<std::uint32_t> successors_;
  std::vector<std::uint16_t> withdrawals_;  // Nodes whose OnWithdrawn is awaited.
  Traffic traffic_;
  std::size_t steps_open_ = 0;
  std::uint64_t under_way_ = 0;  // Local chunks and unreleased data frames.
  bool aborted_ = false;
};

}  // namespace mlxcomm::collective
