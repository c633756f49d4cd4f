// The collective core of one daemon. Passes each event to its group.
//
//   events (calls, frames, answers, time) ─▶ Collectives ─▶ ActionQueue ─▶ node
//
// After each event the node executes actions() in order, until the queue is empty, and clears it.
//
// Allocates for new groups and while tables grow; a warm operation allocates nothing.
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

  // Returns false if the id is taken, or the layout has no local rank, or too many local ranks or
  // nodes.
  [[nodiscard]] bool AddGroup(std::uint64_t group, const std::string& name,
                              std::vector<Member> members, const LinkCosts& costs = {});
  bool RemoveIfOver(std::uint64_t group);
  Group* Find(std::uint64_t group);
  const Group* Find(std::uint64_t group) const {
    return const_cast<Collectives*>(this)->Find(group);
  }
  // Returns whether a group that is not over has ranks there. Called for every node at every tick.
  bool HasRanksOn(const NodeId& node) const { return groups_of_node_.contains(node); }
  template <typename Visitor>
  void ForEach(Visitor visitor) const {
    for (const auto& [id, group] : groups_) visitor(*group);
  }

  void Submit(const Call& call, std::uint64_t now_ns);

  // Frames from a peer. A frame for a removed group is dropped; false: a violation of the protocol.
  [[nodiscard]] bool OnGrant(const NodeId& from, const wire::FrameHeader& frame,
                             std::uint64_t now_ns);
  [[nodiscard]] bool OnEager(const NodeId& from, const wire::FrameHeader& frame,
                             std::span<const std::byte> payload, std::uint64_t now_ns);
  [[nodiscard]] bool OnData(const NodeId& from, const wire::FrameHeader& frame,
                            std::uint64_t now_ns);
  [[nodiscard]] bool OnCredit(const NodeId& from, std::uint64_t group, std::uint64_t frames);
  void OnReport(const NodeId& from, const v1::FailureReport& report, std::uint64_t now_ns);
  void OnRollCall(const NodeId& from, const v1::RollCall& message, std::uint64_t now_ns);
  void OnDetached(const NodeId& from, std::uint64_t group, std::uint32_t rank,
                  std::uint64_t collectives, std::uint64_t now_ns);
  void OnNodeLost(const NodeId& node, const std::string& why, std::uint64_t now_ns);

  void OnDataReleased(std::uint64_t cookie);
  void OnLocalWorkDone(std::uint64_t cookie, std::uint64_t now_ns);
  void OnWithdrawn(const NodeId& node, const OperationKey& key, std::uint64_t now_ns);

  void OnTime(std::uint64_t now_ns);
  // Never later than the true deadline; only OnTime computes it, because this is called every turn.
  std::uint64_t NextDeadline() const { return alarm_; }
  bool UsesSession(SessionId session) const;

 private:
  struct Sender {
    Group* group = nullptr;  // nullptr: unknown, or without ranks there.
    std::uint16_t node = 0;
    bool is_violation = false;  // A frame for a group without ranks there.
  };
  void CountNodes(const GroupLayout& layout, bool made);
  std::vector<Group*>::iterator PlaceInOrder(std::uint64_t group);
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
  absl::flat_hash_map<NodeId, std::uint32_t> groups_of_node_;  // Their number.
  // By id, so that a run repeats exactly. Kept sorted, because alarms are raised while nothing may
  // allocate.
  std::vector<Group*> in_order_;
};

}  // namespace mlxcomm::collective
