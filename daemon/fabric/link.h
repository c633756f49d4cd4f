// All that this daemon has with one node: the channel, the rail (one here), the receives
// that are posted, and what state they are in. The rail may be a connection, then the
// node is a neighbour, or a circuit through others; one may take over from the other
// as a connection may from the one before it.
//
//   kUp ──rail down──▶ kGrace ──rail back, same sessions──▶ kUp
//                         └──deadline, refused, other session──▶ kLost ──rail──▶ kUp
//
// Sessions. Each side tells its own session and the other's as it knows it. The
// channel goes on only if both pairs are the same; both sides see the same two pairs
// and so decide alike. A session that is given up is never told again.
//
// Owner: TcpFabric. Thread: engine; time is an argument. Memory: one entry for each
// posted receive, at most kWaitingMax commands that the rail has no place for yet,
// and the channel's.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "daemon/fabric/channel.h"
#include "daemon/fabric/fabric.h"
#include "daemon/fabric/growing_ring.h"
#include "daemon/fabric/rail.h"
#include "daemon/fabric/rail_path.h"
#include "daemon/fabric/received_ranges.h"

namespace mlxcomm::fabric {

// What neighbours tell each other about the ways to third nodes (wire/route.h).
class RoutingListener {
 public:
  virtual ~RoutingListener() = default;
  // Payload is valid only during the call.
  virtual void OnRouting(const NodeId& neighbour, const wire::FrameHeader& header,
                         std::span<const std::byte> payload, std::uint64_t now_ns) = 0;
};

class Link {
 public:
  enum class State : std::uint8_t { kLost, kUp, kGrace };
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};
  static constexpr std::size_t kRailsMax = 8;

  // `routing` may be null: then what neighbours tell of ways is dropped.
  Link(const FabricOptions& options, const NodeId& peer, FabricListener& listener,
       RoutingListener* routing = nullptr);

  State state() const { return state_; }
  bool reachable() const { return state_ != State::kLost; }
  const NodeIdentity& peer() const { return peer_; }
  bool has_rail() const { return rail_ != nullptr; }
  bool is_neighbour() const { return rail_ != nullptr && rail_->is_direct(); }
  std::size_t direct_rails() const { return is_neighbour() ? 1 : 0; }
  bool HasRailOver(const RailPath& path) const { return rail_ != nullptr && path_ == path; }

  // For our introduction. Only without a rail: RemoveRail first.
  struct Standing {
    std::uint64_t session = 0;
    std::uint64_t known_peer_session = 0;
    std::uint64_t next_expected = 0;
    friend bool operator==(const Standing&, const Standing&) = default;
  };
  Standing standing() const { return {session_, peer_session_, channel_.next_expected()}; }
  // Stops the rail and takes in everything that it has delivered.
  void RemoveRail(const RailPath& path, const std::string& why, DownCause cause,
                  std::uint64_t now_ns);
  void OnInterfaceDown(const std::string& interface, std::uint64_t now_ns);
  // A rail, not yet started, on which we have told `told` and read `theirs`. Goes on
  // with the channel, or begins anew.
  // ABORTED: the link has changed since it was told.
  absl::Status AddRail(std::unique_ptr<Rail> rail, const RailPath& path, const NodeIdentity& peer,
                       const wire::Introduction& theirs, const Standing& told,
                       std::uint64_t now_ns);
  void Lose(const absl::Status& why);
  // For the orderly end: hands what is queued to the rail and drops what comes; nobody
  // is told anything any more. True: there is nothing left to hand.
  bool HandTheRest();
  void FinishRails(bool direct) {
    if (rail_ != nullptr && is_neighbour() == direct) rail_->Finish();
  }
  void StopRails() {
    if (rail_ != nullptr) rail_->Stop();
  }
  bool PrepareToSleep() { return rail_ == nullptr || rail_->PrepareToSleep(); }
  void WakeUp() {
    if (rail_ != nullptr) rail_->WakeUp();
  }

  absl::Status Send(const wire::FrameHeader& header, const std::byte* payload,
                    std::uint64_t cookie);
  absl::Status PostReceive(const PostedReceive& receive);
  void Withdraw(const OperationKey& key);
  void Cancel(const OperationKey& key);

  std::size_t Poll(std::uint64_t now_ns);
  // Sends the acknowledgement that is due before the engine sleeps.
  void FlushAcknowledgement();
  // Something waits for the next Poll that no rail will ring for.
  bool HasWork() const {
    return !withdrawn_.empty() || !channel_.released().empty() || waiting_.size() > 0;
  }
  // Every heartbeat interval.
  void OnTick(std::uint64_t now_ns);
  // The grace period's end; kNever where none runs.
  std::uint64_t deadline_ns() const { return state_ == State::kGrace ? grace_end_ns_ : kNever; }
  void OnTime(std::uint64_t now_ns);
  bool lost_by_reset() const { return state_ == State::kGrace && grace_after_reset_; }
  const std::string& detail() const { return detail_; }
  LinkSnapshot Snapshot() const;

 private:
  using PostedKey = std::pair<OperationKey, std::uint16_t>;
  struct Posted {
    PostedReceive receive;
    ReceivedRanges received;
  };
  static constexpr std::size_t kWaitingMax = 65536;

  void RemoveIt(const std::string& why, DownCause cause, std::uint64_t now_ns);
  void Pump();
  void Give(const RailCommand& command);
  void GiveWaiting();
  void Deliver(RailEvent& event);
  bool OnFrame(RailEvent& event);
  bool OnData(const RailEvent& event);
  void OnViolation(const std::string& what);
  void DeliverReleased();
  void BeginAnew(const NodeIdentity& peer, const wire::Introduction& theirs);
  void GoOn();
  void EnterGrace(const std::string& why, bool reset, std::uint64_t now_ns);

  const FabricOptions& options_;
  FabricListener& listener_;
  RoutingListener* routing_;
  NodeIdentity peer_;
  State state_ = State::kLost;
  std::string detail_ = "not connected yet";
  std::uint64_t session_ = 0;
  std::uint64_t peer_session_ = 0;
  Channel channel_;
  std::unique_ptr<Rail> rail_;
  RailPath path_;
  std::uint64_t now_ns_ = 0;
  absl::flat_hash_map<PostedKey, Posted> posted_;
  GrowingRing<RailCommand> waiting_;           // In order, for a rail that is full.
  GrowingRing<OperationKey> being_withdrawn_;  // The rail will answer, in order.
  std::vector<OperationKey> withdrawn_;        // No rail is left: answered in the next Poll.
  std::uint64_t unacknowledged_frames_ = 0;
  std::uint64_t unacknowledged_bytes_ = 0;
  std::uint64_t grace_end_ns_ = 0;
  bool grace_after_reset_ = false;
  std::string grace_why_;
  std::uint64_t violations_ = 0;
  RailSnapshot last_snapshot_;
  std::uint64_t last_tick_ns_ = 0;
  double sent_rate_ = 0;
  double received_rate_ = 0;
};

}  // namespace mlxcomm::fabric
