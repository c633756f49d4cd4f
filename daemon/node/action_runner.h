// Carries out what the collective core asks for, and turns what peers send into the core's events.
//
//   Collectives ──actions──▶ ActionRunner ──frames, receives──▶ Links
//        ▲                     │  ▲  ──local work─────────▶ NodePort: workers
//        └───────events────────┘  │  ──completions────────▶ Processes
//              frames, messages of peers, answers
//
// Owner: Node. Thread: its owner's; what is received is combined on a rail's thread. Memory: one
// action queue that is reused; messages between daemons are rare and allocate.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "daemon/collective/collectives.h"
#include "daemon/fabric/links.h"
#include "daemon/intake/processes.h"
#include "daemon/jobs/jobs.h"
#include "daemon/node/node_port.h"
#include "mlxcomm/v1/peer.pb.h"

namespace mlxcomm::node {

class ActionRunner {
 public:
  ActionRunner(collective::Collectives& collectives, collective::ScratchMemory& scratch,
               fabric::Links& links, jobs::Jobs& jobs, intake::Processes& processes, NodePort& port)
      : collectives_(collectives),
        scratch_(scratch),
        links_(links),
        jobs_(jobs),
        processes_(processes),
        port_(port) {
    // The two are swapped. The number of actions at a time varies: an operation sends everything at
    // once if its grants arrived before its call.
    carrying_.reserve(kActionsUsual);
    collectives_.actions().reserve(kActionsUsual);
  }
  ActionRunner(const ActionRunner&) = delete;
  ActionRunner& operator=(const ActionRunner&) = delete;

  // Carrying out an action may cause others; all are done when it returns.
  void CarryOut(std::uint64_t now_ns);

  // Messages of peers, whose texts and lists are cut to a useful length.
  void OnFailureReport(const NodeId& node, v1::FailureReport& report, std::uint64_t now_ns);
  void OnRollCall(const NodeId& node, v1::RollCall& message, std::uint64_t now_ns);

  // Sends a message to the daemon there, as one control frame. A failure is logged: either the node
  // is lost, which every part learns separately, or the message is too large.
  void SendMessage(const NodeId& node, const v1::PeerMessage& message);

 private:
  void CarryOutOne(collective::Action& action, std::uint64_t now_ns);
  void Send(const collective::Action& action, std::uint64_t now_ns);
  void PostReceive(const collective::Action& action, std::uint64_t now_ns);
  void DoLocalWork(const collective::Action& action, std::uint64_t now_ns);
  void FailGroup(const OperationKey& key, const char* what, const absl::Status& why,
                 std::uint64_t now_ns);

  collective::Collectives& collectives_;
  collective::ScratchMemory& scratch_;
  fabric::Links& links_;
  jobs::Jobs& jobs_;
  intake::Processes& processes_;
  NodePort& port_;
  static constexpr std::size_t kActionsUsual = 1024;
  collective::ActionQueue carrying_;
};

}  // namespace mlxcomm::node
