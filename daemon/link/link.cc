// Frames: what goes to the rails and what they deliver. link_state.cc handles rails that come and
// go.
#include "daemon/link/link.h"

#include <bit>

#include <spdlog/spdlog.h>

#include "absl/strings/str_cat.h"
#include "daemon/rail/status_reason.h"
#include "proto/types/planted_bug.h"

namespace mlxcomm::link {
namespace {

// An acknowledgement goes out alone after this much, or this long if the loop is busy with other
// links. Otherwise it goes with the next frame, or with the tick if the peer does not wait for it.
constexpr std::uint64_t kAcknowledgeFrames = 16;
constexpr std::uint64_t kAcknowledgeBytes = 1024 * 1024;
constexpr std::uint64_t kAcknowledgeNs = 1'000'000;

}  // namespace

absl::Status Link::Send(const wire::FrameHeader& header, const std::byte* payload,
                        std::uint64_t cookie) {
  if (!reachable()) {
    return absl::FailedPreconditionError(absl::StrCat("node ", peer_.name, " is not reachable"));
  }
  if (absl::Status status = channel_.Send(header, payload, cookie); !status.ok()) return status;
  Pump();
  return absl::OkStatus();
}

// Fills the rails. Not while a receive waits for a full rail: a grant could call for data that
// arrives there.
void Link::Pump() {
  if (carrying_ == 0) return;
  if (carrying_ > 1 && waiting_count_ == 0 && !channel_.all_sent()) UpdateHeld();
  rail::RailCommand command;
  std::size_t at = 0;
  while (waiting_count_ == 0 && channel_.NextToSend(command.frame, at, arrivals_.has_gaps())) {
    command.frame.header.acknowledged = arrivals_.received();
    if (!arrivals_.has_gaps()) {
      // The frame acknowledges; but not soon if it queues behind others on its rail.
      if (channel_.flight(at).unwritten_frames() == 1 && AcknowledgesReliably(at)) {
        unacknowledged_ = {};
      }
    } else if (command.frame.header.type == wire::FrameType::kControl) {
      SendAcknowledgement(at);
    }
    Give(at, command);
  }
}

// Asks the rails for what they hold; acknowledgements show it later, queued behind the peer's data.
void Link::UpdateHeld() {
  for (const std::size_t at : present_) {
    const RailFlight& flight = channel_.flight(at);
    if (!flight.is_reliable() || flight.bytes_under_way() == 0) continue;
    if (const auto held = rails_[at].rail->held(); held) channel_.OnHeld(at, *held);
  }
}

void Link::Give(std::size_t at, const rail::RailCommand& command) {
  OnRail& on = rails_[at];
  if (on.waiting.empty() && on.rail->Give(command)) return;
  on.waiting.emplace_back() = command;
  ++waiting_count_;
}

void Link::GiveWaiting() {
  for (const std::size_t at : present_) {
    OnRail& on = rails_[at];
    while (!on.waiting.empty() && on.rail->Give(on.waiting.front())) {
      on.waiting.pop_front();
      --waiting_count_;
    }
  }
}

rail::ReceiveBudget* Link::TakeBudget() {
  if (free_budgets_.empty()) return &budgets_.emplace_back();
  rail::ReceiveBudget* const budget = free_budgets_.back();
  free_budgets_.pop_back();
  return budget;
}

void Link::GiveBackBudget(Posted& posted) {
  posted.budget->Close();
  free_budgets_.push_back(posted.budget);
}

absl::Status Link::PostReceive(const rail::PostedReceive& receive) {
  if (!reachable()) {
    return absl::FailedPreconditionError(absl::StrCat("node ", peer_.name, " is not reachable"));
  }
  if (waiting_count_ >= kWaitingMax) {
    return absl::ResourceExhaustedError("too many receives are being posted at once");
  }
  if (receive.bytes > rail::ReceiveBudget::kBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a receive of ", receive.bytes, " bytes; the most is ", rail::ReceiveBudget::kBytesMax));
  }
  const PostedKey key = {receive.key, receive.step};
  if (const auto earlier = posted_.find(key); earlier != posted_.end()) {
    GiveBackBudget(earlier->second);
    posted_.erase(earlier);
  }
  Posted& posted = posted_[key];
  posted.receive = receive;
  posted.budget = TakeBudget();
  posted.share = posted.budget->Open(receive.bytes);
  posted.on_several = present_.size() > 1;
  rail::RailCommand command;
  command.kind = rail::RailCommand::Kind::kPostReceive;
  command.receive = receive;
  command.share = posted.share;
  for (const std::size_t at : present_) Give(at, command);
  return absl::OkStatus();
}

void Link::Withdraw(const OperationKey& key) {
  absl::erase_if(posted_, [&](auto& entry) {
    if (entry.first.first != key) return false;
    GiveBackBudget(entry.second);
    return true;
  });
  if (present_.size() == 0) return withdrawn_.push_back(key);
  withdrawals_.emplace_back() = {key, static_cast<std::uint32_t>(present_.size())};
  rail::RailCommand command;
  command.kind = rail::RailCommand::Kind::kWithdraw;
  command.key = key;
  for (const std::size_t at : present_) Give(at, command);
}

// Rails answer in the order of commands, and newer rails have fewer to answer, so withdrawals end
// in order.
void Link::OnWithdrawAnswered(std::size_t at) {
  OnRail& on = rails_[at];
  const std::uint64_t index = on.withdrawals_taken - first_withdrawal_;
  if (index >= withdrawals_.size()) return;
  ++on.withdrawals_taken;
  --withdrawals_[static_cast<std::size_t>(index)].rails;
  while (!withdrawals_.empty() && withdrawals_.front().rails == 0) {
    const OperationKey key = withdrawals_.front().key;
    withdrawals_.pop_front();
    ++first_withdrawal_;
    listener_.OnWithdrawn(peer_.id, key);
  }
}

void Link::Cancel(const OperationKey& key) { channel_.Cancel(key); }

void Link::DeliverReleased() {
  std::vector<std::uint64_t>& released = channel_.released();
  for (std::size_t i = 0; i < released.size(); ++i) listener_.OnDataReleased(peer_.id, released[i]);
  released.clear();
}

// A rail that goes down ends its turn. So does one that starts to carry, because Links must learn
// of a neighbour before its frames. A peer that sends frames on a rail has seen large ones pass
// both ways.
std::size_t Link::PollRail(std::size_t at, std::uint64_t now_ns) {
  std::size_t count = 0;
  rail::RailEvent event;
  constexpr std::size_t kEventsPerTurn = 256;
  const OnRail& on = rails_[at];
  while (on.rail != nullptr && count < kEventsPerTurn && on.rail->Pop(event)) {
    ++count;
    if (event.kind == rail::RailEvent::Kind::kDown) {
      OnDown(at, event, now_ns);
      break;
    }
    const bool opens =
        !on.carries && (event.kind == rail::RailEvent::Kind::kFrame || on.rail->has_passed_large());
    if (opens) OpenAndReport(at, now_ns);
    Deliver(at, event);
    if (!opens) continue;
    if (on.rail != nullptr) DropOlderCircuits(at, now_ns);
    break;
  }
  return count;
}

void Link::OnDown(std::size_t at, const rail::RailEvent& event, std::uint64_t now_ns) {
  RequestAbandoned(event);
  if (event.cause == rail::DownCause::kViolation) return OnViolation(event.reason);
  if (event.link_reason == LinkReason::kBytesChanged) CountChanged(at);
  channel_.OnTransmitted(at, event.transmitted);
  const bool joined = !rails_[at].resumed || HasHeard(rails_[at], 0);
  const rail::DownCause cause = joined ? event.cause : rail::DownCause::kCut;
  RemoveRailAt(at, {event.reason, cause, event.link_reason}, now_ns);
}

void Link::CountChanged(std::size_t at) {
  changed_ns_ = now_ns_;
  changed_on_ = absl::StrCat(rails_[at].path.local, " - ", rails_[at].path.remote);
  if (changed_frames_++ == 0) {
    spdlog::warn("link to {}: bytes were changed or lost on {}; resending all", peer_.name,
                 changed_on_);
  }
}

std::size_t Link::Poll(std::uint64_t now_ns) {
  now_ns_ = now_ns;
  const bool due = now_ns >= channel_.deadline_ns();
  channel_.OnNow(now_ns);
  std::size_t count = 0;
  for (const std::size_t at : present_) count += PollRail(at, now_ns);
  if (!kept_.empty()) CloseKept();
  if (OpenProvenRails(now_ns)) ++count;
  if (!withdrawn_.empty()) {
    reported_withdrawn_.swap(withdrawn_);
    for (const OperationKey& key : reported_withdrawn_) listener_.OnWithdrawn(peer_.id, key);
    count += reported_withdrawn_.size();
    reported_withdrawn_.clear();
  }
  if (!channel_.released().empty()) {
    DeliverReleased();
    ++count;
  }
  const bool held_back = HasWaiting();
  if (held_back) GiveWaiting();
  if (count > 0 || held_back || due) Pump();
  if (acknowledge_now_ || unacknowledged_.frames >= kAcknowledgeFrames ||
      unacknowledged_.bytes >= kAcknowledgeBytes ||
      (unacknowledged_.frames > 0 && now_ns - unacknowledged_.since_ns >= kAcknowledgeNs)) {
    FlushAcknowledgement();
  }
  channel_.OnNow(now_ns);
  return count;
}

void Link::FlushAcknowledgement() {
  if (carrying_ == 0 || (unacknowledged_.frames == 0 && !acknowledge_now_)) return;
  std::size_t at = delivered_last_;
  if (at == kNoRail) {
    for (at = 0; !rails_[at].carries;) ++at;
  }
  // A full rail: the acknowledgement follows what waits.
  if (!rails_[at].waiting.empty()) return;
  if (MLXCOMM_PLANTED_BUG(kDropAcknowledgement)) {
    unacknowledged_ = {};
    acknowledge_now_ = false;
    return;
  }
  SendAcknowledgement(at);
  if (AcknowledgesReliably(at)) return;
  for (at = 0; !rails_[at].carries || !channel_.flight(at).is_reliable();) ++at;
  SendAcknowledgement(at);
}

// The peer judges several rails by how soon they deliver.
void Link::AcknowledgeBeforeSleep() {
  const bool awaited = unacknowledged_.has_data || carrying_ > 1 || arrivals_.has_gaps() ||
                       delivered_last_ == kNoRail ||
                       !channel_.flight(delivered_last_).is_reliable();
  if (awaited) FlushAcknowledgement();
}

// A lost acknowledgement of a reliable rail's frame would not be repeated, so it must take a
// reliable rail.
bool Link::AcknowledgesReliably(std::size_t at) const {
  return channel_.flight(at).is_reliable() || !present_.Any([this](std::size_t other) {
    return rails_[other].carries && channel_.flight(other).is_reliable();
  });
}

// Reports everything that has arrived, and requests each missing frame once, because the peer sends
// a copy each time.
void Link::SendAcknowledgement(std::size_t at) {
  asked_.Begin([this](std::uint64_t sequence) { return arrivals_.HasArrived(sequence); });
  bool again = false;
  do {
    for (std::uint32_t block = 0; block < wire::Arrived::kBlocks; ++block) {
      wire::Arrived arrived;
      const bool any = arrivals_.Describe(block, arrived);
      if (const auto wanted = asked_.Next(); wanted) {
        arrived.wanted = static_cast<std::uint16_t>(*wanted - arrivals_.received());
      } else if (again || (!any && block > 0)) {
        continue;
      }
      rail::RailCommand command;
      command.frame.header.type = wire::FrameType::kAck;
      command.frame.header.acknowledged = arrivals_.received();
      wire::PutArrived(arrived, command.frame.header);
      Give(at, command);
    }
    again = true;
  } while (asked_.NextRound());
  asked_.End();
  unacknowledged_ = {};
  acknowledge_now_ = false;
}

void Link::Deliver(std::size_t at, rail::RailEvent& event) {
  // First, because the frame may acknowledge what has just been written.
  channel_.OnTransmitted(at, event.transmitted);
  switch (event.kind) {
    case rail::RailEvent::Kind::kTransmitted:
    case rail::RailEvent::Kind::kDown:
      if (event.link_reason == LinkReason::kBytesChanged) CountChanged(at);
      return RequestAbandoned(event);
    case rail::RailEvent::Kind::kWithdrawn: return OnWithdrawAnswered(at);
    case rail::RailEvent::Kind::kFrame:
      if (rails_[at].carries) delivered_last_ = at;
      rails_[at].delivered = true;
      if (OnFrame(event)) return;
      return OnViolation(absl::StrCat("frame ", static_cast<int>(event.header.type),
                                      " with sequence ", event.header.sequence, ", acknowledging ",
                                      event.header.acknowledged));
  }
}

// The rail dropped a copy of a frame as a duplicate, but then the other one was lost or corrupt.
void Link::RequestAbandoned(const rail::RailEvent& event) {
  if (event.abandoned == 0 || arrivals_.HasArrived(event.abandoned)) return;
  asked_.Want(event.abandoned);
  acknowledge_now_ = true;
}

void Link::OnViolation(const std::string& what) {
  spdlog::error("node {} broke the protocol ({} times by now): {}", peer_.name, ++violations_,
                what);
  Lose(rail::WithReason(absl::DataLossError(absl::StrCat("it broke the protocol (", what,
                                                         "); do both run the same version?")),
                        LinkReason::kViolation));
}

bool Link::OnAcknowledgement(const wire::FrameHeader& header) {
  if (!channel_.OnAcknowledged(header.acknowledged)) return false;
  if (header.type == wire::FrameType::kAck) {
    const wire::Arrived arrived = wire::ArrivedOf(header);
    const std::uint64_t first = header.acknowledged + 1 + wire::Arrived::kBits * arrived.block;
    for (std::size_t i = 0; i < arrived.bits.size(); ++i) {
      for (std::uint64_t bits = arrived.bits[i]; bits != 0; bits &= bits - 1) {
        const auto bit = static_cast<std::uint64_t>(std::countr_zero(bits));
        if (!channel_.OnArrived(first + 64 * i + bit)) return false;
      }
    }
    if (arrived.wanted != 0) channel_.OnWanted(header.acknowledged + arrived.wanted);
  }
  channel_.FindLost();
  return true;
}

// Returns false if the peer breaks the protocol.
bool Link::OnFrame(rail::RailEvent& event) {
  if (!OnAcknowledgement(event.header)) return false;
  // First, because the frame may follow from those releases.
  DeliverReleased();
  if (event.header.sequence == 0) return true;
  if (event.duplicate) {
    acknowledge_now_ = true;
    return true;
  }
  return OnNumbered(event);
}

bool Link::OnNumbered(rail::RailEvent& event) {
  const wire::FrameHeader& header = event.header;
  const ArrivalOrder::Arrival arrival = arrivals_.OnArrived(header.sequence);
  switch (arrival) {
    case ArrivalOrder::Arrival::kViolation: return false;
    // A copy, or a stand-in for data that did arrive; the bytes that it placed were claimed.
    case ArrivalOrder::Arrival::kDuplicate:
      acknowledge_now_ = true;
      if (MLXCOMM_PLANTED_BUG(kKeepDuplicates)) Report(header, event.payload);
      return true;
    case ArrivalOrder::Arrival::kNext:
    case ArrivalOrder::Arrival::kEarly: break;
  }
  if (unacknowledged_.frames++ == 0) unacknowledged_.since_ns = now_ns_;
  unacknowledged_.bytes += header.payload_bytes;
  if (header.type == wire::FrameType::kData) {
    unacknowledged_.has_data = true;
    if (!OnData(event)) return false;
  } else if (arrival == ArrivalOrder::Arrival::kNext) {
    Report(header, event.payload);
  } else {
    const auto keeping = arrivals_.Keep(header, event.payload, std::move(event.control));
    if (keeping == ArrivalOrder::Keeping::kNoRoom) {  // Not only this peer's fault.
      Lose(rail::WithReason(
          absl::ResourceExhaustedError("too many nodes at once send frames that come too early, "
                                       "and the memory for them is used up"),
          LinkReason::kCut));
    }
    if (keeping == ArrivalOrder::Keeping::kBeyondWindow) return false;
  }
  if (arrival == ArrivalOrder::Arrival::kNext) ReportDue();
  return true;
}

void Link::ReportDue() {
  std::span<const std::byte> payload;
  while (reachable()) {
    const wire::FrameHeader* const header = arrivals_.NextDue(payload);
    if (header == nullptr) return;
    Report(*header, payload);
  }
}

void Link::Report(const wire::FrameHeader& header, std::span<const std::byte> payload) {
  const NodeId node = peer_.id;
  switch (header.type) {
    case wire::FrameType::kControl: return listener_.OnControl(node, payload);
    case wire::FrameType::kEager: return listener_.OnEager(node, header, payload);
    case wire::FrameType::kGrant: return listener_.OnGrant(node, header);
    case wire::FrameType::kCredit: return listener_.OnCredit(node, header);
    case wire::FrameType::kTopology:
    case wire::FrameType::kCircuitOpen:
    case wire::FrameType::kCircuitOpened:
    case wire::FrameType::kCircuitFrame:
    case wire::FrameType::kCircuitCredit:
    case wire::FrameType::kCircuitClosed:
      // Otherwise they are left over from a former neighbour.
      if (routing_ != nullptr && is_neighbour()) {
        routing_->OnRouting(node, header, payload, now_ns_);
      }
      return;
    case wire::FrameType::kRailSetup:
      if (on_rail_setup_ && is_neighbour()) on_rail_setup_(node, payload);
      return;
    default: return;
  }
}

bool Link::OnData(const rail::RailEvent& event) {
  const auto found = posted_.find({KeyOf(event.header), event.header.step});
  if (!event.placed || found == posted_.end()) return true;  // Withdrawn meanwhile.
  Posted& posted = found->second;
  if (!posted.received.Add(event.header.offset, event.header.payload_bytes)) return false;
  if (posted.received.bytes() == posted.receive.bytes) {
    rail::RailCommand command;
    command.kind = rail::RailCommand::Kind::kForgetCompleted;
    command.key = posted.receive.key;
    command.step = posted.receive.step;
    const bool on_several = posted.on_several;
    // The peer may be done as soon as it learns this.
    acknowledge_now_ = true;
    GiveBackBudget(posted);
    posted_.erase(found);
    if (on_several) {
      for (const std::size_t at : present_) Give(at, command);
    }
  }
  listener_.OnDataReceived(peer_.id, event.header);
  return true;
}

bool Link::SendRemaining() {
  rail::RailEvent event;
  for (const std::size_t at : present_) {
    while (rails_[at].rail != nullptr && rails_[at].rail->Pop(event)) {
      channel_.OnTransmitted(at, event.transmitted);
      if (event.kind == rail::RailEvent::Kind::kFrame) (void)OnAcknowledgement(event.header);
      if (event.kind == rail::RailEvent::Kind::kDown) DropRail(at);
    }
    const OnRail& on = rails_[at];
    if (on.rail != nullptr && !on.carries && on.rail->has_passed_large()) Open(at);
  }
  channel_.released().clear();
  withdrawn_.clear();
  if (present_.size() == 0) {
    state_ = State::kLost;
    reason_ = LinkReason::kStopped;
    detail_ = "this daemon has stopped";
    return true;
  }
  if (!MayCarry(now_ns_)) return true;
  GiveWaiting();
  Pump();
  return waiting_count_ == 0 && channel_.all_sent();
}

bool Link::PrepareToSleep() {
  for (const std::size_t at : present_) {
    if (rails_[at].rail->PrepareToSleep()) continue;
    for (const std::size_t before : present_) {
      if (before == at) return false;
      rails_[before].rail->WakeUp();
    }
  }
  return true;
}

void Link::WakeUp() {
  for (const std::size_t at : present_) rails_[at].rail->WakeUp();
}

}  // namespace mlxcomm::link
