// The engine: one thread that owns every state machine of the daemon and carries
// what happens in one room to the others.
//
//   intake ─submissions─▶ collective ─actions─▶ fabric, workers, intake
//   fabric ─frames──────▶ collective, rendezvous, shrink
//   control ─calls──────▶ rendezvous, membership, shrink (posted to this thread)
//
//   turn: io_context (at intervals), queues, rails, workers, time ─▶ actions until none is left
//   nothing to do: a piece of the workers' work; else looks again for a time that is bounded
//   and learnt (adaptive_spin.h), then sleeps in the io_context
//
// Owner: Daemon. Thread: Run() is the engine thread; ControlPort from any; the rest
// before Run or after it. Memory: tables that are reused; a warm operation allocates
// nothing here.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>

#include "daemon/action_carrier.h"
#include "daemon/cluster/forming_worlds.h"
#include "daemon/cluster/hello_sockets.h"
#include "daemon/cluster/rendezvous.h"
#include "daemon/cluster/shrink.h"
#include "daemon/collective/collectives.h"
#include "daemon/collective/membership.h"
#include "daemon/control/control_port.h"
#include "daemon/control/control_server.h"
#include "daemon/fabric/fabric.h"
#include "daemon/intake/intake.h"
#include "daemon/operation_recorder.h"
#include "daemon/peer_probes.h"
#include "daemon/platform/sleep_guard.h"
#include "daemon/scratch_pool.h"
#include "daemon/telemetry/event_log.h"
#include "daemon/workers.h"
#include "proto/queue/scheduling_policy.h"

namespace mlxcomm {

struct EngineOptions {
  fabric::NodeIdentity self;
  std::string cluster;
  std::string config_file;  // For people, as key_file; empty: none.
  std::string key_file;
  // Of a call that names none; 0: for as long as somebody it waits for may still come, which is looked
  // at once it has lasted stalled_timeout_ns (collective/roll_call.h).
  std::uint64_t operation_timeout_ns = 0;
  std::uint64_t stalled_timeout_ns = 300'000'000'000;
  std::uint64_t rendezvous_timeout_ns = 300'000'000'000;
  // A new job waits so long for a way to each of its nodes.
  std::uint64_t way_timeout_ns = 5'000'000'000;
  std::size_t groups_per_user_max = collective::Membership::kGroupsMax;
  std::uint64_t scratch_bytes_max = 0;  // For operations' partial results; 0: a quarter of memory.
  // What the cost model is told instead of what is measured; 0: measured.
  std::uint64_t link_latency_ns = 0;
  std::uint64_t link_bytes_per_second = 0;
  queue::SchedulingPolicy scheduling;
  // Private daemons end with their last client, or when nobody came in time.
  bool ends_with_last_client = false;
  std::uint64_t first_client_timeout_ns = 30'000'000'000;
};

class Engine final : public intake::IntakeListener,
                     public fabric::FabricListener,
                     public cluster::RendezvousPort,
                     public cluster::FormingWorldsPort,
                     public cluster::ShrinkPort,
                     public CarrierPort,
                     public ProbePort,
                     public control::ControlPort {
 public:
  // `recorder`, `counts` and `events` outlive it.
  Engine(asio::io_context& io, EngineOptions options, telemetry::FlightRecorder& recorder,
         telemetry::OperationCounts& counts, telemetry::EventLog& events);
  ~Engine() override;

  // The rooms; before Run.
  void Join(intake::Intake& intake, fabric::Fabric& fabric, control::ControlServer& control);
  // What finds neighbours, for status; before Run. It outlives Run.
  void set_discovery(const cluster::HelloSockets* discovery) { discovery_ = discovery; }
  // Called on the engine thread when a private daemon has no use any more.
  void set_on_useless(void (*callback)(void*), void* context) {
    on_useless_ = callback;
    on_useless_context_ = context;
  }
  // The engine thread: until RequestStop.
  void Run();
  void RequestStop();
  // From another thread: refuses new jobs, waits until no group is left, but at most
  // timeout_ns; then fails those that are. False: that was needed.
  bool Drain(std::uint64_t timeout_ns);
  // After Run has returned, on the caller's thread: answers every call that is still
  // open, and those that were on their way, as often as it is called.
  void AnswerOpenCalls();

  // ControlPort
  void Attach(const intake::SessionIdentity& who, std::uint64_t call,
              const v1::AttachRequest& request,
              std::unique_ptr<control::AttachAnswer> answer) override;
  void CancelAttach(intake::SessionId session, std::uint64_t call) override;
  void Awaited(intake::SessionId session, const v1::AwaitedRequest& request,
               std::unique_ptr<control::AwaitedAnswer> answer) override;
  void Detach(intake::SessionId session, const v1::DetachRequest& request,
              std::unique_ptr<control::DetachAnswer> answer) override;
  void Split(intake::SessionId session, const v1::SplitRequest& request,
             std::unique_ptr<control::GroupAnswer> answer) override;
  void Release(intake::SessionId session, std::uint64_t group,
               std::unique_ptr<control::ReleaseAnswer> answer) override;
  void Shrink(intake::SessionId session, std::uint64_t call, const v1::ShrinkRequest& request,
              std::unique_ptr<control::GroupAnswer> answer) override;
  void CancelShrink(intake::SessionId session, std::uint64_t call) override;
  void Cancel(intake::SessionId session, const v1::CancelRequest& request,
              std::unique_ptr<control::CancelAnswer> answer) override;
  void Status(const intake::User& viewer, std::unique_ptr<control::StatusAnswer> answer) override;
  void Topology(std::unique_ptr<control::TopologyAnswer> answer) override;
  void MeasureLinks(std::unique_ptr<control::CostsAnswer> answer) override;
  void Metrics(std::unique_ptr<control::MetricsAnswer> answer) override;
  void Ping(const v1::PingRequest& request, std::unique_ptr<control::PingAnswer> answer) override;
  void Doctor(std::unique_ptr<control::DoctorAnswer> answer) override;

 private:
  static constexpr std::uint32_t kCallsMax = 1024;
  using Waits = google::protobuf::RepeatedPtrField<v1::WaitStatus>;
  static constexpr std::size_t kGroupsListedMax = 64;  // In status, besides the jobs' own.
  static constexpr std::uint64_t kStatusWaitNs = 300'000'000;
  // To look at the machine takes a thousand times as long as a turn, and anybody may ask.
  static constexpr std::uint64_t kSystemKeptNs = 1'000'000'000;

  struct Shrinking {
    std::uint64_t call = 0;
    std::unique_ptr<control::GroupAnswer> answer;
  };
  struct Session {
    intake::Peer peer;
    bool ended = false;
    std::unique_ptr<control::AttachAnswer> attaching;
    std::uint64_t attach_call = 0;  // Whose answer that is.
    std::string program;
    // Who waits for what is left of a group, by that group.
    std::map<std::uint64_t, Shrinking> shrinking;
  };
  // Who waits for a world group that exists here, and what they will be told.
  struct Forming {
    v1::AttachReply reply;
    std::vector<intake::SessionId> sessions;
  };
  // A status call that waits for the peers' own parts.
  struct StatusCall {
    std::unique_ptr<control::StatusAnswer> answer;
    intake::User viewer;
    v1::StatusReply reply;
    std::vector<NodeId> awaited;
    std::uint64_t deadline_ns = 0;
  };

  // A world group that people were told of, until they are told of its end.
  struct ToldJob {
    JobId job;
    bool failed = false;
  };

  // IntakeListener
  void OnSessionOpened(intake::SessionId session, const intake::Peer& peer) override;
  void OnConnection(intake::SessionId session, platform::FileDescriptor connection) override;
  void OnSubmission(intake::SessionId session, const intake::Submission& submission) override;
  void OnSessionEnded(intake::SessionId session, const absl::Status& why) override;
  // FabricListener
  void OnNotice(const fabric::FabricNotice& notice) override;
  void OnForwarding(bool forwards) override;
  void OnNodeUp(const fabric::NodeIdentity& node) override;
  void OnNodeLost(const NodeId& node, const absl::Status& why) override;
  void OnControl(const NodeId& node, std::span<const std::byte> message) override;
  void OnEager(const NodeId& node, const wire::FrameHeader& header,
               std::span<const std::byte> payload) override;
  void OnGrant(const NodeId& node, const wire::FrameHeader& header) override;
  void OnCredit(const NodeId& node, const wire::FrameHeader& header) override;
  void OnDataReceived(const NodeId& node, const wire::FrameHeader& header) override;
  void OnDataReleased(const NodeId& node, std::uint64_t cookie) override;
  void OnWithdrawn(const NodeId& node, const OperationKey& key) override;
  // CarrierPort
  absl::Status SendFrame(const NodeId& node, const wire::FrameHeader& header,
                         const std::byte* payload, std::uint64_t cookie) override;
  absl::Status PostReceive(const NodeId& node, const fabric::PostedReceive& receive) override;
  void Withdraw(const NodeId& node, const OperationKey& key) override;
  void CancelFrames(const NodeId& node, const OperationKey& key) override;
  bool SubmitWork(const collective::LocalWork& work, std::uint64_t cookie) override;
  void Complete(const collective::Action& action) override;
  void OnMessageNotSent(const NodeId& node, const absl::Status& why) override;
  // RendezvousPort, FormingWorldsPort, ShrinkPort
  void SendToNode(const NodeId& node, const v1::PeerMessage& message) override;
  void SendToAllNodes(const v1::PeerMessage& message) override;
  void OnWorldFormed(const JobId& job, std::uint64_t group,
                     const std::vector<cluster::FormedMember>& members,
                     const v1::LinkCosts& costs) override;
  v1::LinkCosts OwnCosts() override;
  void OnAttachRefused(std::uint64_t session, const Failure& failure) override;
  void OnWorldReady(std::uint64_t group) override;

  bool IsReachable(const NodeId& node) const override { return fabric_->IsReachable(node); }
  bool Look(std::uint64_t group, cluster::GroupView& view) override;
  std::uint64_t NewGroupId() override { return rendezvous_.NewGroupId(); }
  bool OnShrunk(std::uint64_t group, std::uint64_t new_group,
                const std::vector<std::uint32_t>& ranks,
                const std::vector<std::uint64_t>& sessions) override;
  void OnShrinkReady(std::uint64_t session, std::uint64_t group, std::uint64_t new_group) override;
  void OnShrinkRefused(std::uint64_t session, std::uint64_t group, const Failure& failure) override;
  void GiveUpPlace(std::uint64_t session, std::uint64_t new_group) override;
  void FailGroup(std::uint64_t group, const Failure& failure) override;

  // Turns.
  bool Turn();
  void Sleep();
  void WatchBell();
  void ReleaseEndedSessions();
  void CheckUsefulness();
  std::uint64_t NextDeadline() const;
  void CarryOut() { carrier_.CarryOut(now_ns_); }
  void CountViolation(const NodeId& node, bool fine);
  // Status (engine_status.cc).
  void BeginStatus(const intake::User& viewer, std::unique_ptr<control::StatusAnswer> answer);
  void FillOwnPart(v1::NodeStatus& node, v1::StatusReply* jobs_of) const;
  void AddLinks(v1::NodeStatus& node) const;
  void AddRdma(v1::NodeStatus& node) const;
  void AddUse(v1::NodeStatus& node) const;
  std::string OriginOf(const NodeId& peer, const fabric::RailSnapshot& rail) const;
  void AddGroups(v1::StatusReply& reply) const;
  void AddMainGroup(const collective::Group& group, const collective::GroupOrigin& origin,
                    v1::JobStatus& job) const;
  void AddGroup(const collective::Group& group, v1::GroupStatus& told) const;
  void AddRank(const collective::Group& group, const collective::RankActivity& activity,
               v1::RankStatus& rank, Waits& waits) const;
  void AddShrinking(std::uint64_t group, Waits& waits) const;
  void MergeJob(const v1::JobStatus& told, v1::JobStatus& job) const;
  void AddWaiting(v1::StatusReply& reply) const;
  static std::string DescribeMissing(const v1::JobStatus& job);
  v1::JobStatus& JobIn(v1::StatusReply& reply, const JobId& id, bool forms = false) const;
  void OnStatusQuery(const NodeId& node, std::uint64_t query);
  void OnStatusAnswer(const NodeId& node, const v1::StatusAnswer& answer);
  void FinishStatus(std::uint64_t query);
  void FinishLateStatus();
  // Probes and events (engine_probes.cc, engine_events.cc).
  void BeginPing(const v1::PingRequest& request, std::unique_ptr<control::PingAnswer> answer);
  void BeginDoctor(std::unique_ptr<control::DoctorAnswer> answer);
  void FillCheckup(v1::NodeCheckup& checkup);
  void LookAtSystem();
  void OnProbe(const NodeId& node, const v1::Probe& probe);
  static PeerProbes::Clocks ClocksNow();
  void TellEvent(const char* kind, telemetry::EventSeverity severity, const std::string& object,
                 const std::string& text, std::optional<std::string> user = std::nullopt);
  void TellOfFormed(const JobId& job, std::size_t ranks, std::uint64_t group);
  void TellOfRemoved(const std::vector<std::uint64_t>& groups);
  void TellOfFailures();
  bool BeginCall();
  // Runs `body` with the answer on the engine thread.
  template <typename Answer, typename Body>
  void Ask(std::unique_ptr<Answer> answer, Body body);
  // The same, and carries out what it has caused.
  template <typename Answer, typename Body>
  void Enter(std::unique_ptr<Answer> answer, Body body);
  static std::uint32_t RankLeft(const collective::Group& group);
  void OnGroupsLeft(intake::SessionId session, const std::vector<std::uint64_t>& groups);
  void RemoveGroupsLeft();
  void BeginShrink(intake::SessionId session, std::uint64_t call, const v1::ShrinkRequest& request,
                   std::unique_ptr<control::GroupAnswer> answer);
  void RefuseShrinking(const Failure& failure);
  v1::GroupReply ReplyOf(std::uint64_t group, std::uint32_t rank);
  std::vector<intake::SessionId> WaitingSessions(
      const std::vector<cluster::FormedMember>& members) const;
  void RefuseAttaching(const Failure& failure);
  void FailEverything(const Failure& failure);
  void OnGroupMade(std::uint64_t group);
  void CountGroups();
  void KeepAwake();
  void RefuseWorld(std::uint64_t group, const std::vector<cluster::FormedMember>& members,
                   const Failure& failure);
  void AnswerForming(const Forming& forming, const Failure& failure);
  void RefuseFailedWorlds();

  asio::io_context& io_;
  EngineOptions options_;
  intake::Intake* intake_ = nullptr;
  fabric::Fabric* fabric_ = nullptr;
  const cluster::HelloSockets* discovery_ = nullptr;  // nullptr: neighbours are configured.
  control::ControlServer* control_ = nullptr;
  platform::Wakeup bell_;  // Rung by the workers.
  asio::posix::stream_descriptor bell_watch_;
  asio::steady_timer timer_;
  std::uint64_t armed_ns_ = collective::kNever;  // When timer_ will fire.
  telemetry::FlightRecorder& recorder_;
  telemetry::EventLog& events_;
  std::map<std::uint64_t, ToldJob> told_jobs_;  // By group.
  std::unique_ptr<Workers> workers_;
  ScratchPool scratch_;
  OperationRecorder operation_recorder_;
  collective::Collectives collectives_;
  collective::Membership membership_;
  platform::SleepGuard sleep_guard_;  // Held while there is a group, or others' go through here.
  bool forwards_ = false;
  cluster::Rendezvous rendezvous_;
  cluster::FormingWorlds forming_worlds_;
  cluster::Shrink shrink_;
  ActionCarrier carrier_;
  std::vector<std::uint64_t> done_work_;
  std::uint64_t now_ns_;
  std::uint64_t io_polled_ns_ = 0;
  std::uint64_t started_ns_;
  std::map<intake::SessionId, Session> sessions_;
  std::vector<intake::SessionId> ended_sessions_;  // Memory still to be released.
  std::map<NodeId, fabric::NodeIdentity> nodes_;   // Reachable ones.
  std::map<std::uint64_t, StatusCall> status_calls_;
  PeerProbes probes_;
  v1::NodeCheckup seen_of_system_;            // What FillCheckup tells, looked at now and then.
  std::uint64_t system_seen_ns_ = 0;          // 0: never.
  std::map<std::uint64_t, Forming> forming_;  // By group.
  std::uint64_t next_query_ = 1;
  std::uint64_t violations_ = 0;
  std::uint64_t wakeups_ = 0;
  std::uint64_t clients_seen_ = 0;
  std::uint64_t clients_open_ = 0;
  std::atomic<std::uint32_t> calls_{0};
  std::mutex groups_mutex_;  // Drain waits on it; no payload comes near.
  std::condition_variable groups_changed_;
  std::size_t groups_left_ = 0;
  bool draining_ = false;
  std::atomic<bool> stop_{false};
  void (*on_useless_)(void*) = nullptr;
  void* on_useless_context_ = nullptr;
};

template <typename Answer, typename Body>
void Engine::Ask(std::unique_ptr<Answer> answer, Body body) {
  if (!BeginCall()) {
    return answer->Fail({FailureCode::kResourceExhausted, kNoRank, "too many calls at once"});
  }
  // One that is thrown away unrun, as at the end, takes its answer with it, which then says so.
  asio::post(io_, [this, body = std::move(body), answer = std::move(answer)]() mutable {
    calls_.fetch_sub(1);
    body(std::move(answer));
  });
}

template <typename Answer, typename Body>
void Engine::Enter(std::unique_ptr<Answer> answer, Body body) {
  Ask(std::move(answer), [this, body = std::move(body)](std::unique_ptr<Answer> held) {
    body(std::move(held));
    CarryOut();
  });
}

}  // namespace mlxcomm
