// Between the collective core and whatever moves frames: carries out the core's actions,
// and turns what peers send into its events.
//
//   Collectives ──actions──▶ ActionCarrier ──frames, receives──▶ CarrierPort: fabric
//        ▲                        │  ▲      ──local work───────▶              workers
//        └────────events──────────┘  │      ──completions──────▶              intake
//                 frames, messages of peers, answers
//
// Without I/O and threads, and time is an argument: the engine runs it on real rails, the
// simulator hundreds of it in virtual time.
//
// Owner: Engine. Thread: its owner's; combining what is received on a rail's thread.
// Memory: one action queue that is reused; messages between daemons are rare and allocate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "daemon/collective/collectives.h"
#include "daemon/collective/membership.h"
#include "daemon/fabric/fabric.h"
#include "mlxcomm/v1/peer.pb.h"

namespace mlxcomm {

// What the carrier needs of the daemon. The first five are as Fabric has them.
class CarrierPort {
 public:
  virtual ~CarrierPort() = default;
  virtual bool IsReachable(const NodeId& node) const = 0;
  virtual absl::Status SendFrame(const NodeId& node, const wire::FrameHeader& header,
                                 const std::byte* payload, std::uint64_t cookie) = 0;
  virtual absl::Status PostReceive(const NodeId& node, const fabric::PostedReceive& receive) = 0;
  virtual void Withdraw(const NodeId& node, const OperationKey& key) = 0;
  virtual void CancelFrames(const NodeId& node, const OperationKey& key) = 0;

  // True: another thread does it, and OnLocalWorkDone(cookie) follows; false: it is to be
  // done at once.
  virtual bool SubmitWork(const collective::LocalWork& work, std::uint64_t cookie) = 0;
  virtual void Complete(const collective::Action& action) = 0;
  // A message could not be sent: the node is lost, or `why` names the limit.
  virtual void OnMessageNotSent(const NodeId& node, const absl::Status& why) = 0;
};

class ActionCarrier {
 public:
  ActionCarrier(collective::Collectives& collectives, collective::Membership& membership,
                collective::ScratchMemory& scratch, CarrierPort& port)
      : collectives_(collectives), membership_(membership), scratch_(scratch), port_(port) {
    // The two change places. How many come at once is chance: all that an operation sends, where
    // its grants came before its call.
    carrying_.reserve(kActionsUsual);
    collectives_.actions().reserve(kActionsUsual);
  }
  ActionCarrier(const ActionCarrier&) = delete;
  ActionCarrier& operator=(const ActionCarrier&) = delete;

  // Carrying out an action may cause others; all are done when it returns.
  void CarryOut(std::uint64_t now_ns);

  // What has come from a peer. False: a frame that no well-behaved daemon sends.
  [[nodiscard]] bool OnEager(const NodeId& node, const wire::FrameHeader& header,
                             std::span<const std::byte> payload, std::uint64_t now_ns);
  [[nodiscard]] bool OnGrant(const NodeId& node, const wire::FrameHeader& header,
                             std::uint64_t now_ns);
  [[nodiscard]] bool OnCredit(const NodeId& node, const wire::FrameHeader& header);
  [[nodiscard]] bool OnDataReceived(const NodeId& node, const wire::FrameHeader& header,
                                    std::uint64_t now_ns);
  void OnFailureReport(const NodeId& node, const v1::FailureReport& message, std::uint64_t now_ns);
  void OnRollCall(const NodeId& node, const v1::RollCall& message, std::uint64_t now_ns);
  void OnRankDetached(const NodeId& node, const v1::RankDetached& message, std::uint64_t now_ns);

  // A message to the daemon there, as one control frame.
  void SendMessage(const NodeId& node, const v1::PeerMessage& message);

 private:
  void CarryOutOne(collective::Action& action, std::uint64_t now_ns);
  void SendFrame(const collective::Action& action, wire::FrameType type, std::uint64_t now_ns);
  void PostReceive(const collective::Action& action, std::uint64_t now_ns);
  void DoLocalWork(const collective::Action& action, std::uint64_t now_ns);
  void SendReport(const collective::Action& action);
  void SendDetached(const collective::Action& action);
  void SendRollCall(const collective::Action& action);
  void FailGroup(const OperationKey& key, const char* what, const absl::Status& why,
                 std::uint64_t now_ns);

  collective::Collectives& collectives_;
  collective::Membership& membership_;
  collective::ScratchMemory& scratch_;
  CarrierPort& port_;
  static constexpr std::size_t kActionsUsual = 1024;
  collective::ActionQueue carrying_;
};

}  // namespace mlxcomm
