#include "tests/sim/daemon.h"

#include <algorithm>
#include <new>
#include <utility>

#include "daemon/work/work_pieces.h"

namespace mlxcomm::sim {
namespace {

constexpr std::align_val_t kCacheLine{64};
// The flight recorder is read only for the log of a failed group.
constexpr std::size_t kEventsKept = 64;

}  // namespace

CountedScratch::~CountedScratch() {
  for (const Taken& taken : taken_) ::operator delete(taken.memory, kCacheLine);
}

std::byte* CountedScratch::Take(std::uint64_t bytes) {
  if (bytes > limit_ || used_ > limit_ - bytes) return nullptr;
  auto* const memory = static_cast<std::byte*>(::operator new(bytes, kCacheLine));
  taken_.push_back({memory, bytes});
  used_ += bytes;
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
      recorder_(options_.node.fabric.self.name, kEventsKept),
      node_(
          options_.node, scratch_, recorder_, counts_, *this, *this, *this,
          [&schedule] { return schedule.now_ns(); }, schedule.now_ns()) {
  if (options_.node.hello_keys) node_.Discover(*this);
  Wake();
}

Daemon::~Daemon() { *alive_ = false; }

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

void Daemon::Post(Call call) {
  calls_.push_back(std::move(call));
  Wake();
}

void Daemon::Submit(const collective::Call& call) {
  submissions_.push_back(call);
  Wake();
}

void Daemon::EndSession(collective::SessionId session, const std::string& why) {
  std::erase_if(submissions_,
                [session](const collective::Call& call) { return call.session == session; });
  Post([session, why](node::Node& node) { node.OnSessionEnded(session, why); });
}

void Daemon::Complete(collective::SessionId session, std::uint64_t ticket, std::uint64_t group,
                      const Failure& failure, bool group_failed) {
  collective::Action action;
  action.session = session;
  action.ticket = ticket;
  action.key.group = group;
  action.failure = failure;
  action.group_failed = group_failed;
  listener_.OnCompleted(action);
}

// As Loop::Turn.
void Daemon::Turn() {
  node_.AdvanceTo(now_ns());
  links().WakeUp();
  for (Call& call : std::exchange(calls_, {})) call(node_);
  std::size_t count = submissions_.size();
  for (collective::Call& call : std::exchange(submissions_, {})) node_.OnSubmission(call);
  node_.CarryOut();
  count += links().Poll(now_ns());
  node_.CarryOut();
  count += done_work_.size();
  for (const std::uint64_t cookie : std::exchange(done_work_, {})) node_.OnWorkDone(cookie);
  if (links().deadline_ns() <= now_ns()) links().OnTime(now_ns());
  const std::uint64_t rails_gone = links().rails_gone();
  if (std::exchange(rails_gone_, rails_gone) != rails_gone) listener_.OnRailGone();
  if (node_.EndTurn()) ++count;
  busy_until_ns_ = now_ns() + std::max<std::uint64_t>(1, count * options_.event_ns);
  if (count > 0 || !calls_.empty()) return Wake();
  Sleep();
}

void Daemon::Sleep() {
  if (!links().PrepareToSleep()) return Wake();
  const std::uint64_t deadline = std::min(links().deadline_ns(), node_.NextDeadline());
  if (deadline >= timer_ns_) return;
  timer_ns_ = std::max(deadline, now_ns() + 1);
  schedule_.At(timer_ns_, [this, alive = alive_, due = timer_ns_] {
    if (!*alive || timer_ns_ != due) return;
    timer_ns_ = kNever;
    Wake();
  });
}

void Daemon::CheckSystem() {
  if (random_.Chance(options_.blind_of_thousand)) return;
  schedule_.After(random_.Below(options_.look_ns_max), [this, alive = alive_] {
    if (!*alive) return;
    v1::NodeCheckup seen;
    seen.set_system("sim");
    Post([seen](node::Node& node) { node.OnSystemChecked(seen); });
  });
}

// Work is carried out when its time is up, so that buffers are read and written late.
bool Daemon::SubmitWork(const collective::Action& action) {
  const collective::LocalWork& work = *action.work;
  if (!HasSeveralPieces(work)) return false;
  const std::uint64_t takes = BytesTouched(work) * kSecond / options_.work_bytes_per_second;
  workers_busy_until_ns_ = std::max(workers_busy_until_ns_, now_ns()) + takes;
  schedule_.At(workers_busy_until_ns_, [this, alive = alive_, &work, cookie = action.cookie] {
    if (!*alive) return;
    DoWork(work);
    done_work_.push_back(cookie);
    Wake();
  });
  return true;
}

}  // namespace mlxcomm::sim
