// Shrink: how the remaining ranks of a failed group get a group of their own.
//
//   local ranks ask ─ShrinkState to the group's other nodes─▶ each rank has asked or is gone
//   ─node of the lowest remaining rank: ShrinkFormed─▶ all have the new group
//   ─ShrinkJoined─▶ that node knows it ─ShrinkReady─▶ the ranks are answered
//
// README.md, Shrink, describes what happens if the node that forms the group is lost during this.
//
// Sans-I/O: calls in, requests out (outbox.h); time is an argument. Owner: Jobs. Thread: the
// loop's. Memory: for each failed group that may shrink, a word for each rank; for each group that
// has shrunk here, its nodes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "daemon/jobs/outbox.h"
#include "mlxcomm/v1/peer.pb.h"
#include "proto/types/failure.h"
#include "proto/types/node_id.h"

namespace mlxcomm::jobs {

// A group as this node sees it.
struct GroupView {
  struct Rank {
    NodeId node;
    std::string description;  // "rank 1 (mac-b, pid 7)"
    bool gone = false;        // Local ranks.
  };
  std::string name;
  bool failed = false;
  std::vector<Rank> ranks;
};

// The node's groups. Shrink reads and makes them while it decides, so these are calls and not
// requests.
class ShrinkGroups {
 public:
  // False if there is no such group here.
  virtual bool Look(std::uint64_t group, GroupView& view) = 0;
  // True if its link is up, or waits for a rail to come back.
  virtual bool IsReachable(const NodeId& node) const = 0;
  virtual std::uint64_t NewGroupId() = 0;
  // Makes `new_group` of these ranks of `group`. `sessions` by new rank: the local session that
  // asked; 0: the rank is remote, or no longer asks. False if the id is taken, or there are too
  // many groups.
  [[nodiscard]] virtual bool MakeShrunk(std::uint64_t group, std::uint64_t new_group,
                                        const std::vector<std::uint32_t>& ranks,
                                        const std::vector<std::uint64_t>& sessions) = 0;

 protected:
  ~ShrinkGroups() = default;
};

class Shrink {
 public:
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};
  static constexpr std::size_t kRefusalBytesMax = 300;

  Shrink(const NodeId& self, ShrinkGroups& groups, Outbox& outbox)
      : self_(self), groups_(groups), outbox_(outbox) {}

  // `rank` is the session's in the group, and must not be waiting already.
  void Ask(std::uint64_t session, std::uint64_t group, std::uint32_t rank, std::uint64_t timeout_ns,
           std::uint64_t now_ns);
  // The caller gave up, or its process ended. No answer follows.
  void Withdraw(std::uint64_t session, std::uint64_t group);
  // A local rank of a failed group is gone, or has left.
  void OnChanged(std::uint64_t group);
  // The group was removed from this node, and no local rank asks about it.
  void OnGroupRemoved(std::uint64_t group);

  void OnNodeUp(const NodeId& node);
  void OnNodeLost(const NodeId& node);
  // False if no well-behaved daemon sends it.
  [[nodiscard]] bool OnState(const NodeId& node, const v1::ShrinkState& state);
  [[nodiscard]] bool OnFormed(const NodeId& node, const v1::ShrinkFormed& formed);
  void OnJoined(const NodeId& node, const v1::ShrinkJoined& joined);
  void OnReady(const NodeId& node, const v1::ShrinkReady& ready);

  void OnTime(std::uint64_t now_ns);
  std::uint64_t NextDeadline() const;
  // Reports, for status, which ranks wait, and for which. False if no local rank has asked, or all
  // ranks have.
  bool Describe(std::uint64_t group, std::uint64_t now_ns, v1::WaitStatus& wait) const;
  std::size_t entry_count() const { return rounds_.size() + forming_.size() + ready_.size(); }

 private:
  enum class Word : std::uint8_t { kNothing, kAsked, kGone };
  struct Asker {
    std::uint64_t session = 0;
    std::uint64_t deadline_ns = 0;
    std::uint64_t timeout_ns = 0;
    std::uint64_t since_ns = 0;
  };
  using Askers = std::map<std::uint32_t, Asker>;  // Keyed by rank in the failed group.
  // A failed group that may shrink.
  struct Round {
    GroupView view;
    Askers askers;            // Local.
    std::vector<Word> words;  // Indexed by rank.
    std::string reported;     // The last state sent from here, serialized.
  };
  // A new group that is not known to exist everywhere yet.
  struct Forming {
    std::uint64_t group = 0;  // The failed one.
    NodeId former;
    std::uint32_t first_rank = 0;  // The lowest remaining rank; its node is the former.
    std::vector<NodeId> nodes;     // Other nodes.
    // The first rank of each: its number in the new group, and its description.
    std::vector<std::pair<std::uint32_t, std::string>> first_ranks;
    // Nodes that have not joined (former), or that have not answered (in doubt).
    std::vector<NodeId> awaited;
    Askers askers;                                    // Empty while in doubt: they ask again.
    std::map<std::uint32_t, std::uint64_t> sessions;  // Local sessions with a place, by rank.
    bool in_doubt = false;
  };

  Round* RoundOf(std::uint64_t group);  // nullptr if there is no such group here.
  bool Refresh(std::uint64_t group, Round& round) const;
  v1::ShrinkState StateOf(std::uint64_t group, const Round& round) const;
  void SendState(std::uint64_t group, Round& round);
  void SendState(const NodeId& node, const v1::ShrinkState& state);
  void Decide(std::uint64_t group);
  void Form(std::uint64_t group, Round& round, const std::vector<std::uint32_t>& ranks);
  // False if the group cannot be made; all ranks keep asking.
  bool BeginForming(std::uint64_t group, std::uint64_t new_group, const NodeId& former,
                    Round& round, const std::vector<std::uint32_t>& ranks);
  bool IsForItsSenderToForm(const NodeId& node, const std::vector<std::uint32_t>& ranks,
                            const Round& round) const;
  void RefuseLeftOut(std::uint64_t group, Round& round, const NodeId& former);
  void SendJoined(const NodeId& node, std::uint64_t new_group, const std::string& refusal);
  void Refuse(std::uint64_t session, std::uint64_t group, Failure failure) {
    outbox_.emplace_back(ShrinkRefused{session, group, std::move(failure)});
  }
  void SendReady(const NodeId& node, std::uint64_t new_group);
  void FinishIfJoined(std::uint64_t new_group);
  void Settle(std::uint64_t new_group);
  void Doubt(std::uint64_t new_group, Forming& forming);
  void AnswerDoubt(const NodeId& node, const v1::ShrinkState& state);
  bool IsInDoubt(std::uint64_t group) const;
  void NoteReady(const NodeId& node, const v1::ShrinkState& state);
  void AbandonDoubtful(std::uint64_t group);
  Failure LateFailure(std::uint64_t group, const Asker& asker) const;

  NodeId self_;
  ShrinkGroups& groups_;
  Outbox& outbox_;
  std::map<std::uint64_t, Round> rounds_;     // Keyed by failed group.
  std::map<std::uint64_t, Forming> forming_;  // Keyed by new group.
  // Keyed by new group whose ranks have been answered: its other nodes.
  std::map<std::uint64_t, std::vector<NodeId>> ready_;
};

}  // namespace mlxcomm::jobs
