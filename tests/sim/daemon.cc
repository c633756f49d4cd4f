#include "tests/sim/daemon.h"

#include <algorithm>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/work_pieces.h"
#include "daemon/workers.h"

namespace mlxcomm::sim {
namespace {

constexpr std::align_val_t kCacheLine{64};

}  // namespace

CountedScratch::~CountedScratch() {
  for (const Taken& taken : taken_) ::operator delete(taken.memory, kCacheLine);
}

std::byte* CountedScratch::Take(std::uint64_t bytes) {
  if (bytes > limit_ || used_ > limit_ - bytes) return nullptr;
  auto* const memory = static_cast<std::byte*>(::operator new(bytes, kCacheLine));
  taken_.push_back({memory, bytes});
  used_ += bytes;
  used_max_ = std::max(used_max_, used_);
  return memory;
}

void CountedScratch::Return(std::byte* memory) {
  const auto found = std::find_if(taken_.begin(), taken_.end(),
                                  [memory](const Taken& taken) { return taken.memory == memory; });
  used_ -= found->bytes;
  taken_.erase(found);
  ::operator delete(memory, kCacheLine);
}

Daemon::Daemon(Schedule& schedule, DaemonOptions options, DaemonListener& listener, Random random)
    : schedule_(schedule),
      options_(std::move(options)),
      listener_(listener),
      random_(random),
      alive_(std::make_shared<bool>(true)),
      scratch_(options_.scratch_bytes_max),
      collectives_(options_.fabric.self.id, scratch_, options_.credit),
      membership_(collectives_),
      links_(options_.fabric, *this, *this),
      carrier_(collectives_, membership_, scratch_, *this) {
  Wake();
}

// Circuits say farewell through the links of others, so all rails stop before any link goes.
Daemon::~Daemon() {
  *alive_ = false;
  links_.StopRails();
}

void Daemon::Wake() {
  if (turn_due_ || stopped_) return;
  turn_due_ = true;
  const std::uint64_t delay =
      options_.turn_delay_ns_max > 0 ? random_.Below(options_.turn_delay_ns_max) : 0;
  schedule_.At(std::max(busy_until_ns_, now_ns() + delay), [this, alive = alive_] {
    if (!*alive) return;
    turn_due_ = false;
    if (!stopped_) Turn();
  });
}

void Daemon::SetStopped(bool stopped) {
  stopped_ = stopped;
  if (!stopped_) Wake();
}

void Daemon::Submit(std::uint64_t group, const collective::Call& call) {
  submissions_.push_back({group, call});
  Wake();
}

void Daemon::EndSession(collective::SessionId session, const std::string& why) {
  membership_.OnSessionEnded(session, why, now_ns());
  std::erase_if(submissions_, [session](const Submission& submission) {
    return submission.call.session == session;
  });
  ended_sessions_.push_back(session);
  Wake();
}

// As Engine::Turn.
void Daemon::Turn() {
  links_.WakeUp();
  std::size_t count = submissions_.size();
  std::vector<Submission> submissions;
  submissions.swap(submissions_);
  for (const Submission& submission : submissions) {
    collectives_.Submit(submission.group, submission.call, now_ns());
  }
  carrier_.CarryOut(now_ns());
  count += links_.Poll(now_ns());
  carrier_.CarryOut(now_ns());
  count += done_work_.size();
  for (const std::uint64_t cookie : done_work_) collectives_.OnLocalWorkDone(cookie, now_ns());
  done_work_.clear();
  if (links_.deadline_ns() <= now_ns()) links_.OnTime(now_ns());
  if (collectives_.NextDeadline() <= now_ns()) collectives_.OnTime(now_ns());
  carrier_.CarryOut(now_ns());
  if (membership_.AnyLeft()) membership_.RemoveLeft();
  std::erase_if(ended_sessions_, [this](collective::SessionId session) {
    if (collectives_.UsesSession(session)) return false;
    listener_.OnSessionReleased(session);
    return true;
  });
  busy_until_ns_ = now_ns() + std::max<std::uint64_t>(1, count * options_.event_ns);
  if (count > 0) return Wake();
  Sleep();
}

void Daemon::Sleep() {
  if (!links_.PrepareToSleep()) return Wake();
  const std::uint64_t deadline = std::min(links_.deadline_ns(), collectives_.NextDeadline());
  if (deadline >= timer_ns_) return;
  timer_ns_ = std::max(deadline, now_ns() + 1);
  schedule_.At(timer_ns_, [this, alive = alive_, due = timer_ns_] {
    if (!*alive || timer_ns_ != due) return;
    timer_ns_ = kNever;
    Wake();
  });
}

void Daemon::OnNodeUp(const fabric::NodeIdentity& node) { listener_.OnNodeUp(node); }

void Daemon::OnNodeLost(const NodeId& node, const absl::Status& why) {
  const std::string text(why.message());
  listener_.OnNodeLost(node, text);
  collectives_.OnNodeLost(node, absl::StrCat("node ", node.ToString(), ": ", text), now_ns());
  carrier_.CarryOut(now_ns());
  Wake();
}

void Daemon::OnControl(const NodeId& node, std::span<const std::byte> bytes) {
  v1::PeerMessage message;
  const bool parsed = message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
  if (parsed && message.body_case() == v1::PeerMessage::kFailureReport) {
    return carrier_.OnFailureReport(node, message.failure_report(), now_ns());
  }
  if (parsed && message.body_case() == v1::PeerMessage::kRollCall) {
    return carrier_.OnRollCall(node, message.roll_call(), now_ns());
  }
  if (parsed && message.body_case() == v1::PeerMessage::kRankDetached) {
    return carrier_.OnRankDetached(node, message.rank_detached(), now_ns());
  }
  listener_.OnViolation(node, "a message that cannot be read");
}

void Daemon::CheckFine(const NodeId& node, bool fine, const wire::FrameHeader& header) {
  if (fine) return;
  listener_.OnViolation(
      node, absl::StrCat("frame ", static_cast<int>(header.type), " for step ", header.step,
                         " of operation ", header.number, " fits no operation"));
}

void Daemon::OnEager(const NodeId& node, const wire::FrameHeader& header,
                     std::span<const std::byte> payload) {
  CheckFine(node, carrier_.OnEager(node, header, payload, now_ns()), header);
}

void Daemon::OnGrant(const NodeId& node, const wire::FrameHeader& header) {
  CheckFine(node, carrier_.OnGrant(node, header, now_ns()), header);
}

void Daemon::OnCredit(const NodeId& node, const wire::FrameHeader& header) {
  CheckFine(node, carrier_.OnCredit(node, header), header);
}

void Daemon::OnDataReceived(const NodeId& node, const wire::FrameHeader& header) {
  CheckFine(node, carrier_.OnDataReceived(node, header, now_ns()), header);
}

void Daemon::OnDataReleased(const NodeId&, std::uint64_t cookie) {
  collectives_.OnDataReleased(cookie);
}

void Daemon::OnWithdrawn(const NodeId& node, const OperationKey& key) {
  collectives_.OnWithdrawn(node, key, now_ns());
}

absl::Status Daemon::SendFrame(const NodeId& node, const wire::FrameHeader& header,
                               const std::byte* payload, std::uint64_t cookie) {
  return links_.Send(node, header, payload, cookie);
}

absl::Status Daemon::PostReceive(const NodeId& node, const fabric::PostedReceive& receive) {
  if (options_.carries_payload) return links_.PostReceive(node, receive);
  fabric::PostedReceive unplaced = receive;  // There is nothing to combine.
  unplaced.place = nullptr;
  return links_.PostReceive(node, unplaced);
}

void Daemon::Withdraw(const NodeId& node, const OperationKey& key) { links_.Withdraw(node, key); }

void Daemon::CancelFrames(const NodeId& node, const OperationKey& key) { links_.Cancel(node, key); }

// Work is done when its time is over, so that buffers are read and written late.
bool Daemon::SubmitWork(const collective::LocalWork& work, std::uint64_t cookie) {
  if (!HasSeveralPieces(work) && options_.carries_payload) return false;
  const std::uint64_t bytes =
      work.elements * DataTypeBytes(work.type) * (work.input_count + work.output_count);
  const std::uint64_t takes = bytes * kSecond / options_.work_bytes_per_second;
  workers_busy_until_ns_ = std::max(workers_busy_until_ns_, now_ns()) + takes;
  schedule_.At(workers_busy_until_ns_, [this, alive = alive_, &work, cookie] {
    if (!*alive) return;
    if (options_.carries_payload) Workers::Do(work);
    done_work_.push_back(cookie);
    Wake();
  });
  return true;
}

void Daemon::Complete(const collective::Action& action) { listener_.OnCompleted(action); }

void Daemon::OnMessageNotSent(const NodeId&, const absl::Status&) { ++messages_not_sent_; }

}  // namespace mlxcomm::sim
