// One group on this node: matches its ranks' calls, drives the executions, and after a failure ends
// every operation with an error that names the culprit.
//
//   working ──Fail──▶ inquest ──closed──▶ failed: every operation ends when nothing touches its
//                                         buffers; later calls are answered at once
//
// Operations are recycled; a peer can make at most kEarlyMax that no local rank has called.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/collective/eager_stash.h"
#include "daemon/collective/group_layout.h"
#include "daemon/collective/in_flight.h"
#include "daemon/collective/inquest.h"
#include "daemon/collective/operation.h"
#include "daemon/collective/operation_observer.h"
#include "daemon/collective/roll_call.h"
#include "daemon/collective/scratch_memory.h"
#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::collective {

inline constexpr std::uint64_t kNever = ~std::uint64_t{0};

using IsStoppedCheck = std::function<bool(std::uint64_t pid)>;

// Leaves the rest of the report alone.
void Write(std::uint64_t group, const Failure& cause, v1::FailureReport& report);

struct RankActivity {
  v1::RankStatus status;  // Its oldest unfinished operation.
  bool gone = false;
  bool busy = false;
  std::vector<std::uint32_t> awaited;  // Ranks that it waits for.
  std::string circle;                  // See Wait.
};

class Group {
 public:
  Group(std::uint64_t id, std::string name, GroupLayout layout, const LinkCosts& costs,
        InFlight& in_flight, ScratchMemory& scratch, const CreditOptions& credit,
        ActionQueue& actions, std::uint64_t& alarm, OperationObserver* observer,
        const IsStoppedCheck& is_stopped);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  std::uint64_t id() const { return id_; }
  const std::string& name() const { return name_; }
  const GroupLayout& layout() const { return layout_; }
  const LinkCosts& costs() const { return costs_; }
  bool failed() const { return inquest_.open() || inquest_.closed(); }
  // Returns true once all nodes have reported their ranks' calls, or their time is up.
  bool has_verdict() const { return inquest_.closed(); }
  const Failure& failure() const { return inquest_.verdict(); }

  void Submit(const Call& call, std::uint64_t now_ns);
  // The local rank has called `called` collectives, of which it completed `met` directly with the
  // others.
  void OnMet(std::uint32_t rank, std::uint64_t called, std::uint64_t met);
  void Cancel(SessionId session, std::uint64_t ticket, std::uint64_t now_ns);
  // A local rank's process ended, or left in an orderly way.
  void OnLocalRankGone(std::uint32_t rank, const std::string& why, std::uint64_t now_ns);
  void OnLocalRankDetached(std::uint32_t rank, std::uint64_t now_ns);

  // These return false if the frame violates the protocol.
  [[nodiscard]] bool OnGrant(std::uint16_t node, const wire::FrameHeader& frame,
                             std::uint64_t now_ns);
  [[nodiscard]] bool OnEager(std::uint16_t node, const wire::FrameHeader& frame,
                             std::span<const std::byte> payload, std::uint64_t now_ns);
  [[nodiscard]] bool OnData(std::uint16_t node, const wire::FrameHeader& frame,
                            std::uint64_t now_ns);
  [[nodiscard]] bool OnCredit(std::uint16_t node, std::uint64_t frames);
  void OnReport(std::uint16_t node, const v1::FailureReport& report, std::uint64_t now_ns);
  void OnRollCall(std::uint16_t node, const v1::RollCall& message, std::uint64_t now_ns);
  void OnRemoteRankDetached(std::uint32_t rank, std::uint64_t collectives, std::uint64_t now_ns);
  void OnNodeLost(std::uint16_t node, const std::string& why, std::uint64_t now_ns);
  void OnWithdrawn(std::uint16_t node, const OperationKey& key, std::uint64_t now_ns);
  void OnDataReleased(Operation& operation, std::uint32_t step, std::uint8_t chunk);
  void OnLocalWorkDone(Operation& operation, std::uint32_t step, std::uint32_t chunk,
                       std::uint64_t now_ns);

  void Fail(const Failure& cause, const OperationKey& operation, std::uint64_t now_ns);
  void OnTime(std::uint64_t now_ns);
  std::uint64_t NextDeadline() const;  // kNever: none.

  // All local ranks are gone and nothing touches their buffers.
  bool over() const { return local_ranks_left_ == 0 && by_key_.size() == early_operations_; }
  // Its process ended, or it left; for ranks of other nodes: it left.
  bool RankIsGone(std::uint32_t rank) const;
  std::size_t stashed_frames() const { return stash_.held(); }
  bool UsesSession(SessionId session) const;
  // A send that its process stopped asking about is abandoned and is not a wait.
  std::vector<RankActivity> Activity(std::uint64_t now_ns) const;
  // "rank 1 (mac-b, pid 7), in all_reduce sum float32[4], operation 5 of group train"; empty: not
  // in flight. `circle`: "ranks 0, 1 wait for each other (0 for 1, 1 for 0)", once an earlier call
  // has found one.
  struct Wait {
    std::string text;
    std::string circle;
  };
  Wait DescribeWait(SessionId session, std::uint64_t ticket, std::uint64_t now_ns);

  // Called by its executions.
  ActionQueue& actions() { return actions_; }
  // Allows one eager frame to `node`. If it returns false, Execution::OnCredit(step) follows later.
  bool TakeCredit(std::uint16_t node, std::uint32_t execution, std::uint32_t step);
  // Returns whether an eager frame from `node` may arrive without credit; the execution then sends
  // the grant.
  bool Solicit(std::uint16_t node) { return stash_.Starved(node) && stash_.Solicit(); }
  void Unsolicit();
  void FreeStash(std::int32_t slot);
  const std::byte* StashData(std::int32_t slot) const { return stash_.Data(slot); }
  LocalWork& NewWork(std::uint32_t execution, std::uint32_t step, std::uint32_t chunk,
                     std::uint64_t& cookie);

 private:
  struct LocalRank {
    bool gone = false;
    std::uint64_t collectives = 0;  // Called.
    std::uint64_t operations_done = 0;
    std::uint64_t met = 0;  // Completed without this core.
  };
  struct RemoteRank {
    bool left = false;
    std::uint64_t collectives = 0;  // Called before it left.
  };
  static constexpr std::size_t kEarlyMax = 4096;
  // The time between two roll calls for one operation, if no other check comes sooner.
  static constexpr std::uint64_t kRollCallAgainNs = 60'000'000'000;
  // A process that waits for an operation asks about it every minute.
  static constexpr std::uint64_t kAskedWithinNs = 150'000'000'000;
  // Messages that wait for each other this long are a circle; by kHasAskedNs, a process that waits
  // has asked.
  static constexpr std::uint64_t kCircleNs = 900'000'000;
  static constexpr std::uint64_t kHasAskedNs = 3'000'000'000;
  // A node is answered at most once within this time.
  static constexpr std::uint64_t kRollCallMinNs = 100'000'000;

  // Returns what is wrong with the call, or "". Copies its table of counts.
  std::string TakeArguments(const Call& call);
  std::string TakeCounts(const Call& call);
  std::string CheckBuffers(const Call& call) const;
  bool SendsWhatIsExpected(const Operation& operation) const;
  OperationKey NextKey(const Call& call);
  // By key, so that runs repeat exactly.
  std::vector<Operation*> InOrder() const;
  void PutInOrder(std::vector<Operation*>& operations) const;
  Operation& FindOrAdd(const OperationKey& key);
  // nullptr if the operation is over, or if the group has failed because there are too many.
  Operation* FindForPeer(const wire::FrameHeader& frame, std::uint64_t now_ns);
  bool IsOver(const OperationKey& key) const;
  bool NodeTakesPart(std::uint16_t node, const OperationKey& key) const;
  void Start(Operation& operation, std::uint64_t now_ns);
  void Run(Operation& operation, std::uint64_t now_ns);
  // False if the group failed, or the frame is the peer's fault.
  [[nodiscard]] bool Accept(Operation& operation, Execution::Fit fit, std::uint64_t now_ns);
  std::int32_t Stash(std::uint16_t node, const wire::FrameHeader& frame,
                     std::span<const std::byte> payload, Operation& operation);
  void ReportFrame(const Operation& operation, std::uint16_t node);
  void ReportTraffic(Operation& operation);
  void FinishIfDone(Operation& operation);
  void Recycle(Operation& operation);
  void SolicitFrom(std::uint16_t node);
  void Answer(const Call& call, const Failure& failure, bool group_failed);
  void EndOperations();
  bool NeedsRank(const Operation& operation, std::uint32_t rank) const;
  bool FailIfRankHasLeft(const Operation& operation, std::uint64_t now_ns);
  void FailOperationsOfLeftRanks(std::uint64_t now_ns);
  void FinishSendsTo(std::uint16_t node);
  std::string ShownName() const;  // Used in messages.
  std::string LastCallOf(std::uint32_t rank) const;
  RankCalls CallsOf(const OperationKey& key) const;
  std::vector<std::uint32_t> AwaitedRanks(const Operation& operation) const;
  void SendToOthers(const std::shared_ptr<const v1::PeerMessage>& message);
  bool FailLate(std::uint64_t now_ns, bool& stalled);
  void BeginRollCall(std::uint64_t now_ns);
  void JudgeWaits(std::uint64_t now_ns);
  void FindCircles(std::uint64_t now_ns);
  std::string DescribeCircle(const RollCall::Verdict& verdict) const;
  std::string DescribeAwaited(const Operation& operation) const;
  RankWaits OwnWaits(std::uint64_t now_ns);
  static void NoteMoves(Operation& operation, std::uint64_t now_ns);
  const Operation* OldestOf(std::size_t local_index) const;

  std::uint64_t id_;
  std::string name_;
  GroupLayout layout_;
  LinkCosts costs_;
  InFlight& in_flight_;
  ScratchMemory& scratch_;
  ActionQueue& actions_;
  OperationObserver* observer_;  // May be nullptr.
  std::uint64_t& alarm_;         // The next deadline of all groups, or earlier.
  EagerStash stash_;
  std::size_t early_operations_ = 0;  // In by_key_, without a local call.
  bool solicit_again_ = false;        // The limit of solicited frames was reached.
  Inquest inquest_;
  RollCall roll_call_;
  const IsStoppedCheck& is_stopped_;
  std::uint64_t next_roll_call_ns_ = 0;
  std::vector<std::uint64_t> answered_ns_;  // The last answered roll call, by node.
  std::vector<LocalRank> local_;
  std::vector<RemoteRank> remote_;  // Indexed by rank; unused for local ones.
  std::size_t local_ranks_left_;
  absl::flat_hash_map<OperationKey, Operation*> by_key_;
  // Calls per (source, destination, tag), on this node's side.
  using Pair = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;
  absl::flat_hash_map<Pair, std::uint64_t> sends_;
  absl::flat_hash_map<Pair, std::uint64_t> receives_;
  std::vector<std::unique_ptr<Operation>> operations_;
  std::vector<Operation*> free_operations_;
  // Steps that wait for credit, in order of arrival; the first `served` have received it.
  struct CreditWaiter {
    std::uint32_t operation;
    std::uint32_t step;
  };
  struct CreditQueue {
    std::vector<CreditWaiter> waiters;
    std::size_t served = 0;
    bool serving = false;
  };
  std::vector<CreditQueue> credit_queues_;              // Indexed by node.
  std::vector<Operation*> soliciting_;                  // Scratch for SolicitFrom.
  std::vector<Execution::Buffers> buffers_;             // Scratch for Start.
  std::vector<std::uint64_t> counts_;                   // Scratch for Submit.
  std::vector<std::span<const std::uint64_t>> tables_;  // Scratch for Start.
};

}  // namespace mlxcomm::collective
