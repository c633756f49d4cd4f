// All that this daemon has with one node: the channel, the rails that carry it, the posted receives, and
// their state. A rail is either a connection, and then the node is a neighbour, or a circuit through other
// nodes. Rails come and go at any time; the channel continues over those that there are.
//
//   kUp ──no rail carries any more──▶ kGrace ──one does, same sessions──▶ kUp
//                             └──deadline, refused, other session──▶ kLost ──rail──▶ kUp
//
// README.md, Link, explains sessions, acknowledgements, and connections that are given up.
//
// Owner: Links. Thread: the loop's; time is an argument, and sessions are the options' random numbers.
// Memory: one entry for each posted receive, at most kWaitingMax commands for which a rail has no room
// yet, and what the channel and the arrival order have.
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

// What neighbours tell each other about routes to third nodes (wire/route.h).
class RoutingListener {
 public:
  virtual ~RoutingListener() = default;
  // Payload is valid only during the call.
  virtual void OnRouting(const NodeId& neighbour, const wire::FrameHeader& header,
                         std::span<const std::byte> payload, std::uint64_t now_ns) = 0;
};

// A neighbour says it of a side rail to be made (wire/rail_setup.h); payload is valid only during the call.
using OnRailSetup =
    std::function<void(const NodeId& neighbour, std::span<const std::byte> payload)>;

class Link {
 public:
  enum class State : std::uint8_t { kLost, kUp, kGrace };
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};
  static constexpr std::size_t kRailsMax = Channel::kRailsMax;

  // `routing` may be null and `on_rail_setup` empty: then what neighbours send for them is dropped.
  Link(const FabricOptions& options, const NodeId& peer, FabricListener& listener,
       RoutingListener* routing = nullptr, OnRailSetup on_rail_setup = {},
       EarlyBudget* early = nullptr);

  State state() const { return state_; }
  bool reachable() const { return state_ != State::kLost; }
  const NodeIdentity& peer() const { return peer_; }
  // That carries: a large frame has passed on it. Until then a rail is there and is given nothing.
  bool has_rail() const { return carrying_ > 0; }
  bool is_neighbour() const;
  // Also those that do not carry.
  std::size_t direct_rails() const { return direct_.size(); }
  // Since the link was made, however they went.
  std::uint64_t direct_rails_gone() const { return direct_rails_gone_; }
  bool HasRailOver(const rail::RailPath& path) const { return PlaceOf(path) != kNoRail; }
  // visitor(path, rail)
  template <typename Visitor>
  void ForEachConnection(Visitor visitor) const {
    for (const std::size_t at : direct_) visitor(rails_[at].path, *rails_[at].rail);
  }
  // visitor(rail), also of circuits
  template <typename Visitor>
  void ForEachRail(Visitor visitor) const {
    for (const std::size_t at : present_) visitor(std::as_const(*rails_[at].rail));
  }

  // For our introduction.
  struct Standing {
    std::uint64_t session = 0;
    std::uint64_t known_peer_session = 0;
    std::uint64_t next_expected = 0;  // An acknowledgement; no part of what is agreed.
    friend bool operator==(const Standing& a, const Standing& b) {
      return a.session == b.session && a.known_peer_session == b.known_peer_session;
    }
  };
  Standing standing() const { return {session_, peer_session_, arrivals_.received() + 1}; }
  // For our introduction after theirs: a peer that names our session, though it was never
  // agreed on, is known by the session that it states.
  Standing AnswerTo(const wire::Introduction& theirs) const;
  // The channel goes on with a peer that introduces itself so.
  bool GoesOnWith(const wire::Introduction& theirs) const {
    return reachable() && theirs.session == peer_session_ &&
           (theirs.known_peer_session == session_ || theirs.known_peer_session == 0);
  }
  // OK: a daemon of that incarnation may take the link. ABORTED: it is to come again, because another
  // one of this node may still live; with LinkReason::kSameId, that one does.
  absl::Status MayTake(std::uint64_t incarnation, const std::string& from, std::uint64_t now_ns);
  // Stops the rail and takes in everything that it has delivered. Nothing if there is none.
  void RemoveRail(const rail::RailPath& path, const rail::RailEnd& end, std::uint64_t now_ns);
  // A local interface is gone or has no carrier: so are the rails over it.
  void OnInterfaceDown(const std::string& interface, std::uint64_t now_ns);
  // One is back, and is dialed: a system needs a second to find its neighbours again.
  void OnInterfaceUp(std::uint64_t now_ns);
  // A rail, not yet started, on which we have sent `told` and read `theirs`. Goes on
  // with the channel, or begins again.
  // ABORTED: the sessions have changed since we sent them, or there is a rail over that
  // path, or a connection where a circuit is offered.
  // RESOURCE_EXHAUSTED: there are as many rails as a link may have.
  absl::Status AddRail(std::unique_ptr<rail::Rail> rail, const rail::RailPath& path,
                       const NodeIdentity& peer, const wire::Introduction& theirs,
                       const Standing& reported, std::uint64_t now_ns);
  // One more, not yet started, without introductions: both sides have agreed on it over the
  // channel, so that goes on. ABORTED: there is no channel any more, or a rail over that path.
  absl::Status AddRailBeside(std::unique_ptr<rail::Rail> rail, const rail::RailPath& path,
                             std::uint64_t now_ns);
  static absl::Status TooManyRails();
  void Lose(const absl::Status& why);
  // A job has ranks there: its rails get what only large data needs, from now until it is lost.
  void Prepare();
  // For the orderly end: hands what is queued to the rails and drops what comes;
  // nothing is reported any more. True: there is nothing left to hand.
  bool HandTheRest();
  // As Rail::Finish and Rail::Stop, for all that are connections, or all that are not.
  void FinishRails(bool direct);
  void StopRails();

  absl::Status Send(const wire::FrameHeader& header, const std::byte* payload,
                    std::uint64_t cookie);
  absl::Status PostReceive(const rail::PostedReceive& receive);
  void Withdraw(const OperationKey& key);
  void Cancel(const OperationKey& key);

  std::size_t Poll(std::uint64_t now_ns);
  // Announces the sleep to all rails. False: something has come; nothing is announced then.
  bool PrepareToSleep();
  void WakeUp();
  // Sends the acknowledgement that is due.
  void FlushAcknowledgement();
  // As that, if the other side waits for it; else the next frame carries it, or a tick.
  void AcknowledgeBeforeSleep();
  // Something waits for the next Poll that no rail will ring for.
  bool HasWork() const {
    return !withdrawn_.empty() || !channel_.released().empty() || HasWaiting();
  }
  // Every heartbeat interval or two: asks each rail for a sign of life. True: one was not asked,
  // because the other side has just asked by itself.
  bool OnTick(std::uint64_t now_ns);
  // A tick comes late by this much: this process did not run meanwhile, and heard nothing. So no rail is
  // given up before the other side had a heartbeat interval to answer in, and a grace period ends so
  // much later, and no sooner than that.
  void OnPause(std::uint64_t late_ns, std::uint64_t now_ns);
  // Signs of life on new rails alone, soon after each other: the least of several round trips
  // tells a way's latency, the first one how busy a machine is that begins.
  void AskNewRails(std::uint64_t now_ns);
  bool has_new_rail() const;
  // On each of its rails.
  bool HasHeardAllSince(std::uint64_t since_ns) const;
  // The grace period's end, or when frames have to be looked after; kNever: neither. May
  // come nearer with every call; look when about to sleep.
  std::uint64_t deadline_ns() const;
  // True: what had grown with the frames of a node that was lost has been freed.
  bool OnTime(std::uint64_t now_ns);
  bool prepared() const { return prepared_; }
  bool lost_by_reset() const { return state_ == State::kGrace && grace_after_reset_; }
  const std::string& detail() const { return detail_; }
  const std::string& down_why() const { return state_ == State::kGrace ? grace_why_ : detail_; }
  LinkReason reason() const { return reason_; }
  void Describe(v1::LinkStatus& status) const;
  // What is kept here, for bounds.
  const Channel& channel() const { return channel_; }
  const ArrivalOrder& arrivals() const { return arrivals_; }
  std::size_t posted_receives() const { return posted_.size(); }

 private:
  static constexpr std::size_t kWaitingMax = 65536;
  static constexpr std::size_t kNoRail = kRailsMax;
  // Beyond these the oldest is closed early: it has been silent for as long as it takes to lose
  // that many rails one after the other, so the other side has long given it up.
  static constexpr std::size_t kKeptMax = kRailsMax;
  using PostedKey = std::pair<OperationKey, std::uint16_t>;
  struct Posted {
    rail::PostedReceive receive;
    ReceivedRanges received;
    rail::ReceiveBudget* budget = nullptr;
    rail::ReceiveBudget::Share share;
    bool on_several = false;  // More than one rail knows of it.
  };
  static constexpr std::uint32_t kAskedMin = 8;  // Until a rail is no longer new.
  // In a row, because both sides have to know the round trip.
  static constexpr std::uint32_t kNotAskedMax = 3;
  // How much longer a way through other nodes may be silent than a connection: signs of life on it
  // wait behind the data of the cables. The neighbours of a node that has gone end it before.
  static constexpr std::uint64_t kWaysSilence = 8;
  static constexpr double kQuiet = 4096;  // Bytes a second.
  struct OnRail {
    std::unique_ptr<rail::Rail> rail;
    rail::RailPath path;
    rail::GrowingRing<rail::RailCommand> waiting;  // In order, where the rail is full.
    std::uint64_t withdrawals_taken = 0;  // Of first_withdrawal_ and on: those it has answered.
    bool resumed = false;                 // It went on with a channel.
    bool carries = false;                 // The channel has it.
    bool delivered = false;
    std::uint64_t heard_at_start_ns = 0;  // What it said of itself before anything had come.
    std::uint64_t since_ns = 0;
    rail::RailFigures last_figures;
    std::uint64_t last_tick_ns = 0;
    std::uint64_t silent_from_ns = 0;  // It is not found silent before it.
    std::uint64_t paused_ns = 0;       // This daemon's first pause since it was heard.
    std::uint32_t asked = 0;           // How often for a sign of life, up to kAskedMin.
    std::uint32_t not_asked = 0;       // In how many ticks, up to now.
    double sent_rate = 0;
    double received_rate = 0;
  };
  // Of a rail that was given up, and when.
  struct Kept {
    std::shared_ptr<void> end;
    std::uint64_t since_ns = 0;
  };
  // What has come since the last acknowledgement.
  struct Unacknowledged {
    std::uint64_t frames = 0;
    std::uint64_t bytes = 0;
    std::uint64_t since_ns = 0;  // Where there are any.
    bool has_data = false;       // Memory that the other side could hand back.
  };
  // Answered once every rail that it was given to has answered, or has gone.
  struct Withdrawal {
    OperationKey key;
    std::uint32_t rails = 0;
  };

  // link.cc: the way of frames.
  void Pump();
  void LookAtHeld();
  void Give(std::size_t at, const rail::RailCommand& command);
  void GiveWaiting();
  bool HasWaiting() const { return waiting_count_ > 0; }
  void GiveAcknowledgement(std::size_t at);
  bool SaysForSure(std::size_t at) const;
  std::size_t PollRail(std::size_t at, std::uint64_t now_ns);
  void Deliver(std::size_t at, rail::RailEvent& event);
  void TakeAbandoned(const rail::RailEvent& event);
  void CountChanged(std::size_t at);
  void OnDown(std::size_t at, const rail::RailEvent& event, std::uint64_t now_ns);
  bool OnFrame(rail::RailEvent& event);
  bool OnAcknowledgement(const wire::FrameHeader& header);
  bool OnNumbered(rail::RailEvent& event);
  bool OnData(const rail::RailEvent& event);
  void Report(const wire::FrameHeader& header, std::span<const std::byte> payload);
  void ReportWhatIsDue();
  void OnViolation(const std::string& what);
  void DeliverReleased();
  void Answered(std::size_t at);
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
  void AskThoseBeside(const rail::RailEnd& end, std::uint64_t now_ns);
  void RemoveTheSilent(std::uint64_t now_ns);
  void DropOlderCircuits(std::size_t newest, std::uint64_t now_ns);
  void RemoveRailAt(std::size_t at, const rail::RailEnd& end, std::uint64_t now_ns);
  void ReportRail(std::size_t at, FabricNotice::Kind kind, const std::string& why);
  void DropRail(std::size_t at);
  void Open(std::size_t at);
  void OpenAndReport(std::size_t at, std::uint64_t now_ns);
  bool LookForLarge(std::uint64_t now_ns);
  bool IsSmallOnly(const OnRail& on, std::uint64_t now_ns) const;
  bool MayCarry(std::uint64_t now_ns) const;
  void OnSmallOnlyGone(const OnRail& on, std::uint64_t now_ns);
  bool GivesTimeForLarge(std::uint64_t now_ns);
  void EndGrace(std::uint64_t now_ns);
  void OnConnectionInGrace(std::uint64_t now_ns);
  void StayInGrace(const rail::RailEnd& end, std::uint64_t now_ns);
  void StartOver(const NodeIdentity& peer, const wire::Introduction& theirs);
  void ForgetChannel();
  void GiveBackMemory();
  void EnterGrace(const rail::RailEnd& end, std::uint64_t now_ns);
  void AskForSign(std::size_t at, std::uint64_t now_ns);
  void GiveSignOfLife(std::size_t at, std::uint64_t now_ns, bool padded = false);
  bool MayStayUnasked(const OnRail& on, std::uint64_t now_ns) const;
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
  std::array<OnRail, kRailsMax> rails_;  // After what they use.
  std::vector<Kept> kept_;               // Oldest first.
  RailSet present_;                      // Of rails_: those that are there,
  RailSet direct_;                       // and of them those that are no circuits.
  std::size_t carrying_ = 0;             // Of those that are there.
  std::uint64_t direct_rails_gone_ = 0;
  std::size_t delivered_last_ = kNoRail;
  std::size_t waiting_count_ = 0;
  absl::flat_hash_map<PostedKey, Posted> posted_;
  rail::GrowingRing<Withdrawal> withdrawals_;     // Rails will answer, in order.
  std::uint64_t first_withdrawal_ = 0;            // The number of the first of them.
  std::vector<OperationKey> withdrawn_;           // Answered in the next Poll.
  std::vector<OperationKey> reported_withdrawn_;  // Kept for its memory.
  AskedFrames asked_;
  Unacknowledged unacknowledged_;
  bool acknowledge_now_ = false;
  std::uint64_t now_ns_ = 0;  // Of the last call that told it.
  std::uint64_t grace_end_ns_ = 0;
  // The first of this daemon's own pauses in this grace; 0: none.
  std::uint64_t grace_paused_ns_ = 0;
  // Side rails whose last connection was closed: since when, and until when they may be silent.
  std::uint64_t asked_since_ns_ = 0;
  std::uint64_t asked_until_ns_ = kNever;
  std::string asked_why_;
  bool prepared_ = false;
  bool has_grown_ = false;  // What it had when it was lost is still to be given back.
  bool grace_after_reset_ = false;
  std::uint64_t grace_began_ns_ = 0;
  std::uint64_t grace_limit_ns_ = 0;  // It is not extended beyond.
  std::string grace_why_;
  std::uint64_t violations_ = 0;
  LargeFrames large_;
  std::uint64_t gap_after_ = 0;       // The last frame before it, at the last tick;
  std::uint64_t gap_ticks_ = 0;       // and for how many it has been waited for.
  std::uint64_t changed_frames_ = 0;  // Found here, or told by the other side.
  rail::RailPath last_path_;          // Of the connection that ended last.
  std::uint64_t changed_ns_ = 0;      // When the last of them was.
  std::string changed_on_;
};

}  // namespace mlxcomm::link
