#include "daemon/collective/group.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace mlxcomm::collective {

Group::Group(std::uint64_t id, std::string name, GroupLayout layout, InFlight& in_flight,
             ActionQueue& actions)
    : id_(id),
      name_(std::move(name)),
      layout_(std::move(layout)),
      in_flight_(in_flight),
      actions_(actions),
      stash_(layout_.node_count(), layout_.self()),
      inquest_(layout_, name_),
      local_(layout_.local_ranks().size()),
      remote_(layout_.rank_count()),
      local_ranks_left_(local_.size()) {}

Group::~Group() {
  for (const auto& operation : operations_) in_flight_.Unregister(operation->id);
}

bool Group::TakeCredit(std::uint16_t node, std::uint32_t execution) {
  if (stash_.TakeCredit(node)) return true;
  credit_waiters_.emplace_back(node, execution);
  return false;
}

void Group::FreeStash(std::int32_t slot) {
  const std::uint16_t node = stash_.NodeOf(slot);
  const std::uint32_t frames = stash_.Free(slot);
  if (frames == 0) return;
  Action& action = actions_.emplace_back();
  action.kind = Action::Kind::kSendCredit;
  action.key.group = id_;
  action.node = layout_.node(node);
  action.bytes = frames;
}

LocalWork& Group::NewWork(std::uint32_t execution, std::uint32_t step, std::uint32_t chunk,
                          std::uint64_t& cookie) {
  InFlight::WorkSlot& slot = in_flight_.NewWork(cookie);
  slot.operation = execution;
  slot.step = step;
  slot.chunk = chunk;
  return slot.work;
}

void Group::Answer(const Call& call, const Failure& failure, bool group_failed) {
  Action& action = actions_.emplace_back();
  action.kind = Action::Kind::kComplete;
  action.key.group = id_;
  action.session = call.session;
  action.ticket = call.ticket;
  action.failure = failure;
  action.group_failed = group_failed;
}

std::string Group::CheckArguments(const Call& call) const {
  const Signature& signature = call.signature;
  const bool reduces = signature.kind == OperationKind::kAllReduce;
  if (reduces != (signature.op != ReduceOperator::kNone)) {
    return absl::StrCat("operator: ", OperationKindName(signature.kind),
                        reduces ? " needs one (sum)" : " takes none");
  }
  const std::uint64_t element_bytes = DataTypeBytes(signature.type);
  if (signature.kind == OperationKind::kAllGather) {
    const std::uint64_t room = call.output_bytes_available / element_bytes / layout_.rank_count();
    if (signature.count > room) {
      return absl::StrCat("output: all_gather of ", signature.count, " elements from each of ",
                          layout_.rank_count(), " ranks needs ", layout_.rank_count(), " x ",
                          signature.count, " elements in the arena; there is room for ", room,
                          " each");
    }
  }
  if (signature.kind == OperationKind::kSend || signature.kind == OperationKind::kReceive) {
    if (call.peer_rank >= layout_.rank_count() || call.peer_rank == call.rank) {
      return absl::StrCat("peer rank ", call.peer_rank, ": must be another rank below ",
                          layout_.rank_count());
    }
  }
  return {};
}

OperationKey Group::NextKey(const Call& call) {
  OperationKey key;
  key.group = id_;
  if (call.signature.kind == OperationKind::kSend) {
    key.source_rank = call.rank;
    key.destination_rank = call.peer_rank;
    key.tag = call.tag;
    key.number = sends_[{call.rank, call.peer_rank, call.tag}]++;
  } else if (call.signature.kind == OperationKind::kReceive) {
    key.source_rank = call.peer_rank;
    key.destination_rank = call.rank;
    key.tag = call.tag;
    key.number = receives_[{call.peer_rank, call.rank, call.tag}]++;
  } else {
    key.number = local_[static_cast<std::size_t>(layout_.LocalIndexOf(call.rank))].collectives++;
  }
  return key;
}

Operation& Group::FindOrAdd(const OperationKey& key) {
  const auto found = by_key_.find(key);
  if (found != by_key_.end()) return *found->second;
  if (free_operations_.empty()) {
    operations_.push_back(std::make_unique<Operation>(static_cast<ExecutionHost&>(*this)));
    free_operations_.push_back(operations_.back().get());
    operations_.back()->id = in_flight_.Register(this, operations_.back().get());
  }
  Operation& operation = *free_operations_.back();
  free_operations_.pop_back();
  operation.in_use = true;
  operation.key = key;
  operation.calls.resize(local_.size());
  if (key.point_to_point()) {
    operation.calls_awaited = (layout_.LocalIndexOf(key.source_rank) >= 0 ? 1u : 0u) +
                              (layout_.LocalIndexOf(key.destination_rank) >= 0 ? 1u : 0u);
  } else {
    operation.calls_awaited = static_cast<std::uint32_t>(local_.size());
  }
  by_key_.emplace(key, &operation);
  return operation;
}

void Group::Submit(const Call& call, std::uint64_t now_ns) {
  if (inquest_.closed()) return Answer(call, inquest_.verdict(), /*group_failed=*/true);
  const std::string wrong = CheckArguments(call);
  if (!wrong.empty()) {
    return Answer(call, {FailureCode::kInvalidArgument, kNoRank, wrong}, /*group_failed=*/false);
  }
  const OperationKey key = NextKey(call);
  Operation& operation = FindOrAdd(key);
  Operation::LocalCall& local =
      operation.calls[static_cast<std::size_t>(layout_.LocalIndexOf(call.rank))];
  local.called = true;
  local.call = call;
  local.submitted_ns = now_ns;
  local.deadline_ns = now_ns + std::min(call.timeout_ns, kNever - 1 - now_ns);
  --operation.calls_awaited;
  if (inquest_.open()) return;  // Ends with the others when the inquest closes.

  if (!operation.has_signature) {
    operation.has_signature = true;
    operation.signature = call.signature;
  }
  const bool differs_remotely =
      operation.remote_digest != 0 && operation.remote_digest != call.signature.Digest();
  if (differs_remotely || !operation.signature.Agrees(call.signature)) {
    return Fail({FailureCode::kMismatch, kNoRank, {}}, key, now_ns);
  }
  if (FailIfRankHasLeft(operation, now_ns)) return;
  if (operation.calls_awaited == 0) Start(operation, now_ns);
}

void Group::Start(Operation& operation, std::uint64_t now_ns) {
  operation.running = true;
  buffers_.clear();
  for (const Operation::LocalCall& local : operation.calls) {
    buffers_.push_back({local.call.input, local.call.output});
  }
  Execution& execution = operation.execution;
  MakePlan(operation.signature, layout_,
           {operation.key.source_rank, operation.key.destination_rank}, execution.plan());
  execution.Begin({operation.id, operation.key, operation.signature, &layout_}, buffers_);
  bool fits = true;
  for (const Operation::EarlyGrant& grant : operation.early_grants) {
    fits = fits && execution.OnGrant(grant.node, grant.tag);
  }
  for (const Operation::EarlyEager& eager : operation.early_eager) {
    fits = fits && execution.OnEager(eager.node, eager.tag, eager.bytes, eager.stash);
  }
  operation.early_grants.clear();
  operation.early_eager.clear();
  if (!fits) {
    // The digest agreed, so the nodes planned differently: not the caller's fault.
    Fail({FailureCode::kInternal, kNoRank,
          absl::StrCat("nodes disagree on the plan of ", DescribeKey(operation.key), " of group ",
                       name_, "; do all run the same version of mlxcommd?")},
         operation.key, now_ns);
    return;
  }
  FinishIfDone(operation);
}

void Group::FinishIfDone(Operation& operation) {
  if (operation.running && !operation.execution.aborted() && operation.execution.finished() &&
      operation.execution.quiet()) {
    for (std::size_t i = 0; i < operation.calls.size(); ++i) {
      if (!operation.calls[i].called) continue;
      ++local_[i].operations_done;
      Answer(operation.calls[i].call, Failure{}, /*group_failed=*/false);
    }
    Recycle(operation);
  } else if (inquest_.closed()) {
    EndOperations();
  }
}

void Group::Recycle(Operation& operation) {
  by_key_.erase(operation.key);
  for (const Operation::EarlyEager& eager : operation.early_eager) FreeStash(eager.stash);
  operation.Reset();
  free_operations_.push_back(&operation);
}

// True for an operation that has been carried out here already.
bool Group::IsOver(const OperationKey& key) const {
  if (!key.point_to_point()) {
    std::uint64_t called_by_all = kNever;
    for (const LocalRank& local : local_) {
      called_by_all = std::min(called_by_all, local.collectives);
    }
    return key.number < called_by_all;
  }
  const Pair pair{key.source_rank, key.destination_rank, key.tag};
  const auto& counted = layout_.LocalIndexOf(key.source_rank) >= 0 ? sends_ : receives_;
  const auto found = counted.find(pair);
  return found != counted.end() && key.number < found->second;
}

bool Group::NodeTakesPart(std::uint16_t node, const OperationKey& key) const {
  if (!key.point_to_point()) return true;
  if (key.source_rank >= layout_.rank_count() || key.destination_rank >= layout_.rank_count()) {
    return false;
  }
  const std::uint16_t source = layout_.node_of(key.source_rank);
  const std::uint16_t destination = layout_.node_of(key.destination_rank);
  return (source == node && destination == layout_.self()) ||
         (destination == node && source == layout_.self());
}

Operation* Group::FindForPeer(const PeerFrame& frame, std::uint64_t now_ns) {
  const auto found = by_key_.find(frame.key);
  if (found == by_key_.end() && (IsOver(frame.key) || by_key_.size() >= kEarlyMax)) return nullptr;
  Operation& operation = FindOrAdd(frame.key);
  if (operation.has_signature && operation.signature.Digest() != frame.digest) {
    Fail({FailureCode::kMismatch, kNoRank, {}}, frame.key, now_ns);
  } else if (operation.remote_digest != 0 && operation.remote_digest != frame.digest) {
    Fail({FailureCode::kMismatch, kNoRank, {}}, frame.key, now_ns);
  }
  operation.remote_digest = frame.digest;
  return &operation;
}

bool Group::OnGrant(std::uint16_t node, const PeerFrame& frame, std::uint64_t now_ns) {
  if (!NodeTakesPart(node, frame.key)) return false;
  if (failed()) return true;  // Whatever still comes for a failed group is let go.
  Operation* const operation = FindForPeer(frame, now_ns);
  if (operation == nullptr) return false;
  if (failed()) return true;
  if (operation->running) {
    if (!operation->execution.OnGrant(node, frame.step)) return false;
    FinishIfDone(*operation);
    return true;
  }
  if (operation->early_grants.size() >= kEarlyMax) return false;
  operation->early_grants.push_back({node, frame.step});
  return true;
}

bool Group::OnEager(std::uint16_t node, const PeerFrame& frame,
                    std::span<const std::byte> payload, std::uint64_t now_ns) {
  if (!NodeTakesPart(node, frame.key) || node == layout_.self()) return false;
  if (failed()) return true;
  Operation* const operation = FindForPeer(frame, now_ns);
  if (operation == nullptr) return false;
  if (failed()) return true;
  const std::int32_t slot = stash_.Put(node, payload);
  if (slot < 0) return false;
  if (!operation->running) {
    operation->early_eager.push_back({node, frame.step, payload.size(), slot});
    return true;
  }
  if (!operation->execution.OnEager(node, frame.step, payload.size(), slot)) {
    FreeStash(slot);
    return false;
  }
  FinishIfDone(*operation);
  return true;
}

bool Group::OnData(std::uint16_t node, const PeerFrame& frame, std::uint64_t) {
  const auto found = by_key_.find(frame.key);
  if (found == by_key_.end() || failed()) return failed();
  Operation& operation = *found->second;
  if (!operation.running ||
      !operation.execution.OnData(node, frame.step, frame.offset, frame.bytes)) {
    return false;
  }
  FinishIfDone(operation);
  return true;
}

bool Group::OnCredit(std::uint16_t node, std::uint64_t frames) {
  if (!stash_.ReturnCredit(node, frames)) return false;
  // Those who still find none put themselves on the list again.
  std::vector<std::pair<std::uint16_t, std::uint32_t>> waiters;
  waiters.swap(credit_waiters_);
  for (const auto& [waited_for, id] : waiters) {
    if (waited_for != node) {
      credit_waiters_.emplace_back(waited_for, id);
      continue;
    }
    Operation* const operation = in_flight_.Find(id).operation;
    if (operation == nullptr || !operation->in_use || !operation->running) continue;
    operation->execution.OnCredit(node);
    FinishIfDone(*operation);
  }
  return true;
}

void Group::OnDataReleased(Operation& operation, std::uint32_t step, std::uint64_t) {
  if (!operation.in_use || !operation.running) return;
  operation.execution.OnDataReleased(step);
  FinishIfDone(operation);
}

void Group::OnLocalWorkDone(Operation& operation, std::uint32_t step, std::uint32_t chunk,
                            std::uint64_t) {
  operation.execution.OnLocalWorkDone(step, chunk);
  FinishIfDone(operation);
}

void Group::OnWithdrawn(std::uint16_t node, const OperationKey& key, std::uint64_t) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end() || !found->second->running) return;
  found->second->execution.OnWithdrawn(node);
  FinishIfDone(*found->second);
}

}  // namespace mlxcomm::collective
