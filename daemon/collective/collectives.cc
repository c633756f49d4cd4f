#include "daemon/collective/collectives.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace mlxcomm::collective {

bool Collectives::AddGroup(std::uint64_t group, const std::string& name,
                           std::vector<Member> members, const LinkCosts& costs) {
  if (members.empty() || groups_.contains(group)) return false;
  GroupLayout layout(std::move(members), self_);
  const std::size_t local = layout.local_ranks().size();
  if (local == 0 || local > kLocalRanksMax || layout.node_count() > kNodesMax) return false;
  const auto [added, is_new] = groups_.emplace(
      group, std::make_unique<Group>(group, name, std::move(layout), costs, in_flight_, scratch_,
                                     credit_, actions_, alarm_, observer_, is_stopped_));
  in_order_.insert(PlaceInOrder(group), added->second.get());
  CountNodes(added->second->layout(), /*made=*/true);
  return true;
}

void Collectives::CountNodes(const GroupLayout& layout, bool made) {
  for (std::uint16_t i = 0; i < layout.node_count(); ++i) {
    const auto entry = groups_of_node_.try_emplace(layout.node(i), 0).first;
    if (made) {
      ++entry->second;
    } else if (--entry->second == 0) {
      groups_of_node_.erase(entry);
    }
  }
}

std::vector<Group*>::iterator Collectives::PlaceInOrder(std::uint64_t group) {
  return std::ranges::lower_bound(in_order_, group, {}, &Group::id);
}

bool Collectives::RemoveIfOver(std::uint64_t group) {
  const auto found = groups_.find(group);
  if (found == groups_.end() || !found->second->over()) return false;
  in_order_.erase(PlaceInOrder(group));
  CountNodes(found->second->layout(), /*made=*/false);
  groups_.erase(found);
  return true;
}

Group* Collectives::Find(std::uint64_t group) {
  const auto found = groups_.find(group);
  return found == groups_.end() ? nullptr : found->second.get();
}

void Collectives::Submit(const Call& call, std::uint64_t now_ns) {
  Group* const found = Find(call.group);
  if (found != nullptr) return found->Submit(call, now_ns);
  Action& action = actions_.emplace_back();
  action.kind = Action::Kind::kComplete;
  action.key.group = call.group;
  action.session = call.session;
  action.ticket = call.ticket;
  action.failure =
      Invalid(absl::StrCat("group ", call.group, " is not one of this process's groups"));
}

Collectives::Sender Collectives::FindSender(const NodeId& from, std::uint64_t group) {
  Group* const found = Find(group);
  if (found == nullptr) return {};
  const int node = found->layout().IndexOf(from);
  if (node < 0) return {.is_violation = true};
  return {found, static_cast<std::uint16_t>(node)};
}

bool Collectives::OnGrant(const NodeId& from, const wire::FrameHeader& frame,
                          std::uint64_t now_ns) {
  const Sender sender = FindSender(from, frame.group);
  if (sender.group == nullptr) return !sender.is_violation;
  return sender.group->OnGrant(sender.node, frame, now_ns);
}

bool Collectives::OnEager(const NodeId& from, const wire::FrameHeader& frame,
                          std::span<const std::byte> payload, std::uint64_t now_ns) {
  const Sender sender = FindSender(from, frame.group);
  if (sender.group == nullptr) return !sender.is_violation;
  return sender.group->OnEager(sender.node, frame, payload, now_ns);
}

bool Collectives::OnData(const NodeId& from, const wire::FrameHeader& frame, std::uint64_t now_ns) {
  const Sender sender = FindSender(from, frame.group);
  if (sender.group == nullptr) return !sender.is_violation;
  return sender.group->OnData(sender.node, frame, now_ns);
}

bool Collectives::OnCredit(const NodeId& from, std::uint64_t group, std::uint64_t frames) {
  const Sender sender = FindSender(from, group);
  if (sender.group == nullptr) return !sender.is_violation;
  return sender.group->OnCredit(sender.node, frames);
}

void Collectives::OnReport(const NodeId& from, const v1::FailureReport& report,
                           std::uint64_t now_ns) {
  const Sender sender = FindSender(from, report.group());
  if (sender.group != nullptr) sender.group->OnReport(sender.node, report, now_ns);
}

void Collectives::OnRollCall(const NodeId& from, const v1::RollCall& message,
                             std::uint64_t now_ns) {
  const Sender sender = FindSender(from, message.group());
  if (sender.group != nullptr) sender.group->OnRollCall(sender.node, message, now_ns);
}

void Collectives::OnDetached(const NodeId& from, std::uint64_t group, std::uint32_t rank,
                             std::uint64_t collectives, std::uint64_t now_ns) {
  const Sender sender = FindSender(from, group);
  if (sender.group == nullptr || rank >= sender.group->layout().rank_count() ||
      sender.group->layout().node_of(rank) != sender.node) {
    return;
  }
  sender.group->OnRemoteRankDetached(rank, collectives, now_ns);
}

void Collectives::OnNodeLost(const NodeId& node, const std::string& why, std::uint64_t now_ns) {
  for (Group* const group : in_order_) {
    const int index = group->layout().IndexOf(node);
    if (index >= 0) group->OnNodeLost(static_cast<std::uint16_t>(index), why, now_ns);
  }
}

void Collectives::OnDataReleased(std::uint64_t cookie) {
  const InFlight::Entry entry = in_flight_.Find(ExecutionOfCookie(cookie));
  if (entry.group == nullptr) return;
  entry.group->OnDataReleased(*entry.operation, StepOfCookie(cookie), ChunkOfCookie(cookie));
}

void Collectives::OnLocalWorkDone(std::uint64_t cookie, std::uint64_t now_ns) {
  const InFlight::WorkSlot& slot = in_flight_.Work(cookie);
  const InFlight::Entry entry = in_flight_.Find(slot.operation);
  const std::uint32_t step = slot.step;
  const std::uint32_t chunk = slot.chunk;
  in_flight_.FreeWork(cookie);
  entry.group->OnLocalWorkDone(*entry.operation, step, chunk, now_ns);
}

void Collectives::OnWithdrawn(const NodeId& node, const OperationKey& key, std::uint64_t now_ns) {
  const Sender sender = FindSender(node, key.group);
  if (sender.group != nullptr) sender.group->OnWithdrawn(sender.node, key, now_ns);
}

void Collectives::OnTime(std::uint64_t now_ns) {
  if (now_ns < alarm_) return;
  for (Group* const group : in_order_) group->OnTime(now_ns);
  alarm_ = kNever;
  for (const auto& [id, group] : groups_) alarm_ = std::min(alarm_, group->NextDeadline());
}

bool Collectives::UsesSession(SessionId session) const {
  return std::ranges::any_of(
      groups_, [session](const auto& entry) { return entry.second->UsesSession(session); });
}

}  // namespace mlxcomm::collective
