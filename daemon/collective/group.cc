#include "daemon/collective/group.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/types/operation_shape.h"

namespace mlxcomm::collective {

Group::Group(std::uint64_t id, std::string name, GroupLayout layout, const LinkCosts& costs,
             InFlight& in_flight, ScratchMemory& scratch, const CreditOptions& credit,
             ActionQueue& actions, std::uint64_t& alarm, OperationObserver* observer,
             const IsStoppedCheck& is_stopped)
    : id_(id),
      name_(std::move(name)),
      layout_(std::move(layout)),
      costs_(costs),
      in_flight_(in_flight),
      scratch_(scratch),
      actions_(actions),
      observer_(observer),
      alarm_(alarm),
      stash_(layout_.node_count(), credit),
      inquest_(layout_, ShownName()),
      roll_call_(layout_),
      is_stopped_(is_stopped),
      answered_ns_(layout_.node_count()),
      local_(layout_.local_ranks().size()),
      remote_(layout_.rank_count()),
      local_ranks_left_(local_.size()),
      credit_queues_(layout_.node_count()) {}

Group::~Group() {
  for (const auto& operation : operations_) {
    in_flight_.Unregister(operation->id);
    if (operation->execution.scratch() != nullptr) scratch_.Return(operation->execution.scratch());
  }
}

bool Group::TakeCredit(std::uint16_t node, std::uint32_t execution, std::uint32_t step) {
  CreditQueue& queue = credit_queues_[node];
  const bool next = queue.serving || queue.served == queue.waiters.size();
  if (next && stash_.TakeCredit(node)) return true;
  queue.waiters.push_back({execution, step});
  return false;
}

void Group::Unsolicit() {
  solicit_again_ = solicit_again_ || stash_.IsAtSolicitedLimit();
  stash_.Unsolicit();
}

std::vector<Operation*> Group::InOrder() const {
  std::vector<Operation*> operations;
  PutInOrder(operations);
  return operations;
}

void Group::PutInOrder(std::vector<Operation*>& operations) const {
  operations.clear();
  for (const auto& [key, operation] : by_key_) operations.push_back(operation);
  std::ranges::sort(operations, {}, &Operation::key);
}

void Group::SolicitFrom(std::uint16_t node) {
  PutInOrder(soliciting_);
  for (Operation* const operation : soliciting_) {
    if (operation->running) operation->execution.SolicitFrom(node);
  }
}

void Group::FreeStash(std::int32_t slot) {
  const std::uint16_t node = stash_.NodeOf(slot);
  const std::uint32_t frames = stash_.Free(slot);
  if (frames == 0) return;
  Action& action = actions_.emplace_back();
  action.kind = Action::Kind::kSend;
  action.node = layout_.node(node);
  action.frame = {.type = wire::FrameType::kCredit, .group = id_, .offset = frames};
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

std::string Group::TakeArguments(const Call& call) {
  counts_.clear();
  const Signature& signature = call.signature;
  const char* const kind = OperationKindName(signature.kind);
  if (Reduces(signature.kind) != (signature.op != ReduceOperator::kNone)) {
    return absl::StrCat("operator: ", kind,
                        Reduces(signature.kind)
                            ? " needs one (" + kReduceOperators.Names(", ") + ")"
                            : " takes none");
  }
  if (!HasMeaning(signature.type, signature.op)) {
    return absl::StrCat("operator: ", ReduceOperatorName(signature.op), " has no meaning for ",
                        DataTypeName(signature.type));
  }
  if (HasRoot(signature.kind) && signature.root >= layout_.rank_count()) {
    return absl::StrCat("root ", signature.root, ": must be a rank below ", layout_.rank_count());
  }
  if (IsPointToPoint(signature.kind) &&
      (call.peer_rank >= layout_.rank_count() || call.peer_rank == call.rank)) {
    return absl::StrCat("peer rank ", call.peer_rank, ": must be another rank below ",
                        layout_.rank_count());
  }
  std::string wrong = TakeCounts(call);
  return wrong.empty() ? CheckBuffers(call) : wrong;
}

std::string Group::TakeCounts(const Call& call) {
  const std::uint64_t length = CountsLength(call.signature.kind, layout_.rank_count());
  if (length == 0) return {};
  const std::uint64_t bytes = length * sizeof(std::uint64_t);
  if (call.counts == nullptr || call.counts_bytes_available < bytes) {
    return absl::StrCat("counts: the table of ", length, " numbers is not inside the arena");
  }
  counts_.resize(length);
  std::memcpy(counts_.data(), call.counts, bytes);
  return {};
}

std::string Group::CheckBuffers(const Call& call) const {
  const Signature& signature = call.signature;
  OperationShape shape;
  if (!ShapeOf({signature.kind, signature.count, call.rank, layout_.rank_count(), signature.root,
                counts_},
               shape)) {
    return absl::StrCat("count: ", signature.Describe(), " over ", layout_.rank_count(),
                        " ranks is more than ", kElementsMax, " elements");
  }
  const std::uint64_t element_bytes = DataTypeBytes(signature.type);
  const auto check = [&](const char* name, std::uint64_t elements, std::uint64_t available) {
    if (elements <= available / element_bytes) return std::string();
    return absl::StrCat(name, ": ", signature.Describe(), " over ", layout_.rank_count(),
                        " ranks needs ", elements,
                        " elements here; from its offset to the "
                        "arena's end there is room for ",
                        available / element_bytes);
  };
  std::string wrong = check("input", shape.input_elements, call.input_bytes_available);
  return wrong.empty() ? check("output", shape.output_elements, call.output_bytes_available)
                       : wrong;
}

// Compares all_to_all_v counts between local ranks; between nodes the plan's checks do.
bool Group::SendsWhatIsExpected(const Operation& operation) const {
  if (CountsPerRank(operation.signature.kind) != 2) return true;
  const std::vector<std::uint32_t>& ranks = layout_.local_ranks();
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    for (std::size_t k = 0; k < ranks.size(); ++k) {
      const std::uint64_t sent = operation.calls[i].counts[ranks[k]];
      if (sent != operation.calls[k].counts[layout_.rank_count() + ranks[i]]) return false;
    }
  }
  return true;
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
    LocalRank& local = local_[static_cast<std::size_t>(layout_.LocalIndexOf(call.rank))];
    key.number = call.number.value_or(local.collectives);
    local.collectives = std::max(local.collectives, key.number + 1);
  }
  return key;
}

Operation& Group::FindOrAdd(const OperationKey& key) {
  const auto found = by_key_.find(key);
  if (found != by_key_.end()) return *found->second;
  if (free_operations_.empty()) {
    operations_.push_back(std::make_unique<Operation>(*this));
    free_operations_.push_back(operations_.back().get());
    operations_.back()->id = in_flight_.Register(this, operations_.back().get());
  }
  Operation& operation = *free_operations_.back();
  free_operations_.pop_back();
  operation.in_use = true;
  operation.early = true;
  ++early_operations_;
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
  const std::string wrong = TakeArguments(call);
  if (!wrong.empty()) {
    return Answer(call, Invalid(wrong), /*group_failed=*/false);
  }
  const OperationKey key = NextKey(call);
  Operation& operation = FindOrAdd(key);
  Operation::LocalCall& local =
      operation.calls[static_cast<std::size_t>(layout_.LocalIndexOf(call.rank))];
  if (local.called) {
    return Answer(call, Invalid(absl::StrCat("this rank has already called ", DescribeKey(key))),
                  /*group_failed=*/false);
  }
  if (std::exchange(operation.early, false)) --early_operations_;
  local.called = true;
  local.call = call;
  local.counts.swap(counts_);
  if (CountsPerRank(call.signature.kind) == 1) {
    local.call.signature.counts_digest = DigestOf(local.counts);
  }
  local.submitted_ns = now_ns;
  local.asked_ns = 0;
  local.circle.clear();
  // Progress is checked in between.
  const std::uint64_t timeout_ns =
      call.by_liveness ? std::min(call.timeout_ns, kRollCallAgainNs) : call.timeout_ns;
  local.deadline_ns = now_ns + std::min(timeout_ns, kNever - 1 - now_ns);
  alarm_ = std::min(alarm_, local.deadline_ns);
  --operation.calls_awaited;
  if (observer_ != nullptr) observer_->OnCalled(operation, local);
  if (inquest_.open()) return;  // Ends with the others when the inquest closes.

  const Signature& signature = local.call.signature;
  if (!operation.has_signature) {
    operation.has_signature = true;
    operation.signature = signature;
  }
  const bool differs_remotely =
      operation.remote_digest != 0 && operation.remote_digest != signature.Digest();
  if (differs_remotely || !operation.signature.Agrees(signature)) {
    return Fail({FailureCode::kMismatch, kNoRank, {}}, key, now_ns);
  }
  if (FailIfRankHasLeft(operation, now_ns)) return;
  if (operation.calls_awaited == 0) Start(operation, now_ns);
}

void Group::OnMet(std::uint32_t rank, std::uint64_t called, std::uint64_t met) {
  const int index = layout_.LocalIndexOf(rank);
  if (index < 0) return;
  LocalRank& local = local_[static_cast<std::size_t>(index)];
  local.collectives = std::max(local.collectives, called);
  local.met = std::max(local.met, met);
}

void Group::Start(Operation& operation, std::uint64_t now_ns) {
  if (!SendsWhatIsExpected(operation)) {
    return Fail({FailureCode::kMismatch, kNoRank, {}}, operation.key, now_ns);
  }
  buffers_.clear();
  tables_.clear();
  bool in_place = false;
  for (const Operation::LocalCall& local : operation.calls) {
    buffers_.push_back({local.call.input, local.call.output});
    tables_.emplace_back(local.counts);
    in_place = in_place || local.call.input == local.call.output;
  }
  Plan& plan = operation.execution.plan();
  const auto plan_with_scratch = [&]() -> std::byte* {
    MakePlan({operation.signature,
              layout_,
              costs_,
              {operation.key.source_rank, operation.key.destination_rank},
              tables_,
              in_place},
             plan);
    return plan.scratch_bytes == 0 ? nullptr : scratch_.Take(plan.scratch_bytes);
  };
  std::byte* scratch = plan_with_scratch();
  if (plan.scratch_bytes != 0 && scratch == nullptr && !in_place) {
    in_place = true;  // A ring then waits between its passes and needs no scratch memory.
    scratch = plan_with_scratch();
  }
  if (plan.scratch_bytes != 0 && scratch == nullptr) {
    return Fail({FailureCode::kResourceExhausted, kNoRank,
                 absl::StrCat(operation.signature.Describe(), ", ", DescribeKey(operation.key),
                              " of group ", ShownName(), ", needs ", plan.scratch_bytes,
                              " bytes of the daemon's memory; ", scratch_.used_bytes(), " of ",
                              scratch_.limit_bytes(),
                              " are in use. Raise scratch_bytes_max in its configuration, or make "
                              "fewer or smaller calls at once.")},
                operation.key, now_ns);
  }
  operation.running = true;
  if (observer_ != nullptr) observer_->OnMatched(operation);
  operation.execution.Begin({operation.id, operation.key, operation.signature, &layout_}, buffers_,
                            scratch);
  Run(operation, now_ns);
}

void Group::Run(Operation& operation, std::uint64_t now_ns) {
  Execution::Fit fit = Execution::Fit::kFits;
  std::size_t used = 0;
  for (const Operation::EarlyGrant& grant : operation.early_grants) {
    if (fit == Execution::Fit::kFits) fit = operation.execution.OnGrant(grant.node, grant.tag);
  }
  for (const Operation::EarlyEager& eager : operation.early_eager) {
    if (fit != Execution::Fit::kFits) break;
    fit = operation.execution.OnEager(eager.node, eager.tag, eager.bytes, eager.check, eager.stash);
    if (fit == Execution::Fit::kFits) ++used;
  }
  for (std::size_t i = used; i < operation.early_eager.size(); ++i) {
    FreeStash(operation.early_eager[i].stash);
  }
  operation.early_grants.clear();
  operation.early_eager.clear();
  if (fit == Execution::Fit::kViolation) {
    // The digests agreed, so the nodes planned differently: not the caller's fault.
    return Fail(
        {FailureCode::kInternal, kNoRank,
         absl::StrCat("nodes disagree on the plan of ", DescribeKey(operation.key), " of group ",
                      ShownName(), "; do all run the same version of mlxcommd?")},
        operation.key, now_ns);
  }
  if (Accept(operation, fit, now_ns)) FinishIfDone(operation);
}

bool Group::Accept(Operation& operation, Execution::Fit fit, std::uint64_t now_ns) {
  if (fit == Execution::Fit::kMismatch) {
    const OperationKey key = operation.key;
    Fail({FailureCode::kMismatch, kNoRank, {}}, key, now_ns);
  }
  return fit == Execution::Fit::kFits;
}

void Group::Cancel(SessionId session, std::uint64_t ticket, std::uint64_t now_ns) {
  for (const auto& [key, operation] : by_key_) {
    for (const Operation::LocalCall& local : operation->calls) {
      if (!local.called || local.call.session != session || local.call.ticket != ticket) continue;
      const OperationKey cancelled = key;
      return Fail({FailureCode::kCancelled, static_cast<std::int32_t>(local.call.rank),
                   absl::StrCat(layout_.Describe(local.call.rank), " cancelled ", local.Describe(),
                                ", ", DescribeKey(key), " of group ", ShownName(),
                                ". Make a new group of its ranks (shrink) to continue.")},
                  cancelled, now_ns);
    }
  }
}

void Group::ReportFrame(const Operation& operation, std::uint16_t node) {
  if (observer_ != nullptr) observer_->OnPeerFrame(operation, node, layout_.ranks_on(node)[0]);
}

void Group::ReportTraffic(Operation& operation) {
  if (observer_ == nullptr || !operation.running) return;
  const std::uint64_t changes = operation.execution.traffic().changes;
  if (std::exchange(operation.traffic_reported, changes) != changes) observer_->OnMoved(operation);
}

void Group::FinishIfDone(Operation& operation) {
  ReportTraffic(operation);
  if (operation.running && !operation.execution.aborted() && operation.execution.finished() &&
      operation.execution.quiet()) {
    for (std::size_t i = 0; i < operation.calls.size(); ++i) {
      if (!operation.calls[i].called) continue;
      ++local_[i].operations_done;
      Answer(operation.calls[i].call, Failure{}, /*group_failed=*/false);
    }
    if (observer_ != nullptr) observer_->OnEnded(operation, FailureCode::kNone);
    Recycle(operation);
  } else if (inquest_.closed()) {
    EndOperations();
  }
}

void Group::Recycle(Operation& operation) {
  by_key_.erase(operation.key);
  if (operation.early) --early_operations_;
  if (operation.execution.scratch() != nullptr) {
    // Queued actions may still copy eager frames from it.
    Action& action = actions_.emplace_back();
    action.kind = Action::Kind::kReturnScratch;
    action.destination = operation.execution.TakeScratch();
  }
  for (const Operation::EarlyEager& eager : operation.early_eager) FreeStash(eager.stash);
  operation.Reset();
  free_operations_.push_back(&operation);
}

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

Operation* Group::FindForPeer(const wire::FrameHeader& frame, std::uint64_t now_ns) {
  const OperationKey key = KeyOf(frame);
  const auto found = by_key_.find(key);
  if (found == by_key_.end() && IsOver(key)) return nullptr;
  if (found == by_key_.end() && early_operations_ >= kEarlyMax) {
    // A dropped frame would not be sent again, and the operation would hang.
    Fail({FailureCode::kResourceExhausted, kNoRank,
          absl::StrCat("other nodes' ranks are ahead of those here by ", early_operations_,
                       " operations of group ", ShownName(), ", which is the limit, with ",
                       DescribeKey(key), ": wait for some before making more")},
         key, now_ns);
    return nullptr;
  }
  Operation& operation = FindOrAdd(key);
  const bool differs = (operation.has_signature && operation.signature.Digest() != frame.digest) ||
                       (operation.remote_digest != 0 && operation.remote_digest != frame.digest);
  operation.remote_digest = frame.digest;
  if (differs) Fail({FailureCode::kMismatch, kNoRank, {}}, key, now_ns);
  return &operation;
}

bool Group::OnGrant(std::uint16_t node, const wire::FrameHeader& frame, std::uint64_t now_ns) {
  if (!NodeTakesPart(node, KeyOf(frame))) return false;
  if (failed()) return true;
  Operation* const operation = FindForPeer(frame, now_ns);
  if (failed()) return true;
  // A solicited frame may already have been on its way by credit.
  if (operation == nullptr) return IsOver(KeyOf(frame));
  ReportFrame(*operation, node);
  if (operation->running) {
    const Execution::Fit fit = operation->execution.OnGrant(node, frame.step);
    if (Accept(*operation, fit, now_ns)) FinishIfDone(*operation);
    return fit != Execution::Fit::kViolation;
  }
  if (operation->early_grants.size() >= kEarlyMax) return false;
  operation->early_grants.push_back({node, frame.step});
  return true;
}

bool Group::OnEager(std::uint16_t node, const wire::FrameHeader& frame,
                    std::span<const std::byte> payload, std::uint64_t now_ns) {
  if (!NodeTakesPart(node, KeyOf(frame)) || node == layout_.self()) return false;
  if (failed()) return true;
  Operation* const operation = FindForPeer(frame, now_ns);
  if (failed()) return true;
  if (operation == nullptr) {
    // This node has all that it needed for the operation: the sender called another one.
    Fail({FailureCode::kMismatch, kNoRank, {}}, KeyOf(frame), now_ns);
    return true;
  }
  const bool starved_before = stash_.Starved(node);
  const std::int32_t slot = Stash(node, frame, payload, *operation);
  if (slot < 0) return false;
  ReportFrame(*operation, node);
  if (!operation->running) {
    operation->early_eager.push_back({node, frame.step, payload.size(), frame.offset, slot});
  } else {
    const Execution::Fit fit =
        operation->execution.OnEager(node, frame.step, payload.size(), frame.offset, slot);
    if (fit != Execution::Fit::kFits) FreeStash(slot);
    if (Accept(*operation, fit, now_ns)) FinishIfDone(*operation);
    if (fit == Execution::Fit::kViolation) return false;
  }
  if (failed()) return true;
  if (!starved_before && stash_.Starved(node)) SolicitFrom(node);
  if (std::exchange(solicit_again_, false)) {
    for (std::uint16_t other = 0; other < layout_.node_count(); ++other) SolicitFrom(other);
  }
  return true;
}

std::int32_t Group::Stash(std::uint16_t node, const wire::FrameHeader& frame,
                          std::span<const std::byte> payload, Operation& operation) {
  if ((frame.flags & wire::kSolicited) == 0) return stash_.Put(node, payload);
  if (!operation.running || !operation.execution.HasSolicited(node, frame.step)) return -1;
  return stash_.PutSolicited(node, payload);
}

bool Group::OnData(std::uint16_t node, const wire::FrameHeader& frame, std::uint64_t now_ns) {
  const auto found = by_key_.find(KeyOf(frame));
  if (found == by_key_.end() || failed()) return failed();
  Operation& operation = *found->second;
  if (!operation.running) return false;
  ReportFrame(operation, node);
  const Execution::Fit fit =
      operation.execution.OnData(node, frame.step, frame.offset, frame.payload_bytes);
  if (Accept(operation, fit, now_ns)) FinishIfDone(operation);
  return fit != Execution::Fit::kViolation;
}

bool Group::OnCredit(std::uint16_t node, std::uint64_t frames) {
  if (!stash_.ReturnCredit(node, frames)) return false;
  CreditQueue& queue = credit_queues_[node];
  // One frame each; steps that have been served, granted or recycled since then take none.
  while (queue.served < queue.waiters.size() && stash_.HasCredit(node)) {
    const CreditWaiter waiter = queue.waiters[queue.served++];
    Operation* const operation = in_flight_.Find(waiter.operation).operation;
    if (operation == nullptr || !operation->in_use || !operation->running) continue;
    queue.serving = true;
    operation->execution.OnCredit(waiter.step);
    queue.serving = false;
    FinishIfDone(*operation);
  }
  if (queue.served == queue.waiters.size()) {
    queue.waiters.clear();
    queue.served = 0;
  }
  return true;
}

void Group::OnDataReleased(Operation& operation, std::uint32_t step, std::uint8_t chunk) {
  if (!operation.in_use || !operation.running) return;
  operation.execution.OnDataReleased(step, chunk);
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
