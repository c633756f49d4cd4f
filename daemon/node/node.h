// A node: the whole daemon without I/O, clock and threads. Events come in as calls; requests go out
// to its port (node_port.h) and to its links' rails.
//
//   Processes ─submissions, control calls─▶ Jobs, Collectives
//   Jobs, Collectives ─actions─▶ ActionRunner ─▶ Links, Processes
//   Links ─────frames, nodes that come and go─▶ ActionRunner, Jobs, status, probes
//   hellos, interfaces ─▶ Discovery ─addresses to dial─▶ DiscoveryPort
//
// A turn, as its owner makes it:
//
//   AdvanceTo(now) ─▶ submissions, calls, Links::Poll, finished work (CarryOut between) ─▶ EndTurn
//
// Owner: Loop, or the simulator. Thread: one, for all of it. Memory: tables that are reused; a warm
// operation allocates nothing here.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "daemon/collective/collectives.h"
#include "daemon/discovery/discovery.h"
#include "daemon/fabric/links.h"
#include "daemon/intake/processes.h"
#include "daemon/jobs/jobs.h"
#include "daemon/node/action_runner.h"
#include "daemon/node/answer.h"
#include "daemon/node/node_port.h"
#include "daemon/node/options.h"
#include "daemon/node/own_status.h"
#include "daemon/node/peer_probes.h"
#include "daemon/node/status_calls.h"
#include "daemon/node/system_checks.h"
#include "daemon/record/event_log.h"
#include "daemon/record/operation_recorder.h"

namespace mlxcomm::node {

using intake::SessionId;

// What metrics show about a node: its own part of a status, and figures that a status does not
// have.
struct NodeMetrics {
  v1::NodeStatus node;
  std::map<std::string, std::uint64_t> jobs;  // Counted by state.
  // Those that ended within the last ten minutes, by code: "RANK_LOST"; "OK" if they did not fail.
  std::map<std::string, std::uint64_t> ended_jobs;
  std::uint64_t violations = 0;
};

class Node final : private link::FabricListener {
 public:
  // All outlive it. `clock` returns the time within a turn, for measurements.
  Node(NodeOptions options, collective::ScratchMemory& scratch, record::FlightRecorder& recorder,
       record::OperationCounts& counts, record::EventSink& events, intake::Processes& processes,
       NodePort& port, std::function<std::uint64_t()> clock, std::uint64_t now_ns);
  // Circuits send their last frames through the links of other nodes, so all rails stop before any
  // link goes.
  ~Node() override { links_.StopRails(); }

  const NodeOptions& options() const { return options_; }
  // The owner, which has the sockets, joins, polls and ticks them.
  fabric::Links& links() { return links_; }
  const fabric::Links& links() const { return links_; }
  const collective::Collectives& collectives() const { return collectives_; }
  jobs::Membership& membership() { return jobs_.membership(); }
  const jobs::Jobs& jobs() const { return jobs_; }

  // Later calls happen at this time, which never goes backwards.
  void AdvanceTo(std::uint64_t now_ns) { now_ns_ = now_ns; }
  // Carries out the actions that the last events have caused, until none is left.
  void CarryOut() {
    jobs_.CarryOut();
    runner_.CarryOut(now_ns_);
  }
  // Does what is due by now, then releases what groups and processes left behind. False if nothing
  // was due.
  bool EndTurn();
  // When EndTurn is next due, if no event comes first.
  std::uint64_t NextDeadline() const;

  void OnSessionOpened(SessionId session, const jobs::Process& process) {
    ReadClock();
    jobs_.OnSessionOpened(session, process);
  }
  void OnSessionEnded(SessionId session, const std::string& why);
  // Sets the call's rank and number.
  void OnSubmission(collective::Call& call);
  void OnCloseAsked(SessionId session, std::uint64_t group);
  void OnWorkDone(std::uint64_t cookie) { collectives_.OnLocalWorkDone(cookie, now_ns_); }

  // Looks for neighbours from now on, with the options' keys.
  void Discover(discovery::DiscoveryPort& port);
  // These do nothing without Discover.
  void OnInterfaceUp(const discovery::Discovery::Interface& interface);
  void OnInterfaceDown(const std::string& name);
  void OnHello(const std::string& interface, const wire::AddressBytes& from,
               std::span<const std::uint8_t> datagram);
  void SetHelloKeys(const std::vector<DerivedKey>& keys);
  const std::optional<discovery::Discovery>& discovery() const { return discovery_; }

  // Makes a control call of Jobs, and carries out the actions that it causes.
  template <typename... Parameters, typename... Arguments>
  void Call(void (jobs::Jobs::*call)(Parameters...), Arguments&&... arguments) {
    ReadClock();
    (jobs_.*call)(std::forward<Arguments>(arguments)...);
    CarryOut();
  }

  void Status(const StatusCaller& caller, std::unique_ptr<StatusAnswer> answer) {
    ReadClock();
    status_calls_.Ask(caller, std::move(answer), now_ns_);
  }
  void Ping(const v1::PingRequest& request, std::unique_ptr<PingAnswer> answer);
  void Doctor(std::unique_ptr<DoctorAnswer> answer);
  void OnSystemChecked(v1::NodeCheckup seen);
  NodeMetrics Metrics();

  // An orderly end in three steps: refuse new processes, later fail the running groups, finally
  // answer every open call.
  void RefuseNew(const Failure& failure, std::uint64_t drain_ns) {
    ReadClock();
    jobs_.RefuseNew(failure, now_ns_ + drain_ns);
    CarryOut();
  }
  void FailAll(const Failure& failure);
  void AnswerOpenCalls(const Failure& failure);

 private:
  // FabricListener
  link::NodeClaim ClaimOf(const NodeId& node) const override;
  void OnNotice(const link::FabricNotice& notice) override;
  void OnSameId(const NodeId& node, const std::string& address) override;
  void OnNodeUp(const link::NodeIdentity& node) override;
  void OnNodeLost(const NodeId& node, const absl::Status& why) override;
  void OnControl(const NodeId& node, std::span<const std::byte> message) override;
  void OnEager(const NodeId& node, const wire::FrameHeader& header,
               std::span<const std::byte> payload) override {
    ExpectFrame(node, collectives_.OnEager(node, header, payload, now_ns_), header);
  }
  void OnGrant(const NodeId& node, const wire::FrameHeader& header) override {
    ExpectFrame(node, collectives_.OnGrant(node, header, now_ns_), header);
  }
  void OnCredit(const NodeId& node, const wire::FrameHeader& header) override {
    ExpectFrame(node, collectives_.OnCredit(node, header.group, header.offset), header);
  }
  void OnDataReceived(const NodeId& node, const wire::FrameHeader& header) override {
    ExpectFrame(node, collectives_.OnData(node, header, now_ns_), header);
  }
  void OnDataReleased(const NodeId&, std::uint64_t cookie) override {
    collectives_.OnDataReleased(cookie);
  }
  void OnWithdrawn(const NodeId& node, const OperationKey& key) override {
    collectives_.OnWithdrawn(node, key, now_ns_);
  }

  // Logs that another machine has the node's id.
  void ReportSameId(const std::string& node, const std::string& address);
  void ExpectFrame(const NodeId& node, bool fine, const wire::FrameHeader& header);
  void CountViolation(const NodeId& node, const std::string& what);
  // False if no well-behaved daemon sends it.
  [[nodiscard]] bool OnMessage(const NodeId& node, v1::PeerMessage& message);
  [[nodiscard]] bool OnProbe(const NodeId& node, const v1::Probe& probe);
  bool WriteOwnPart(OwnPart& part);
  v1::NodeCheckup CheckupOf(const v1::NodeCheckup& seen) const;
  OwnState Own() const {
    return {options_, collectives_, jobs_, processes_, port_, discovery_, started_ns_, now_ns_};
  }
  // Cached, because each turn needs it, and finding it checks every interface.
  void LookAtDiscovery() { discovery_due_ns_ = discovery_->deadline_ns(); }
  // Called first by events outside a turn: they may follow a long sleep, and set deadlines.
  void ReadClock();
  // Answers the call and returns false if its process has not joined the group.
  bool SetRank(collective::Call& call);
  void Submit(collective::Call& call, std::uint64_t age_ns);

  const NodeOptions options_;
  NodePort& port_;
  intake::Processes& processes_;
  std::uint64_t now_ns_;
  const std::uint64_t started_ns_;
  const std::function<std::uint64_t()> clock_;
  OperationRecorder recorder_;
  collective::Collectives collectives_;
  jobs::Nodes nodes_;
  fabric::Links links_;
  jobs::Jobs jobs_;
  ActionRunner runner_;
  record::EventSink& events_;
  StatusCalls status_calls_;
  PeerProbes probes_;
  SystemChecks system_checks_;
  std::vector<std::unique_ptr<DoctorAnswer>> doctors_;  // Wait for the same check-up.
  std::optional<discovery::Discovery> discovery_;
  std::uint64_t discovery_due_ns_ = discovery::Discovery::kNever;
  std::uint64_t violations_ = 0;
};

}  // namespace mlxcomm::node
