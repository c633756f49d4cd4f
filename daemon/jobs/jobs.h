// The processes of this node and the groups that they join and leave: worlds, splits, and shrunk
// groups. README.md shows the parts.
//
// Owner: Node. Thread: the node's; the time is the node's. Memory: an entry for each session, and
// one for each world that forms.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/collective/collectives.h"
#include "daemon/fabric/links.h"
#include "daemon/jobs/answer.h"
#include "daemon/jobs/direct_groups.h"
#include "daemon/jobs/forming_worlds.h"
#include "daemon/jobs/job_history.h"
#include "daemon/jobs/membership.h"
#include "daemon/jobs/options.h"
#include "daemon/jobs/rendezvous.h"
#include "daemon/jobs/shrink.h"
#include "daemon/record/event_log.h"
#include "daemon/record/operation_recorder.h"

namespace mlxcomm::jobs {

struct Process {
  std::uint64_t pid = 0;
  std::string user;
};

using Nodes = std::map<NodeId, link::NodeIdentity>;  // Reachable nodes.

class Jobs final : private ShrinkGroups {
 public:
  // All outlive it. `now_ns` is the node's time. Messages to other nodes are appended to the core's
  // actions, so that they leave in the order of the events that caused them.
  Jobs(const JobsOptions& options, const link::NodeIdentity& self,
       collective::Collectives& collectives, fabric::Links& links, const Nodes& nodes,
       OperationRecorder& recorder, intake::Processes& processes, record::EventSink& events,
       DirectGroups::Submit submit, const std::uint64_t& now_ns);

  void OnSessionOpened(SessionId session, const Process& process) {
    sessions_[session].process = process;
  }
  // Its memory is released once no operation names it.
  void OnSessionEnded(SessionId session, const std::string& why);

  // Control calls (proto/mlxcomm/v1/control.proto), made through Node::Call. `call` differs for
  // each Attach and Shrink, so that cancelling one never cancels the next on the same session.
  void Attach(SessionId session, std::uint64_t call, const v1::AttachRequest& request,
              std::unique_ptr<AttachAnswer> answer);
  void CancelAttach(SessionId session, std::uint64_t call);
  void Detach(SessionId session, const v1::DetachRequest& request, DetachAnswer& answer);
  void Split(SessionId session, const v1::SplitRequest& request, GroupAnswer& answer);
  void Release(SessionId session, const v1::ReleaseRequest& request, ReleaseAnswer& answer);
  void Shrink(SessionId session, std::uint64_t call, const v1::ShrinkRequest& request,
              std::unique_ptr<GroupAnswer> answer);
  void CancelShrink(SessionId session, std::uint64_t call);
  void Cancel(SessionId session, const v1::CancelRequest& request, CancelAnswer& answer);
  void Awaited(SessionId session, const v1::AwaitedRequest& request, AwaitedAnswer& answer);
  // Fails the job's groups, and refuses its local ranks that wait for others or for a shrink.
  // `reply` has the fields that the node does not know.
  void EndJob(const JobId& job, const Failure& failure, v1::EndJobReply reply,
              EndJobAnswer& answer);
  // Refuses processes that wait to join, and from now on every join and shrink. Groups that still
  // exist at `drains_until_ns` fail.
  void RefuseNew(const Failure& failure, std::uint64_t drains_until_ns);
  // Fails every group, and refuses the processes that wait for a shrink.
  void FailAll(const Failure& failure);
  void RefuseShrinking(const Failure& failure);
  bool draining() const { return draining_; }
  std::uint64_t drains_until_ns() const { return drains_until_ns_; }

  // False if no well-behaved daemon sends it.
  [[nodiscard]] bool OnMessage(const NodeId& node, const v1::PeerMessage& message);
  void OnNodeUp(const link::NodeIdentity& node);
  // Returns whether the node has ranks in a group with local ranks.
  bool HasRanksOn(const NodeId& node) const { return collectives_.HasRanksOn(node); }
  // Called before the collective core is informed, and after.
  void BeforeNodeLost(const NodeId& node) {
    rendezvous_.OnNodeLost(node);
    CarryOut();
  }
  void AfterNodeLost(const NodeId& node) {
    shrink_.OnNodeLost(node);
    rendezvous_.TakeHeld();
    CarryOut();
  }
  // Another node reports that the group has failed; perhaps it has not been made here yet.
  void BeforeFailureReport(std::uint64_t group) {
    rendezvous_.TakeHeld(group);
    CarryOut();
  }

  void OnTime();
  std::uint64_t NextDeadline() const;
  // Carries out what the last calls have caused; messages are appended to the core's actions.
  void CarryOut();
  // The end of a turn: reports groups that have failed, answers for worlds that failed before they
  // were ready, removes groups that all ranks have left, and releases memory that no operation
  // names any more.
  void CleanUp();

  Membership& membership() { return membership_; }
  const Membership& membership() const { return membership_; }
  DirectGroups& direct_groups() { return direct_groups_; }
  const JobHistory& history() const { return history_; }
  const Rendezvous& rendezvous() const { return rendezvous_; }
  const jobs::Shrink& shrinking() const { return shrink_; }
  // The program of the session's process; empty: unknown.
  std::string ProgramOf(SessionId session) const;
  std::size_t session_count() const { return sessions_.size(); }
  std::size_t sessions_to_release() const { return ended_sessions_.size(); }
  std::size_t forming_count() const { return forming_.size() + forming_worlds_.world_count(); }

 private:
  struct Shrinking {
    std::uint64_t call = 0;
    std::unique_ptr<GroupAnswer> answer;
  };
  struct Session {
    Process process;
    std::unique_ptr<AttachAnswer> attaching;
    std::uint64_t attach_call = 0;  // The call that this answers.
    std::string program;
    std::map<std::uint64_t, Shrinking> shrinking;  // Keyed by failed group.
  };

  // The requests of the state machines.
  void On(SendTo& request);
  void On(SendToAll& request);
  void On(const WorldFormed& world);
  void On(const AttachRefused& refused);
  void On(const WorldReady& ready);
  void On(const RankLate& late);
  void On(const GroupFailed& failed) { FailGroup(failed.group, failed.failure); }
  void On(const ShrinkReady& ready);
  void On(const ShrinkRefused& refused);
  void On(const PlaceGivenUp& place) {
    membership_.GiveUp(place.session, place.new_group, "it gave up waiting for this group",
                       now_ns_);
  }
  // ShrinkGroups
  bool Look(std::uint64_t group, GroupView& view) override;
  bool IsReachable(const NodeId& node) const override { return links_.IsReachable(node); }
  std::uint64_t NewGroupId() override { return rendezvous_.NewGroupId(); }
  bool MakeShrunk(std::uint64_t group, std::uint64_t new_group,
                  const std::vector<std::uint32_t>& ranks,
                  const std::vector<SessionId>& sessions) override;

  void SendToNode(const NodeId& node, std::shared_ptr<const v1::PeerMessage> message);
  v1::LinkCosts OwnCosts() const;
  void FailGroup(std::uint64_t group, const Failure& failure);
  std::unique_ptr<GroupAnswer> TakeShrinking(SessionId session, std::uint64_t group);
  void OnGroupsLeft(SessionId session, const std::vector<std::uint64_t>& groups);
  void OnGroupMade(std::uint64_t group);
  void RefuseWorld(const WorldFormed& world, const Failure& failure);
  void RefuseFailedWorlds();
  void RemoveGroupsLeft();
  void ReportFailures();
  std::unique_ptr<AttachAnswer> TakeAttaching(SessionId session);
  v1::GroupReply ReplyOf(std::uint64_t group, std::uint32_t rank);
  std::vector<SessionId> WaitingSessions(const std::vector<FormedMember>& members) const;
  static std::uint32_t RankLeft(const collective::Group& group);

  const JobsOptions& options_;
  const link::NodeIdentity& self_;
  collective::Collectives& collectives_;
  fabric::Links& links_;
  const Nodes& nodes_;
  intake::Processes& processes_;
  const std::uint64_t& now_ns_;
  Membership membership_;
  DirectGroups direct_groups_;
  record::EventSink& events_;
  OperationRecorder& recorder_;
  JobHistory history_;
  Outbox outbox_;
  Rendezvous rendezvous_;
  FormingWorlds forming_worlds_;
  jobs::Shrink shrink_;
  std::map<SessionId, Session> sessions_;
  std::vector<SessionId> ended_sessions_;  // Memory still to be released.
  // Keyed by group: the sessions whose Attach waits until the world exists on all nodes.
  std::map<std::uint64_t, std::vector<SessionId>> forming_;
  bool draining_ = false;
  std::uint64_t drains_until_ns_ = 0;
};

}  // namespace mlxcomm::jobs
