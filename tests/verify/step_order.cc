#include "tests/verify/step_order.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "daemon/collective/eager_stash.h"

namespace mlxcomm::collective {
namespace {

bool IsReceive(const Step& step) {
  return step.kind == StepKind::kReceive || step.kind == StepKind::kReduceReceived;
}

// Frames that may wait at the receiver without harm: credits return in batches, so all of a batch
// except the last may be held back, and one must be left.
constexpr std::size_t kWaitingFramesMax = kEagerCredits - CreditOptions{}.lot();

}  // namespace

std::string StepOrder::Describe(const StepRef& ref) const {
  const Step& step = At(ref);
  std::string text = absl::StrCat("node ", ref.node, ": step ", ref.index, " (");
  switch (step.kind) {
    case StepKind::kLocal: absl::StrAppend(&text, "local, ", step.bytes, " bytes)"); break;
    case StepKind::kSend:
      absl::StrAppend(&text, "send ", step.bytes, " bytes to node ", step.node, ", tag ", step.tag,
                      ")");
      break;
    case StepKind::kReceive:
    case StepKind::kReduceReceived:
      absl::StrAppend(&text, step.kind == StepKind::kReceive ? "receive " : "reduce ", step.bytes,
                      " bytes from node ", step.node, ", tag ", step.tag, ")");
      break;
  }
  return text;
}

absl::Status StepOrder::Build() {
  std::size_t steps = 0;
  for (const Plan& plan : plans_) {
    first_step_.push_back(steps);
    steps += plan.steps.size();
  }
  first_event_.push_back(0);
  absl::Status status;
  ForEachStep([&](const StepRef& ref) {
    first_event_.push_back(first_event_.back() + ChunkCount(At(ref).bytes) * 3);
    for (const std::int32_t before : plans_[ref.node].AfterOf(At(ref))) {
      if (before >= 0 && static_cast<std::uint32_t>(before) < ref.index) continue;
      status.Update(absl::InternalError(absl::StrCat(Describe(ref), " comes after step ", before,
                                                     ", which is not an earlier one")));
    }
  });
  if (!status.ok()) return status;
  if (absl::Status paired = Pair(); !paired.ok()) return paired;
  waits_.assign(steps, false);
  ForEachStep([&](const StepRef& ref) {
    LinkStep(ref);
    if (At(ref).kind == StepKind::kSend) LinkMessage(ref);
  });
  return Sort();
}

absl::Status StepOrder::Pair() {
  using Address = std::tuple<std::uint16_t, std::uint16_t, std::uint16_t>;  // from, to, tag
  std::map<Address, StepRef> sends;
  std::map<Address, StepRef> receives;
  absl::Status status;
  ForEachStep([&](const StepRef& ref) {
    const Step& step = At(ref);
    if (step.kind == StepKind::kLocal) return;
    if (step.node >= plans_.size() || step.node == ref.node) {
      status.Update(
          absl::InternalError(absl::StrCat(Describe(ref), ": there is no such other node")));
      return;
    }
    const bool receive = IsReceive(step);
    const Address address =
        receive ? Address{step.node, ref.node, step.tag} : Address{ref.node, step.node, step.tag};
    if (!(receive ? receives : sends).emplace(address, ref).second) {
      status.Update(absl::InternalError(
          absl::StrCat(Describe(ref), ": this tag is used twice in one direction")));
    }
  });
  if (!status.ok()) return status;
  partners_.assign(first_event_.size() - 1, StepRef{});
  for (const auto& [address, send] : sends) {
    const auto found = receives.find(address);
    if (found == receives.end()) {
      return absl::InternalError(absl::StrCat(Describe(send), ": nobody receives this"));
    }
    if (absl::Status pair = CheckPair(send, found->second); !pair.ok()) return pair;
    partners_[Number(send)] = found->second;
    partners_[Number(found->second)] = send;
    receives.erase(found);
  }
  if (receives.empty()) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat(Describe(receives.begin()->second), ": nobody sends this"));
}

absl::Status StepOrder::CheckPair(const StepRef& send, const StepRef& receive) const {
  if (At(send).bytes != At(receive).bytes) {
    return absl::InternalError(
        absl::StrCat(Describe(send), " meets ", Describe(receive), ": lengths differ"));
  }
  if (At(send).check != At(receive).check) {
    return absl::InternalError(
        absl::StrCat(Describe(send), " meets ", Describe(receive), ": their checks differ"));
  }
  if (At(send).check != 0 && !IsEager(At(send).bytes)) {
    return absl::InternalError(
        absl::StrCat(Describe(send), ": only an eager message carries a check"));
  }
  return absl::OkStatus();
}

void StepOrder::LinkStep(const StepRef& ref) {
  const Step& step = At(ref);
  const std::uint64_t last = LastChunk(ref);
  for (std::uint64_t chunk = 0; chunk <= last; ++chunk) {
    Link(EventOf(ref, chunk, Event::kAllowed), EventOf(ref, chunk, Event::kTouches));
    Link(EventOf(ref, chunk, Event::kTouches), EventOf(ref, chunk, Event::kDone));
    if (chunk == 0) continue;
    Link(EventOf(ref, chunk - 1, Event::kAllowed), EventOf(ref, chunk, Event::kAllowed));
    Link(EventOf(ref, chunk - 1, Event::kDone), EventOf(ref, chunk, Event::kDone));
  }
  bool waits = IsReceive(step) || (step.kind == StepKind::kSend && !IsEager(step.bytes));
  for (const std::int32_t index : plans_[ref.node].AfterOf(step)) {
    const StepRef before{ref.node, static_cast<std::uint32_t>(index)};
    waits = waits || waits_[Number(before)];
    // A receive is posted, and granted, as a whole.
    const bool chunkwise = At(before).bytes == step.bytes && !IsReceive(step);
    if (!chunkwise) {
      Link(EventOf(before, LastChunk(before), Event::kDone), EventOf(ref, 0, Event::kAllowed));
      continue;
    }
    for (std::uint64_t chunk = 0; chunk <= last; ++chunk) {
      Link(EventOf(before, chunk, Event::kDone), EventOf(ref, chunk, Event::kAllowed));
    }
  }
  waits_[Number(ref)] = waits;
}

void StepOrder::LinkMessage(const StepRef& send) {
  const StepRef receive = partners_[Number(send)];
  const bool eager = IsEager(At(send).bytes);
  if (!eager) {
    Link(EventOf(receive, 0, Event::kAllowed), EventOf(send, 0, Event::kAllowed));
  }
  for (std::uint64_t chunk = 0; chunk <= LastChunk(send); ++chunk) {
    // An eager frame is copied before it is sent.
    Link(EventOf(send, chunk, eager ? Event::kDone : Event::kTouches),
         EventOf(receive, chunk, Event::kTouches));
  }
}

// Kahn's algorithm; the remaining events wait for themselves.
absl::Status StepOrder::Sort() {
  const std::size_t events = first_event_.back();
  std::sort(links_.begin(), links_.end());
  before_begin_.assign(events + 1, 0);
  std::vector<std::size_t> after_begin(events + 1, 0);
  for (const auto& [event, before] : links_) {
    ++before_begin_[event + 1];
    ++after_begin[before + 1];
  }
  for (std::size_t i = 0; i < events; ++i) {
    before_begin_[i + 1] += before_begin_[i];
    after_begin[i + 1] += after_begin[i];
  }
  std::vector<std::size_t> after(links_.size());
  std::vector<std::size_t> fill = after_begin;
  std::vector<std::size_t> open(events, 0);
  for (const auto& [event, before] : links_) {
    after[fill[before]++] = event;
    ++open[event];
  }
  std::vector<std::size_t> ready;
  for (std::size_t i = 0; i < events; ++i) {
    if (open[i] == 0) ready.push_back(i);
  }
  position_.assign(events, events);
  for (std::size_t next = 0; next < ready.size(); ++next) {
    position_[ready[next]] = next;
    for (std::size_t i = after_begin[ready[next]]; i < after_begin[ready[next] + 1]; ++i) {
      if (--open[after[i]] == 0) ready.push_back(after[i]);
    }
  }
  visited_.assign(events, 0);
  absl::Status status;
  std::vector<std::pair<std::size_t, StepRef>> steps;
  ForEachStep([&](const StepRef& ref) {
    // The data of a send is fixed when its last chunk may be sent.
    const Event event = At(ref).kind == StepKind::kSend ? Event::kAllowed : Event::kDone;
    const std::size_t position = position_[EventOf(ref, LastChunk(ref), event)];
    if (position == events) {
      status.Update(
          absl::InternalError(absl::StrCat("deadlock: ", Describe(ref), " waits for itself")));
    }
    steps.emplace_back(position, ref);
  });
  std::sort(steps.begin(), steps.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [position, ref] : steps) sequence_.push_back(ref);
  return status;
}

// Searches backwards, never beyond the place of `before` in the order.
bool StepOrder::Reaches(std::size_t before, std::size_t after) const {
  if (before == after) return true;
  if (position_[before] > position_[after]) return false;
  ++visit_;
  std::vector<std::size_t> open{after};
  while (!open.empty()) {
    const std::size_t event = open.back();
    open.pop_back();
    for (std::size_t i = before_begin_[event]; i < before_begin_[event + 1]; ++i) {
      const std::size_t next = links_[i].second;
      if (next == before) return true;
      if (visited_[next] == visit_ || position_[next] < position_[before]) continue;
      visited_[next] = visit_;
      open.push_back(next);
    }
  }
  return false;
}

bool StepOrder::Precedes(const StepRef& a, std::uint64_t chunk_a, Event event_a, const StepRef& b,
                         std::uint64_t chunk_b, Event event_b) const {
  return Reaches(EventOf(a, chunk_a, event_a), EventOf(b, chunk_b, event_b));
}

bool StepOrder::Ordered(const StepRef& a, const StepRef& b) const {
  return Precedes(a, LastChunk(a), Event::kDone, b, 0, Event::kTouches);
}

// Returns whether the frame can arrive while something that must precede the receive still waits
// for another node.
bool StepOrder::MayWaitForMessages(const StepRef& receive) const {
  const StepRef send = PartnerOf(receive);
  for (const std::int32_t index : plans_[receive.node].AfterOf(At(receive))) {
    const StepRef before{receive.node, static_cast<std::uint32_t>(index)};
    const bool over_when_it_comes =
        Precedes(before, LastChunk(before), Event::kDone, send, 0, Event::kDone);
    const bool waits = waits_[Number(before)] || At(before).kind == StepKind::kSend;
    if (waits && !over_when_it_comes) return true;
  }
  return false;
}

absl::Status StepOrder::CheckCredit() const {
  std::map<std::pair<std::uint16_t, std::uint16_t>, std::size_t> waiting;
  absl::Status status;
  ForEachStep([&](const StepRef& ref) {
    const Step& step = At(ref);
    if (!IsReceive(step) || !IsEager(step.bytes) || !MayWaitForMessages(ref)) return;
    if (++waiting[{step.node, ref.node}] <= kWaitingFramesMax) return;
    status.Update(absl::InternalError(absl::StrCat(
        "deadlock: ", Describe(ref), " is one of more than ", kWaitingFramesMax,
        " eager messages from that node that may wait for others and use up its credit")));
  });
  return status;
}

absl::Status StepOrder::CheckBarrier() const {
  const std::size_t nodes = plans_.size();
  std::vector<std::size_t> order(position_.size());
  for (std::size_t event = 0; event < position_.size(); ++event) order[position_[event]] = event;
  std::vector<std::uint16_t> node_of(position_.size());
  ForEachStep([&](const StepRef& ref) {
    const std::size_t first = EventOf(ref, 0, Event::kAllowed);
    std::fill_n(node_of.begin() + static_cast<std::ptrdiff_t>(first), ChunkCount(At(ref).bytes) * 3,
                ref.node);
  });
  // By event: the nodes that have begun when it happens.
  std::vector<std::vector<bool>> begun(position_.size(), std::vector<bool>(nodes, false));
  std::vector<std::vector<bool>> at_end(nodes, std::vector<bool>(nodes, false));
  for (const std::size_t event : order) {
    begun[event][node_of[event]] = true;
    for (std::size_t i = before_begin_[event]; i < before_begin_[event + 1]; ++i) {
      for (std::size_t node = 0; node < nodes; ++node) {
        if (begun[links_[i].second][node]) begun[event][node] = true;
      }
    }
    for (std::size_t node = 0; node < nodes; ++node) {
      if (begun[event][node]) at_end[node_of[event]][node] = true;
    }
  }
  for (std::size_t node = 0; node < nodes; ++node) {
    for (std::size_t other = 0; other < nodes; ++other) {
      if (at_end[node][other]) continue;
      return absl::InternalError(
          absl::StrCat("barrier: node ", node, " can finish before node ", other, " has begun"));
    }
  }
  return absl::OkStatus();
}

}  // namespace mlxcomm::collective
