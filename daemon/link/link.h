// The connection to one node: the channel, its rails, the posted receives, and their state. A rail
// is either a connection, which makes the node a neighbour, or a circuit through other nodes. Rails
// come and go at any time; the channel continues over the rest.
//
//   kUp ──no rail carries──▶ kGrace ──one does, same sessions──▶ kUp
//                             └──deadline, refused, other session──▶ kLost ──rail──▶ kUp
//
// README.md, Link, explains sessions, acknowledgements and dropped connections.
//
// Memory: one entry per posted receive, at most kWaitingMax commands for full rails, and the
// channel.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "daemon/link/arrival_order.h"
#include "daemon/link/asked_frames.h"
#include "daemon/link/channel.h"
#include "daemon/link/fabric_listener.h"
#include "daemon/link/id_claims.h"
#include "daemon/link/large_frames.h"
#include "daemon/link/rail_set.h"
#include "daemon/link/received_ranges.h"
#include "daemon/rail/arrival_claims.h"
#include "daemon/rail/growing_ring.h"
#include "daemon/rail/rail.h"
#include "daemon/rail/rail_path.h"
#include "daemon/rail/receive_budget.h"

namespace mlxcomm::v1 {
class LinkStatus;
}

namespace mlxcomm::link {

// Frames about routes to third nodes (wire/route.h); payload is valid only during the call.
class RoutingListener {
 public:
  virtual ~RoutingListener() = default;
  virtual void OnRouting(const NodeId& neighbour, const wire::FrameHeader& header,
                         std::span<const std::byte> payload, std::uint64_t now_ns) = 0;
};

// A neighbour proposes a side rail (fabric/side_rails.h); payload is valid only during the call.
using OnRailSetup =
    std::function<void(const NodeId& neighbour, std::span<const std::byte> payload)>;

class Link {
 public:
  enum class State : std::uint8_t { kLost, kUp, kGrace };
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};
  static constexpr std::size_t kRailsMax = Channel::kRailsMax;

  // `routing` may be null and `on_rail_setup` empty; their frames are then dropped.
  Link(const FabricOptions& options, const NodeId& peer, FabricListener& listener,
       RoutingListener* routing = nullptr, OnRailSetup on_rail_setup = {},
       EarlyBudget* early = nullptr);

  State state() const { return state_; }
  bool reachable() const { return state_ != State::kLost; }
  const NodeIdentity& peer() const { return peer_; }
  // Returns whether a rail carries: a large frame has passed on it.
  bool has_rail() const { return carrying_ > 0; }
  bool is_neighbour() const;
  std::size_t direct_rails() const { return direct_.size(); }
  // Counts all that ended since the link was made.
  std::uint64_t direct_rails_gone() const { return direct_rails_gone_; }
  bool HasRailOver(const rail::RailPath& path) const { return PlaceOf(path) != kNoRail; }
  // visitor(path, rail)
  template <typename Visitor>
  void ForEachConnection(Visitor visitor) const {
    for (const std::size_t at : direct_) visitor(rails_[at].path, *rails_[at].rail);
  }
  // visitor(rail), including circuits
  template <typename Visitor>
  void ForEachRail(Visitor visitor) const {
    for (const std::size_t at : present_) visitor(std::as_const(*rails_[at].rail));
  }

  struct Standing {  // The contents of our introduction.
    std::uint64_t session = 0;
    std::uint64_t known_peer_session = 0;
    std::uint64_t next_expected = 0;  // An acknowledgement, not part of the agreement.
    friend bool operator==(const Standing& a, const Standing& b) {
      return a.session == b.session && a.known_peer_session == b.known_peer_session;
    }
  };
  Standing standing() const { return {session_, peer_session_, arrivals_.received() + 1}; }
  // Returns our introduction in reply to theirs. A peer that names our session, though it was never
  // agreed on, is known by the session that it announces.
  Standing AnswerTo(const wire::Introduction& theirs) const;
  // Returns whether the channel continues with a peer that introduces itself like this.
  bool ContinuesWith(const wire::Introduction& theirs) const {
    return reachable() && theirs.session == peer_session_ &&
           (theirs.known_peer_session == session_ || theirs.known_peer_session == 0);
  }
  // Returns OK if that daemon may take the link. ABORTED: it must retry, because another daemon of
  // this node may live; with LinkReason::kSameId, one does.
  absl::Status MayTake(std::uint64_t incarnation, const std::string& from, std::uint64_t now_ns);
  // Stops the rail, if there is one, and handles everything that it has delivered.
  void RemoveRail(const rail::RailPath& path, const rail::RailEnd& end, std::uint64_t now_ns);
  // A local interface is gone or has no carrier; its rails end.
  void OnInterfaceDown(const std::string& interface, std::uint64_t now_ns);
  // An interface is back and is dialed. A system needs a second to find its neighbours again.
  void OnInterfaceUp(std::uint64_t now_ns);
  // Adds a rail, not yet started, on which we sent `reported` and read `theirs`. Continues the
  // channel or starts a new one. ABORTED: the sessions have changed since, or there is a rail over
  // that path, or the rail is a circuit and there is a connection. RESOURCE_EXHAUSTED: the link has
  // kRailsMax rails.
  absl::Status AddRail(std::unique_ptr<rail::Rail> rail, const rail::RailPath& path,
                       const NodeIdentity& peer, const wire::Introduction& theirs,
                       const Standing& reported, std::uint64_t now_ns);
  // Adds a side rail that both sides agreed on. ABORTED: the channel has ended, or the path has a
  // rail.
  absl::Status AddSideRail(std::unique_ptr<rail::Rail> rail, const rail::RailPath& path,
                           std::uint64_t now_ns);
  static absl::Status TooManyRails();
  // Frees all frames, so not from a callback about one of them.
  void Lose(const absl::Status& why);
  // A job has ranks there: its rails prepare for large data until the link is lost.
  void Prepare();
  // Shuts down: sends what is queued and drops what arrives. Returns whether nothing is left to
  // send.
  bool SendRemaining();
  // Rail::Finish for all connections, or for all circuits.
  void FinishRails(bool direct);
  void StopRails();

  absl::Status Send(const wire::FrameHeader& header, const std::byte* payload,
                    std::uint64_t cookie);
  absl::Status PostReceive(const rail::PostedReceive& receive);
  void Withdraw(const OperationKey& key);
  void Cancel(const OperationKey& key);

  std::size_t Poll(std::uint64_t now_ns);
  // Returns false, announcing nothing, if something has arrived.
  bool PrepareToSleep();
  void WakeUp();
  void FlushAcknowledgement();
  // Sends an acknowledgement only if the peer waits for it; otherwise the next frame or tick
  // carries it.
  void AcknowledgeBeforeSleep();
  // Returns whether the next Poll has work that no rail will wake the loop for.
  bool HasWork() const {
    return !withdrawn_.empty() || !channel_.released().empty() || HasWaiting();
  }
  // Every heartbeat interval or two.
  void OnTick(std::uint64_t now_ns);
  // This process did not run for late_ns: peers get time to answer, and a grace period is extended.
  void OnPause(std::uint64_t late_ns, std::uint64_t now_ns);
  // Heartbeats on new rails in short succession: the minimum of several round trips shows the
  // latency.
  void PingNewRails(std::uint64_t now_ns);
  bool has_new_rail() const;
  bool HasHeardAllSince(std::uint64_t since_ns) const;
  // When frames need attention, or the grace period ends. May move closer with every call.
  std::uint64_t deadline_ns() const;
  // Returns whether memory of a lost node's frames was freed.
  bool OnTime(std::uint64_t now_ns);
  bool lost_by_reset() const { return state_ == State::kGrace && grace_after_reset_; }
  const std::string& down_why() const { return state_ == State::kGrace ? grace_why_ : detail_; }
  void Describe(v1::LinkStatus& status) const;
  const Channel& channel() const { return channel_; }
  const ArrivalOrder& arrivals() const { return arrivals_; }
  std::size_t posted_receives() const { return posted_.size(); }

 private:
  static constexpr std::size_t kWaitingMax = 65536;
  static constexpr std::size_t kNoRail = kRailsMax;
  // Losing more than this many rails takes so long that the peer has dropped the oldest, too.
  static constexpr std::size_t kKeptMax = kRailsMax;
  using PostedKey = std::pair<OperationKey, std::uint16_t>;
  struct Posted {
    rail::PostedReceive receive;
    ReceivedRanges received;
    rail::ReceiveBudget* budget = nullptr;
    rail::ReceiveBudget::Share share;
    bool on_several = false;  // More than one rail has it.
  };
  static constexpr std::uint32_t kHeartbeatsMin = 8;  // Heartbeats until a rail is no longer new.
  // Circuits may be silent longer: their heartbeats queue on each hop, and dead nodes' neighbours
  // end them.
  static constexpr std::uint64_t kCircuitSilence = 8;
  static constexpr double kQuiet = 4096;  // Bytes a second.
  struct OnRail {
    std::unique_ptr<rail::Rail> rail;
    rail::RailPath path;
    rail::GrowingRing<rail::RailCommand> waiting;  // For a full rail, in order.
    std::uint64_t withdrawals_taken = 0;           // Answered, counted like first_withdrawal_.
    bool resumed = false;                          // It continued a channel.
    bool carries = false;                          // The channel uses it.
    bool delivered = false;
    std::uint64_t heard_at_start_ns = 0;  // Its receive time before anything arrived.
    std::uint64_t since_ns = 0;
    rail::RailFigures last_figures;
    std::uint64_t last_tick_ns = 0;
    std::uint64_t silent_from_ns = 0;  // It does not count as silent earlier.
    std::uint64_t paused_ns = 0;       // This daemon's first pause since it was heard.
    std::uint32_t asked = 0;           // Heartbeats, up to kHeartbeatsMin.
    double sent_rate = 0;
    double received_rate = 0;
  };
  struct Kept {  // The socket of a dropped rail.
    std::shared_ptr<void> end;
    std::uint64_t since_ns = 0;
  };
  struct Unacknowledged {
    std::uint64_t frames = 0;
    std::uint64_t bytes = 0;
    std::uint64_t since_ns = 0;
    bool has_data = false;  // The peer can release memory once it is acknowledged.
  };
  struct Withdrawal {
    OperationKey key;
    std::uint32_t rails = 0;  // Yet to answer.
  };

  // link.cc: frames.
  void Pump();
  void UpdateHeld();
  void Give(std::size_t at, const rail::RailCommand& command);
  void GiveWaiting();
  bool HasWaiting() const { return waiting_count_ > 0; }
  void SendAcknowledgement(std::size_t at);
  bool AcknowledgesReliably(std::size_t at) const;
  std::size_t PollRail(std::size_t at, std::uint64_t now_ns);
  void Deliver(std::size_t at, rail::RailEvent& event);
  void RequestAbandoned(const rail::RailEvent& event);
  void CountChanged(std::size_t at);
  void OnDown(std::size_t at, const rail::RailEvent& event, std::uint64_t now_ns);
  bool OnFrame(rail::RailEvent& event);
  bool OnAcknowledgement(const wire::FrameHeader& header);
  bool OnNumbered(rail::RailEvent& event);
  bool OnData(const rail::RailEvent& event);
  void Report(const wire::FrameHeader& header, std::span<const std::byte> payload);
  void ReportDue();
  void OnViolation(const std::string& what);
  void DeliverReleased();
  void OnWithdrawAnswered(std::size_t at);
  rail::ReceiveBudget* TakeBudget();
  void GiveBackBudget(Posted& posted);

  // link_state.cc and link_grace.cc: rails come and go.
  std::size_t PlaceOf(const rail::RailPath& path) const;
  bool Holds(const Standing& reported, const wire::Introduction& theirs) const;
  absl::Status MayAdd(const rail::Rail& rail, const rail::RailPath& path,
                      const wire::Introduction& theirs, const Standing& reported) const;
  void TakeRail(std::size_t at, std::unique_ptr<rail::Rail> rail, const rail::RailPath& path,
                bool resumed, std::uint64_t heard_at_start_ns, std::uint64_t now_ns);
  bool HasHeard(const OnRail& on, std::uint64_t since_ns) const;
  void KeepEndOf(std::size_t at, std::uint64_t now_ns);
  void CloseKept();
  void PingSideRails(const rail::RailEnd& end, std::uint64_t now_ns);
  void RemoveSilentSideRails(std::uint64_t now_ns);
  void DropOlderCircuits(std::size_t newest, std::uint64_t now_ns);
  void RemoveRailAt(std::size_t at, const rail::RailEnd& end, std::uint64_t now_ns);
  void ReportRail(std::size_t at, FabricNotice::Kind kind, const std::string& why);
  void DropRail(std::size_t at);
  void Open(std::size_t at);
  void OpenAndReport(std::size_t at, std::uint64_t now_ns);
  bool OpenProvenRails(std::uint64_t now_ns);
  bool IsSmallOnly(const OnRail& on, std::uint64_t now_ns) const;
  bool MayCarry(std::uint64_t now_ns) const;
  void OnSmallOnlyEnded(const OnRail& on, std::uint64_t now_ns);
  bool ExtendGraceForLarge(std::uint64_t now_ns);
  void EndGrace(std::uint64_t now_ns);
  void ExtendGrace(std::uint64_t now_ns, std::uint64_t by_ns);
  void OnConnectionInGrace(std::uint64_t now_ns);
  void StayInGrace(const rail::RailEnd& end, std::uint64_t now_ns);
  void StartOver(const NodeIdentity& peer, const wire::Introduction& theirs);
  void ForgetChannel();
  void EnterGrace(const rail::RailEnd& end, std::uint64_t now_ns);
  void RequestHeartbeat(std::size_t at, std::uint64_t now_ns);
  void SendHeartbeat(std::size_t at, std::uint64_t now_ns, bool padded = false);
  static bool IsNew(const OnRail& on);
  void TickRail(std::size_t at, std::uint64_t now_ns);
  bool FindGap(std::size_t at, std::uint64_t now_ns);
  bool IsSilent(const OnRail& on, std::uint64_t now_ns) const;
  void DescribeRail(std::size_t at, v1::RailStatus& status) const;

  const FabricOptions& options_;
  FabricListener& listener_;
  RoutingListener* routing_;
  const OnRailSetup on_rail_setup_;
  NodeIdentity peer_;
  IdClaims id_claims_;
  State state_ = State::kLost;
  std::string detail_ = "not connected yet";
  LinkReason reason_ = LinkReason::kNone;  // Why it is not up.
  std::uint64_t session_ = 0;
  std::uint64_t peer_session_ = 0;
  rail::ArrivalClaims claims_;
  std::list<rail::ReceiveBudget> budgets_;
  std::vector<rail::ReceiveBudget*> free_budgets_;
  Channel channel_;
  ArrivalOrder arrivals_;
  std::array<OnRail, kRailsMax> rails_;  // Destroyed before what they use.
  std::vector<Kept> kept_;               // Oldest first.
  RailSet present_;                      // All rails,
  RailSet direct_;                       // and those that are connections.
  std::size_t carrying_ = 0;
  std::uint64_t direct_rails_gone_ = 0;
  std::size_t delivered_last_ = kNoRail;
  std::size_t waiting_count_ = 0;
  absl::flat_hash_map<PostedKey, Posted> posted_;
  rail::GrowingRing<Withdrawal> withdrawals_;     // Kept in the order of answers.
  std::uint64_t first_withdrawal_ = 0;            // The number of the first.
  std::vector<OperationKey> withdrawn_;           // Reported by the next Poll.
  std::vector<OperationKey> reported_withdrawn_;  // Kept for its memory.
  AskedFrames asked_;
  Unacknowledged unacknowledged_;
  bool acknowledge_now_ = false;
  std::uint64_t now_ns_ = 0;  // Set by the last call with a time.
  std::uint64_t grace_end_ns_ = 0;
  // This daemon's first pause in this grace; 0: none.
  std::uint64_t grace_paused_ns_ = 0;
  // Side rails whose last connection was closed: when they were asked, and when they must have
  // answered.
  std::uint64_t asked_since_ns_ = 0;
  std::uint64_t asked_until_ns_ = kNever;
  std::string asked_why_;
  bool prepared_ = false;
  bool freed_ = false;  // Memory was freed since the last OnTime.
  bool grace_after_reset_ = false;
  std::uint64_t grace_began_ns_ = 0;
  std::uint64_t grace_due_ns_ = 0;  // Its end before it was extended.
  std::string grace_why_;
  std::uint64_t violations_ = 0;
  LargeFrames large_;
  std::uint64_t gap_after_ = 0;       // The last frame before the gap at the last tick,
  std::uint64_t gap_ticks_ = 0;       // and the number of ticks that it has lasted.
  std::uint64_t changed_frames_ = 0;  // Found here, or reported by the peer.
  rail::RailPath last_path_;          // The connection that ended last.
  std::uint64_t changed_ns_ = 0;      // The last change.
  std::string changed_on_;
};

}  // namespace mlxcomm::link
