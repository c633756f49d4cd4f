// The collective core of one daemon: all groups; passes each event to the group that it concerns.
//
//   events (calls, frames, answers, time) ─▶ Collectives ─▶ ActionQueue ─▶ node
//
// After each event the node carries out actions() in order, until the queue is empty, and clears it.
//
// Owner: Node. Thread: the loop's. Memory: allocates for new groups and while tables
// grow to their largest; a warm operation allocates nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/collective/group.h"

namespace mlxcomm::collective {

class Collectives {
 public:
  // `observer` may be nullptr.
  Collectives(
      const NodeId& self, ScratchMemory& scratch, const CreditOptions& credit = {},
      OperationObserver* observer = nullptr,
      IsStoppedCheck is_stopped = [](std::uint64_t) { return false; })
      : self_(self),
        scratch_(scratch),
        credit_(credit),
        observer_(observer),
        is_stopped_(std::move(is_stopped)) {}

  ActionQueue& actions() { return actions_; }

  // False: the id is taken, or the layout has no local rank or more than
  // kLocalRanksMax of them or kNodesMax nodes.
  [[nodiscard]] bool AddGroup(std::uint64_t group, const std::string& name,
                              std::vector<Member> members, const LinkCosts& costs = {});
  bool RemoveIfOver(std::uint64_t group);
  Group* Find(std::uint64_t group);
  const Group* Find(std::uint64_t group) const {
    return const_cast<Collectives*>(this)->Find(group);
  }
  // A group that is not over has ranks there. Asked for every node at every tick, so it costs one look-up.
  bool HasRanksOn(const NodeId& node) const { return groups_of_node_.contains(node); }
  template <typename Visitor>
  void ForEach(Visitor visitor) const {
    for (const auto& [id, group] : groups_) visitor(*group);
  }

  // A call on an unknown group is answered with INVALID_ARGUMENT.
  void Submit(std::uint64_t group, const Call& call, std::uint64_t now_ns);

  // Frames from a peer. A frame for a group that is gone is dropped (true); false: no well-behaved
  // daemon sends it.
  [[nodiscard]] bool OnGrant(const NodeId& from, const PeerFrame& frame, std::uint64_t now_ns);
  [[nodiscard]] bool OnEager(const NodeId& from, const PeerFrame& frame,
                             std::span<const std::byte> payload, std::uint64_t now_ns);
  [[nodiscard]] bool OnData(const NodeId& from, const PeerFrame& frame, std::uint64_t now_ns);
  [[nodiscard]] bool OnCredit(const NodeId& from, std::uint64_t group, std::uint64_t frames);
  void OnReport(const NodeId& from, const v1::FailureReport& report, std::uint64_t now_ns);
  void OnRollCall(const NodeId& from, const v1::RollCall& message, std::uint64_t now_ns);
  void OnDetached(const NodeId& from, std::uint64_t group, std::uint32_t rank,
                  std::uint64_t collectives, std::uint64_t now_ns);
  void OnNodeLost(const NodeId& node, const std::string& why, std::uint64_t now_ns);

  // Answers to actions.
  void OnDataReleased(std::uint64_t cookie);
  void OnLocalWorkDone(std::uint64_t cookie, std::uint64_t now_ns);
  void OnWithdrawn(const NodeId& node, const OperationKey& key, std::uint64_t now_ns);

  // The operation that a kLocalWork action belongs to, until its answer.
  const OperationKey& KeyOfWork(std::uint64_t cookie) {
    return in_flight_.Find(in_flight_.Work(cookie).operation).operation->key;
  }

  void OnTime(std::uint64_t now_ns);
  // kNever: none. May be earlier than the true one, never later: only OnTime computes it again,
  // because this is called every turn.
  std::uint64_t NextDeadline() const { return alarm_; }
  bool UsesSession(SessionId session) const;

 private:
  struct Sender {
    Group* group = nullptr;
    std::uint16_t node = 0;
  };
  void CountNodes(const GroupLayout& layout, bool made);
  // The group's place in in_order_, or where it belongs.
  std::vector<Group*>::iterator PlaceInOrder(std::uint64_t group);
  // Empty group: unknown group. A sender outside the group gives node_count().
  Sender FindSender(const NodeId& from, std::uint64_t group);

  NodeId self_;
  ScratchMemory& scratch_;
  CreditOptions credit_;
  OperationObserver* observer_;
  const IsStoppedCheck is_stopped_;
  InFlight in_flight_;
  ActionQueue actions_;
  std::uint64_t alarm_ = kNever;
  absl::flat_hash_map<std::uint64_t, std::unique_ptr<Group>> groups_;
  absl::flat_hash_map<NodeId, std::uint32_t> groups_of_node_;  // How many groups; none: no entry.
  // By id: operations on all groups go in this order, so that a run repeats exactly. Kept up to
  // date, because alarms come while payload moves, when nothing is allocated.
  std::vector<Group*> in_order_;
};

}  // namespace mlxcomm::collective
