#include "daemon/collective/execution.h"

#include <algorithm>

#include "daemon/collective/group.h"
#include "proto/types/invariant.h"

namespace mlxcomm::collective {
namespace {

// Chunks of one step that may be done out of order: the width of done_mask. It also limits
// unacknowledged data to 16 MiB: acknowledgements queue behind the peer's data in the cable's
// buffers, so their round trip depends on the buffers' length, not on the cable's (20 ms at 1 Gb/s
// are 5 MB). A rail has its own limit.
constexpr std::uint32_t kLocalWindow = 64;

std::uint64_t ChunkOffset(std::uint32_t chunk) { return chunk * kChunkBytes; }
std::uint64_t ChunkLength(std::uint64_t bytes, std::uint32_t chunk) {
  return std::min(kChunkBytes, bytes - ChunkOffset(chunk));
}

}  // namespace

Execution::Execution(Group& group) : group_(group) {
  plan_.steps.reserve(kStepsUsual);
  plan_.after.reserve(2 * kStepsUsual);
  buffers_.reserve(kLocalRanksMax);
  states_.reserve(kStepsUsual);
  tagged_.reserve(kStepsUsual);
  unsolicited_.reserve(kStepsUsual);
  successor_begin_.reserve(kStepsUsual + 2);
  successors_.reserve(2 * kStepsUsual);
}

void Execution::Begin(const Setting& setting, const std::vector<Buffers>& buffers,
                      std::byte* scratch) {
  setting_ = setting;
  frame_ = wire::HeaderFor(setting.key);
  frame_.digest = setting.signature.Digest();
  buffers_ = buffers;
  scratch_ = scratch;
  aborted_ = false;
  traffic_ = {};
  under_way_ = 0;
  withdrawals_.clear();
  unsolicited_.clear();
  steps_open_ = plan_.steps.size();
  states_.assign(plan_.steps.size(), StepState{});
  for (std::size_t i = 0; i < states_.size(); ++i) {
    states_[i].chunks = static_cast<std::uint32_t>(ChunkCount(plan_.steps[i].bytes));
  }
  IndexSteps();
  IndexSuccessors();
  for (std::size_t i = 0; i < states_.size(); ++i) Advance(i);
}

void Execution::IndexSteps() {
  tagged_.clear();
  for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
    const Step& step = plan_.steps[i];
    if (step.kind == StepKind::kLocal) continue;
    tagged_.push_back(
        {NameOf(step.node, step.tag, IsReceive(step)), static_cast<std::uint32_t>(i)});
  }
  std::ranges::sort(tagged_, {}, &TaggedStep::name);
}

void Execution::IndexSuccessors() {
  const std::size_t count = plan_.steps.size();
  successor_begin_.assign(count + 2, 0);
  for (const std::int32_t before : plan_.after) {
    ++successor_begin_[static_cast<std::size_t>(before) + 2];
  }
  for (std::size_t i = 2; i < successor_begin_.size(); ++i) {
    successor_begin_[i] += successor_begin_[i - 1];
  }
  successors_.resize(successor_begin_.back());
  for (std::size_t i = 0; i < count; ++i) {
    for (const std::int32_t before : plan_.AfterOf(plan_.steps[i])) {
      successors_[successor_begin_[static_cast<std::size_t>(before) + 1]++] =
          static_cast<std::uint32_t>(i);
    }
  }
}

int Execution::FindStep(std::uint16_t node, std::uint16_t tag, bool receive) const {
  const std::uint64_t name = NameOf(node, tag, receive);
  const auto found = std::ranges::lower_bound(tagged_, name, {}, &TaggedStep::name);
  if (found == tagged_.end() || found->name != name) return -1;
  return static_cast<int>(found->index);
}

std::uint32_t Execution::ReadyChunks(std::size_t index) const {
  const Step& step = plan_.steps[index];
  std::uint32_t ready = states_[index].chunks;
  for (const std::int32_t before : plan_.AfterOf(step)) {
    const StepState& state = states_[static_cast<std::size_t>(before)];
    if (plan_.steps[static_cast<std::size_t>(before)].bytes == step.bytes) {
      ready = std::min(ready, state.done);
    } else if (state.done < state.chunks) {
      return 0;
    }
  }
  return ready;
}

void Execution::Advance(std::size_t index) {
  if (aborted_) return;
  const std::uint32_t ready = ReadyChunks(index);
  if (ready == 0) return;
  switch (plan_.steps[index].kind) {
    case StepKind::kLocal: return AdvanceLocal(index, ready);
    case StepKind::kSend: return AdvanceSend(index, ready);
    case StepKind::kReceive:
    case StepKind::kReduceReceived:
      if (ready == states_[index].chunks) AdvanceReceive(index);
      return;
  }
}

void Execution::AdvanceLocal(std::size_t index, std::uint32_t ready) {
  StepState& state = states_[index];
  while (state.issued < ready && state.issued - state.done < kLocalWindow) {
    IssueLocal(index, state.issued++);
  }
}

void Execution::AdvanceSend(std::size_t index, std::uint32_t ready) {
  const Step& step = plan_.steps[index];
  StepState& state = states_[index];
  if (IsEager(step.bytes)) {
    if (state.issued > 0 || (state.waits && !state.granted)) return;
    if (!state.granted &&
        !group_.TakeCredit(step.node, setting_.id, static_cast<std::uint32_t>(index))) {
      state.waits = true;
      return;
    }
    state.issued = 1;
    Action& action = NewFrame(wire::FrameType::kEager, step);
    action.frame.flags = state.granted ? wire::kSolicited : 0;
    action.frame.offset = step.check;
    action.frame.payload_bytes = static_cast<std::uint32_t>(step.bytes);
    action.source = step.bytes == 0 ? nullptr : InputAt(step.source, step.source.local_rank);
    ++traffic_.changes;
    traffic_.sent_bytes += step.bytes;
    MarkDone(index, 0);
    return;
  }
  if (!state.granted) return;
  while (state.issued < ready && state.issued - state.done < kLocalWindow) {
    const std::uint32_t chunk = state.issued++;
    ++state.under_way;
    ++under_way_;
    Action& action = NewFrame(wire::FrameType::kData, step);
    action.frame.offset = ChunkOffset(chunk);
    action.frame.payload_bytes = static_cast<std::uint32_t>(ChunkLength(step.bytes, chunk));
    action.source = InputAt(step.source, step.source.local_rank) + ChunkOffset(chunk);
    action.cookie = SendCookie(setting_.id, static_cast<std::uint32_t>(index), chunk);
    ++traffic_.changes;
    traffic_.sent_bytes += action.frame.payload_bytes;
  }
}

void Execution::AdvanceReceive(std::size_t index) {
  const Step& step = plan_.steps[index];
  StepState& state = states_[index];
  if (IsEager(step.bytes)) {
    if (state.issued > 0) return;
    if (state.stash >= 0) return IssueStashed(index);
    if (state.solicited || state.waits) return;
    if (group_.Solicit(step.node)) {
      state.solicited = true;
      NewFrame(wire::FrameType::kGrant, step);
    } else {
      state.waits = true;
      unsolicited_.push_back(static_cast<std::uint32_t>(index));
    }
    return;
  }
  if (state.posted) return;
  state.posted = true;
  // The receive is posted before the grant.
  Action& post = NewAction(Action::Kind::kPostReceive, step);
  post.destination = OutputAt(step.destination, step.destination.local_rank);
  post.bytes = step.bytes;
  if (step.kind == StepKind::kReduceReceived) {
    post.operand = InputAt(step.source, step.source.local_rank);
    post.reduction = ReductionOf(step);
    post.received_first = step.received_first;
  }
  NewFrame(wire::FrameType::kGrant, step);
}

void Execution::MarkDone(std::size_t index, std::uint32_t chunk) {
  StepState& state = states_[index];
  MLXCOMM_INVARIANT(chunk >= state.done && chunk - state.done < kLocalWindow);
  state.done_mask |= std::uint64_t{1} << (chunk - state.done);
  bool moved = false;
  while ((state.done_mask & 1) != 0) {
    state.done_mask >>= 1;
    ++state.done;
    moved = true;
  }
  if (!moved || aborted_) return;
  if (state.done == state.chunks) --steps_open_;
  if (state.issued < state.chunks) Advance(index);
  // IndexSuccessors has shifted step i's range to this index.
  for (std::uint32_t i = successor_begin_[index]; i < successor_begin_[index + 1]; ++i) {
    Advance(successors_[i]);
  }
}

void Execution::IssueLocal(std::size_t index, std::uint32_t chunk) {
  const Step& step = plan_.steps[index];
  LocalWork& work = AddWork(index, chunk);
  if (work.elements > 0) SetOperands(step, ChunkOffset(chunk), work);
  work.step_bytes = step.bytes * (work.input_count + work.output_count);
}

LocalWork& Execution::AddWork(std::size_t index, std::uint32_t chunk) {
  const Step& step = plan_.steps[index];
  Action& action = NewAction(Action::Kind::kLocalWork, step);
  LocalWork& work =
      group_.NewWork(setting_.id, static_cast<std::uint32_t>(index), chunk, action.cookie);
  work = {};
  static_cast<reduce::Reduction&>(work) = ReductionOf(step);
  work.elements = ChunkLength(step.bytes, chunk) / DataTypeBytes(work.type);
  action.work = &work;
  ++states_[index].under_way;
  ++under_way_;
  return work;
}

void Execution::SetOperands(const Step& step, std::uint64_t offset, LocalWork& work) const {
  const auto locals = static_cast<std::int32_t>(buffers_.size());
  if (step.source.local_rank == Place::kEveryLocalRank) {
    for (std::int32_t i = 0; i < locals; ++i) {
      work.inputs[work.input_count++] = InputAt(step.source, i) + offset;
    }
  } else {
    const std::byte* source = InputAt(step.source, step.source.local_rank) + offset;
    for (std::uint32_t i = 0; i < step.source_count; ++i, source += step.source_stride) {
      work.inputs[work.input_count++] = source;
    }
  }
  const bool every = step.destination.local_rank == Place::kEveryLocalRank;
  const std::int32_t first = every ? 0 : step.destination.local_rank;
  const std::int32_t last = every ? locals - 1 : first;
  const bool copies = work.input_count == 1 && work.divisor == 1;
  for (std::int32_t i = first; i <= last; ++i) {
    std::byte* const output = OutputAt(step.destination, i) + offset;
    if (copies && output == work.inputs[0]) continue;
    work.outputs[work.output_count++] = output;
  }
}

reduce::Reduction Execution::ReductionOf(const Step& step) const {
  const Signature& signature = setting_.signature;
  const bool divides = step.finishes && signature.op == ReduceOperator::kMean;
  return {signature.type, signature.op, divides ? setting_.layout->rank_count() : 1};
}

void Execution::IssueStashed(std::size_t index) {
  const Step& step = plan_.steps[index];
  StepState& state = states_[index];
  state.issued = 1;
  LocalWork& work = AddWork(index, 0);
  if (work.elements == 0) return;
  work.inputs[work.input_count++] = group_.StashData(state.stash);
  if (step.kind == StepKind::kReduceReceived) {
    work.inputs[work.input_count++] = InputAt(step.source, step.source.local_rank);
    if (!step.received_first) std::swap(work.inputs[0], work.inputs[1]);
  }
  work.outputs[work.output_count++] = OutputAt(step.destination, step.destination.local_rank);
}

Execution::Fit Execution::OnGrant(std::uint16_t node, std::uint16_t tag) {
  const int index = FindStep(node, tag, /*receive=*/false);
  if (index < 0) return Fit::kViolation;
  StepState& state = states_[static_cast<std::size_t>(index)];
  if (state.granted) return Fit::kViolation;
  state.granted = true;
  Advance(static_cast<std::size_t>(index));
  return Fit::kFits;
}

Execution::Fit Execution::OnEager(std::uint16_t node, std::uint16_t tag, std::uint64_t bytes,
                                  std::uint64_t check, std::int32_t stash) {
  const int found = FindStep(node, tag, /*receive=*/true);
  if (found < 0) return Fit::kViolation;
  const auto index = static_cast<std::size_t>(found);
  StepState& state = states_[index];
  const Step& step = plan_.steps[index];
  if (step.check != check) return Fit::kMismatch;
  if (step.bytes != bytes || state.stash >= 0 || state.issued > 0) return Fit::kViolation;
  if (state.solicited) {
    state.solicited = false;
    group_.Unsolicit();
  }
  state.stash = stash;
  ++traffic_.changes;
  traffic_.received_bytes += bytes;
  Advance(index);
  return Fit::kFits;
}

void Execution::SolicitFrom(std::uint16_t node) {
  std::size_t kept = 0;
  for (const std::uint32_t index : unsolicited_) {
    StepState& state = states_[index];
    const Step& step = plan_.steps[index];
    if (state.issued > 0) continue;  // It has arrived.
    if (step.node != node || !group_.Solicit(node)) {
      unsolicited_[kept++] = index;
      continue;
    }
    state.solicited = true;
    NewFrame(wire::FrameType::kGrant, step);
  }
  unsolicited_.resize(kept);
}

Execution::Fit Execution::OnData(std::uint16_t node, std::uint16_t tag, std::uint64_t offset,
                                 std::uint64_t bytes) {
  const int found = FindStep(node, tag, /*receive=*/true);
  if (found < 0) return Fit::kViolation;
  const auto index = static_cast<std::size_t>(found);
  StepState& state = states_[index];
  const std::uint64_t chunk = offset / kChunkBytes;
  if (!state.posted || offset % kChunkBytes != 0 || chunk >= state.chunks ||
      bytes != ChunkLength(plan_.steps[index].bytes, static_cast<std::uint32_t>(chunk))) {
    return Fit::kViolation;
  }
  const std::uint64_t ahead = chunk - state.done;  // Wraps around if the chunk is done.
  if (ahead >= kLocalWindow || (state.done_mask >> ahead & 1) != 0) return Fit::kViolation;
  ++traffic_.changes;
  traffic_.received_bytes += bytes;
  MarkDone(index, static_cast<std::uint32_t>(chunk));
  return Fit::kFits;
}

// In any order, because chunks use several rails.
void Execution::OnDataReleased(std::uint32_t step, std::uint8_t chunk) {
  if (step >= states_.size()) return;
  StepState& state = states_[step];
  // Frames to a lost node were already written off.
  if (state.under_way == 0) return;
  const auto ahead = static_cast<std::uint8_t>(chunk - state.done);
  if (ahead >= state.issued - state.done || (state.done_mask >> ahead & 1) != 0) return;
  --state.under_way;
  --under_way_;
  ++traffic_.changes;
  if (aborted_) return;
  MarkDone(step, state.done + ahead);
  if (state.issued < state.chunks) Advance(step);
}

void Execution::OnLocalWorkDone(std::uint32_t step, std::uint32_t chunk) {
  StepState& state = states_[step];
  --state.under_way;
  --under_way_;
  if (state.stash >= 0) {
    group_.FreeStash(state.stash);
    state.stash = -1;
  }
  if (!aborted_) MarkDone(step, chunk);
}

void Execution::OnCredit(std::uint32_t step) {
  // The turn may belong to an earlier operation.
  if (step >= states_.size() || plan_.steps[step].kind != StepKind::kSend) return;
  if (!states_[step].waits) return;
  states_[step].waits = false;
  Advance(step);
}

void Execution::Abort() {
  if (aborted_) return;
  aborted_ = true;
  std::vector<std::uint16_t> cancelled;
  for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
    const Step& step = plan_.steps[i];
    StepState& state = states_[i];
    if (step.kind == StepKind::kSend && state.under_way > 0 &&
        std::ranges::find(cancelled, step.node) == cancelled.end()) {
      cancelled.push_back(step.node);
      NewAction(Action::Kind::kCancel, step);
    }
    if (IsReceive(step) && state.posted && state.done < state.chunks &&
        std::ranges::find(withdrawals_, step.node) == withdrawals_.end()) {
      withdrawals_.push_back(step.node);
      NewAction(Action::Kind::kWithdraw, step);
    }
    if (state.stash >= 0 && state.under_way == 0) {
      group_.FreeStash(state.stash);
      state.stash = -1;
    }
  }
}

void Execution::OnNodeLost(std::uint16_t node) {
  OnWithdrawn(node);
  for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
    if (plan_.steps[i].kind != StepKind::kSend || plan_.steps[i].node != node) continue;
    under_way_ -= states_[i].under_way;
    states_[i].under_way = 0;
  }
}

void Execution::OnReceiverLeft(std::uint16_t node) {
  for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
    if (plan_.steps[i].kind != StepKind::kSend || plan_.steps[i].node != node) continue;
    while (states_[i].under_way > 0) {
      OnDataReleased(static_cast<std::uint32_t>(i), static_cast<std::uint8_t>(states_[i].done));
    }
  }
}

int Execution::AwaitedNode() const {
  for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
    const StepState& state = states_[i];
    if (plan_.steps[i].kind == StepKind::kLocal || state.done == state.chunks) continue;
    if (state.stash >= 0) continue;  // It has arrived.
    return plan_.steps[i].node;
  }
  return -1;
}

bool Execution::NeedsPeer() const {
  for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
    const Step& step = plan_.steps[i];
    const StepState& state = states_[i];
    if (IsReceive(step) && state.done < state.chunks && state.stash < 0) return true;
    if (step.kind != StepKind::kSend) continue;
    if (IsEager(step.bytes) ? state.issued == 0 : !state.granted) return true;
  }
  return false;
}

Action& Execution::NewAction(Action::Kind kind, const Step& step) {
  Action& action = group_.actions().emplace_back();
  action.kind = kind;
  action.key = setting_.key;
  if (step.kind != StepKind::kLocal) {
    action.step = step.tag;
    action.node = setting_.layout->node(step.node);
  }
  return action;
}

Action& Execution::NewFrame(wire::FrameType type, const Step& step) {
  Action& action = group_.actions().emplace_back();
  action.kind = Action::Kind::kSend;
  action.node = setting_.layout->node(step.node);
  action.frame = frame_;
  action.frame.type = type;
  action.frame.step = step.tag;
  return action;
}

const std::byte* Execution::InputAt(const Place& place, std::int32_t local_rank) const {
  if (place.side == Place::Side::kInput) {
    return buffers_[static_cast<std::size_t>(local_rank)].input + place.offset;
  }
  return OutputAt(place, local_rank);
}

std::byte* Execution::OutputAt(const Place& place, std::int32_t local_rank) const {
  if (place.side == Place::Side::kScratch) return scratch_ + place.offset;
  return buffers_[static_cast<std::size_t>(local_rank)].output + place.offset;
}

}  // namespace mlxcomm::collective
