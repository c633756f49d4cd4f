#include "daemon/record/operation_recorder.h"

#include <algorithm>
#include <numeric>

#include <spdlog/spdlog.h>

#include "daemon/record/operation_life.h"
#include "daemon/record/record_text.h"

namespace mlxcomm {
namespace {

using record::Event;
using record::EventKind;

// The bytes that the rank sends.
std::uint64_t BytesOf(const collective::Operation::LocalCall& local) {
  const collective::Signature& signature = local.call.signature;
  std::uint64_t elements = signature.count;
  if (!local.counts.empty()) {
    const auto sent =
        local.counts.begin() +
        static_cast<std::ptrdiff_t>(local.counts.size() / CountsPerRank(signature.kind));
    elements = std::accumulate(local.counts.begin(), sent, std::uint64_t{0});
  }
  return elements * DataTypeBytes(signature.type);
}

}  // namespace

// The id may belong to a state of an operation whose group has ended.
OperationRecorder::State& OperationRecorder::StateOf(const collective::Operation& operation) {
  if (operation.id >= states_.size()) states_.resize(operation.id + 1);
  State& state = states_[operation.id];
  if (state.name == operation.key) return state;
  state.name = operation.key;
  state.called = false;
  state.moved = false;
  state.last_byte_ns = 0;
  state.traffic = {};
  state.heard.clear();
  return state;
}

Event OperationRecorder::NewEvent(EventKind kind, const State& state) const {
  Event event{.time_ns = now_ns_, .kind = kind};
  event.set_name(state.name);
  return event;
}

void OperationRecorder::OnCalled(const collective::Operation& operation,
                                 const collective::Operation::LocalCall& local) {
  State& state = StateOf(operation);
  if (!std::exchange(state.called, true)) {
    state.called_ns = now_ns_;
    state.bytes = BytesOf(local);
    state.kind = static_cast<std::uint8_t>(local.call.signature.kind);
    state.type = static_cast<std::uint8_t>(local.call.signature.type);
  }
  Event event = NewEvent(EventKind::kSubmitted, state);
  event.party = local.call.rank;
  event.bytes = BytesOf(local);
  event.operation = static_cast<std::uint8_t>(local.call.signature.kind);
  event.data_type = static_cast<std::uint8_t>(local.call.signature.type);
  event.reduce_operator = static_cast<std::uint8_t>(local.call.signature.op);
  event.step = static_cast<std::uint16_t>(local.call.signature.root);
  Write(event);
}

void OperationRecorder::OnPeerFrame(const collective::Operation& operation, std::uint16_t node,
                                    std::uint32_t first_rank) {
  State& state = StateOf(operation);
  const std::size_t word = node / 64;
  if (state.heard.size() <= word) state.heard.resize(word + 1);
  const std::uint64_t bit = std::uint64_t{1} << (node % 64);
  if ((std::exchange(state.heard[word], state.heard[word] | bit) & bit) != 0) return;
  Event event = NewEvent(EventKind::kHeard, state);
  event.party = first_rank;
  Write(event);
}

void OperationRecorder::OnMatched(const collective::Operation& operation) {
  State& state = StateOf(operation);
  Event event = NewEvent(EventKind::kMatched, state);
  event.plan = static_cast<std::uint8_t>(operation.execution.plan().between_nodes);
  Write(event);
}

void OperationRecorder::OnMoved(const collective::Operation& operation) {
  State& state = StateOf(operation);
  state.traffic = operation.execution.traffic();
  state.last_byte_ns = now_ns_;
  if (!std::exchange(state.moved, true)) Write(NewEvent(EventKind::kFirstByte, state));
}

void OperationRecorder::OnEnded(const collective::Operation& operation, FailureCode code) {
  State& state = StateOf(operation);
  if (state.called && state.moved) {
    Event event = NewEvent(EventKind::kLastByte, state);
    event.time_ns = state.last_byte_ns;
    event.bytes = state.traffic.received_bytes;
    event.duration_ns = state.traffic.sent_bytes;
    Write(event);
  }
  // Also for an operation that only other nodes have called; it would seem to be waiting otherwise.
  if (state.called || !state.heard.empty()) {
    const bool failed = code != FailureCode::kNone;
    Event event = NewEvent(failed ? EventKind::kFailed : EventKind::kDone, state);
    event.time_ns = clock_();
    event.code = static_cast<std::uint8_t>(code);
    Write(event);
    if (state.called) {
      counts_.Add(state.kind, state.type, failed, state.bytes, event.time_ns - state.called_ns);
    }
  }
  state.name = {};
}

// A process wrote these values: invalid numbers are shown as they are, calls with invalid times are
// left out.
void OperationRecorder::OnMet(const OperationKey& key, std::span<const MetCall> calls) {
  const std::uint64_t read_ns = clock_();
  const bool valid = std::ranges::all_of(calls, [read_ns](const MetCall& call) {
    return call.ended_ns <= read_ns && call.began_ns <= call.ended_ns;
  });
  if (calls.empty() || !valid) return;
  State met;
  met.name = key;
  std::uint64_t last_began_ns = 0;
  std::uint64_t ended_ns = 0;
  for (const MetCall& call : calls) {
    Event event = NewEvent(EventKind::kSubmitted, met);
    event.time_ns = call.began_ns;
    event.party = call.rank;
    event.operation = static_cast<std::uint8_t>(call.call.kind());
    event.data_type = static_cast<std::uint8_t>(call.call.type());
    event.reduce_operator = static_cast<std::uint8_t>(call.call.op());
    event.step = static_cast<std::uint16_t>(call.call.root());
    event.bytes = call.call.count() * DataTypeBytes(call.call.type());
    Write(event);
    last_began_ns = std::max(last_began_ns, call.began_ns);
    ended_ns = std::max(ended_ns, call.ended_ns);
  }
  Event matched = NewEvent(EventKind::kMatched, met);
  matched.time_ns = last_began_ns;
  Write(matched);
  Event done = NewEvent(EventKind::kDone, met);
  done.time_ns = std::max(ended_ns, last_began_ns);
  Write(done);
}

void OperationRecorder::OnGroupFailed(std::uint64_t group, const std::string& name,
                                      const Failure& verdict, const OperationKey& operation) {
  const std::uint64_t second = now_ns_ / 1'000'000'000;
  if (std::exchange(failures_second_, second) != second) failures_ = 0;
  const std::uint32_t count = ++failures_;
  if (count > kLinesASecond) {
    if (count == kLinesASecond + 1) {
      spdlog::error("too many failed groups to log: mlxcommctl status lists all of them");
    }
    return;
  }
  failures_reported_.push_back({group, name, verdict});
  spdlog::error("group {} (id {}) failed: {}: {} Last operations on this node: {}", name, group,
                FailureCodeName(verdict.code), verdict.message,
                count <= kDumpsASecond ? Dump(group, operation) : "see mlxcommctl record");
}

// Describes the failed operation and the two before it, or the group's last three.
std::string OperationRecorder::Dump(std::uint64_t group, const OperationKey& operation) const {
  constexpr std::size_t kLoopEventsRead = 4096;
  constexpr std::size_t kRailEventsRead = 512;
  constexpr std::size_t kOperationsShown = 3;
  std::vector<Event> events;
  if (track_ != nullptr) track_->Copy(kLoopEventsRead, 0, events);
  std::erase_if(events, [group](const Event& event) { return event.group != group; });
  std::vector<record::OperationLife> lives = record::LivesOf(events);
  const auto found = std::ranges::find(lives, operation, &record::OperationLife::name);
  if (found != lives.end()) lives.erase(found + 1, lives.end());
  if (lives.size() > kOperationsShown) {
    lives.erase(lives.begin(), lives.end() - static_cast<std::ptrdiff_t>(kOperationsShown));
  }
  const auto rails = recorder_.Copy(record::TrackKind::kRail, kRailEventsRead);
  record::AddCarriers(rails, lives);
  std::ranges::reverse(lives);
  return record::DescribeLives(lives, rails, clock_());
}

void OperationRecorder::NameGroup(const collective::Group& group, const JobId& job) {
  record::GroupName name{group.id(), job.user, job.name, group.name(), {}};
  const collective::GroupLayout& layout = group.layout();
  for (std::uint16_t node = 0; node < layout.node_count(); ++node) {
    const std::uint32_t first = layout.ranks_on(node).front();
    name.nodes.push_back({first, layout.member(first).node_name});
  }
  recorder_.NameGroup(std::move(name));
}

}  // namespace mlxcomm
