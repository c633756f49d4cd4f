// Rendezvous: how the processes of a job find each other.
//
//   local attach ─announce to every node─▶ forming ──rank 0's node has all ranks──▶
//        WorldFormed to every node ─▶ running (this class then only remembers which
//                                     ranks of which job are taken here)
//
// The node of rank 0 decides, so there is one world group, in whatever order announcements arrive.
// See README.md, Rendezvous.
//
// Sans-I/O: calls in, requests out (outbox.h); time is an argument. Owner: Jobs. Thread: the
// loop's. Memory: an entry for each waiting rank (kWaitingMax of other nodes, kWaitingPerNodeMax of
// one), for ranks announced after their world (kSettledMax), for ranks that left while another
// waits here (kLeftMax), and for worlds of nodes whose restart this node has not noticed yet
// (kHeldMax).
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/jobs/outbox.h"
#include "daemon/link/fabric_listener.h"
#include "mlxcomm/v1/peer.pb.h"
#include "proto/types/failure.h"
#include "proto/types/job_id.h"
#include "proto/types/node_id.h"

namespace mlxcomm::jobs {

inline JobId JobOf(const v1::RankAnnounced& claim) { return {claim.user(), claim.job()}; }

class Rendezvous {
 public:
  static constexpr std::size_t kWaitingMax = 16384;
  static constexpr std::size_t kWaitingPerNodeMax = 4096;  // A daemon's limit of clients.
  static constexpr std::size_t kSettledMax = 4096;
  static constexpr std::size_t kLeftMax = 4096;
  static constexpr std::size_t kHeldMax = 64;
  static constexpr std::size_t kHeldPerNodeMax = 8;
  static constexpr std::uint32_t kSizeMax = 4096;
  static constexpr std::size_t kJobBytesMax = 200;
  static constexpr std::size_t kUserBytesMax = 200;
  static constexpr std::size_t kNamedByBytesMax = 1000;
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};

  struct Waiting {
    v1::RankAnnounced claim;
    NodeId node;
    std::uint64_t session = 0;      // Local ones.
    std::uint64_t deadline_ns = 0;  // Local ones.
    std::uint64_t timeout_ns = 0;
  };

  // `incarnation` makes group ids unique among daemons, and attempts among this node's runs.
  Rendezvous(const NodeId& self, std::string self_name, std::uint64_t incarnation, Outbox& outbox)
      : self_(self),
        self_name_(std::move(self_name)),
        incarnation_(incarnation),
        outbox_(outbox),
        next_attempt_(NumbersOf(incarnation) + 1) {}

  // `claim` without the attempt.
  void Attach(std::uint64_t session, v1::RankAnnounced claim, std::uint64_t timeout_ns,
              std::uint64_t now_ns);
  // The process withdrew or died, or its rank has left its job.
  void Leave(std::uint64_t session);
  // The group exists on all its nodes.
  void OnWorldReady(std::uint64_t group);

  void OnNodeUp(const link::NodeIdentity& node);
  void OnNodeLost(const NodeId& node);
  void OnRankAnnounced(const NodeId& node, const v1::RankAnnounced& announced);
  void OnRankWithdrawn(const NodeId& node, const v1::RankWithdrawn& withdrawn);
  void OnWorldFormedElsewhere(const NodeId& node, const v1::WorldFormed& formed);
  // Takes worlds that were held until this node noticed another's restart. Call it after the groups
  // of a lost node have failed, and with a group that has failed on another node.
  void TakeHeld();
  void TakeHeld(std::uint64_t group);
  void OnWorldRefused(const NodeId& node, const v1::WorldRefused& refused);

  void OnTime(std::uint64_t now_ns);
  std::uint64_t NextDeadline() const { return deadlines_.empty() ? kNever : *deadlines_.begin(); }
  // Returns, for status, all waiting ranks, local and remote, by job and rank.
  std::vector<Waiting> AllWaiting() const;
  // Names jobs that look like parts of one, and the variables by which their names differ, in a
  // text for people; empty: none. Two launches at once never look like that, because each has all
  // its ranks.
  std::string DescribeOtherHalf(const JobId& id) const;
  std::string DescribeOtherHalf(std::uint64_t session) const;
  std::string NodeName(const NodeId& node) const;
  std::size_t left_count() const { return left_count_; }  // Never exceeds kLeftMax.
  // Unique among all daemons.
  std::uint64_t NewGroupId() { return NumbersOf(incarnation_) | ++groups_formed_; }

 private:
  using Job = std::map<std::pair<std::uint32_t, NodeId>, Waiting>;  // By rank, and claiming node.
  using Jobs = std::map<JobId, Job>;
  using Attempt = std::pair<NodeId, std::uint64_t>;
  struct Taken {
    std::uint64_t session = 0;
    std::uint64_t pid = 0;
    std::uint64_t attempt = 0;
    std::uint64_t group = 0;
    bool is_known_everywhere = false;  // The world exists on all its nodes.
  };

  struct Held {
    NodeId from;
    v1::WorldFormed formed;
  };

  static std::uint64_t NumbersOf(std::uint64_t incarnation) {
    return incarnation & ~std::uint64_t{0xffffffff};
  }
  static NodeId NodeOf(const v1::WorldMember& member);  // Called only for worlds that pass IsFine.
  // Returns whether that daemon may have made the attempt; 0 is unknown.
  static bool MayBeOf(std::uint64_t attempt, const link::NodeIdentity& node) {
    return NumbersOf(attempt) == 0 || NumbersOf(attempt) == NumbersOf(node.incarnation);
  }
  static Failure CheckClaim(const JobId& id, std::uint32_t rank, std::uint32_t size);
  // Why the claim is refused; ok: it is not.
  Failure Objection(const v1::RankAnnounced& claim, bool local) const;
  void Refuse(std::uint64_t session, const Failure& failure) {
    Leave(session);
    outbox_.emplace_back(AttachRefused{session, failure});
  }
  void Withdraw(const JobId& id, std::uint64_t attempt);
  void FormIfComplete(const JobId& id);
  std::vector<Jobs::const_iterator> PartsOf(const JobId& id) const;
  void JoinOtherHalf(const JobId& id);
  void Forget(const JobId& id, std::uint32_t rank, const NodeId& node);
  void ForgetWhoLeft(const JobId& id, std::uint32_t rank, const NodeId& node);
  void ForgetLeft(const JobId& id);
  void Uncount(const Waiting& waiting);
  const Waiting* WaitingIn(const v1::WorldFormed& formed, std::uint32_t rank) const;
  bool NamesAnotherDaemon(const v1::WorldFormed& formed) const;
  bool IsFine(const NodeId& node, const v1::WorldFormed& formed) const;
  bool IsToBeHeld(const NodeId& node, const v1::WorldFormed& formed) const;
  void TakeWorld(const v1::WorldFormed& formed);
  void WithdrawFromOthers(const v1::WorldFormed& formed, std::uint32_t rank);
  void SettleEarly(const Attempt& attempt);
  void Settle(const v1::WorldFormed& formed, const std::vector<FormedMember>& members);
  // Names the ranks that have not joined yet, or those that joined and left.
  std::string DescribeMissing(const JobId& id, const Job& job, std::uint32_t size,
                              bool have_left) const;
  std::string DescribeLateness(const JobId& id, const Job& job, const Waiting& waiting) const;

  NodeId self_;
  std::string self_name_;
  std::uint64_t incarnation_;
  Outbox& outbox_;
  Jobs jobs_;
  // Keyed by waiting job: ranks that gave up or ended while others wait.
  std::map<JobId, std::set<std::uint32_t>> left_;
  std::size_t left_count_ = 0;
  std::map<std::pair<JobId, std::uint32_t>, Taken> running_;  // Local ranks.
  // Attempts that are in a world, but have not been announced yet.
  std::deque<Attempt> settled_early_;  // Oldest first.
  std::map<NodeId, link::NodeIdentity> nodes_;
  std::deque<Held> held_;
  std::uint64_t next_attempt_;
  std::uint64_t groups_formed_ = 0;
  std::size_t waiting_remotely_ = 0;
  std::map<NodeId, std::size_t> waiting_of_;  // Remote ones, by node.
  std::multiset<std::uint64_t> deadlines_;    // Local ranks'.
};

}  // namespace mlxcomm::jobs
