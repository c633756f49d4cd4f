#include "tests/sim/client.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/sim/job.h"
#include "tests/sim/reported.h"

namespace mlxcomm::sim {
namespace {

constexpr std::byte kHandedBack{0xa5};

std::uint32_t RankIn(const GroupPlan& group, std::uint32_t world_rank) {
  const auto found = std::find(group.members.begin(), group.members.end(), world_rank);
  return found == group.members.end() ? kEveryRank
                                      : static_cast<std::uint32_t>(found - group.members.begin());
}

}  // namespace

Client::Client(Job& job, std::uint32_t rank, Host& host, const ClientOptions& options,
               const Fate& fate, Random random)
    : job_(job),
      rank_(rank),
      host_(host),
      options_(options),
      fate_(fate),
      random_(random),
      ids_(job.program().groups.size(), 0),
      failed_(job.program().groups.size(), false) {}

std::string Client::Describe() const {
  if (gone_) return "has gone";
  if (phase_ == Phase::kJoining) return "has not joined yet";
  std::string text = absl::StrCat("at step ", next_, " of ", job_.program().steps.size());
  if (phase_ == Phase::kShrinking) absl::StrAppend(&text, ", waits for its group to shrink");
  if (halted_) absl::StrAppend(&text, ", halted");
  for (const auto& [ticket, call] : under_way_) {
    absl::StrAppend(&text, "; waits for step ", call.index, " ",
                    OperationKindName(call.step.operation.kind), " in group ",
                    call.after_shrink ? "that has shrunk" : absl::StrCat(call.step.group));
  }
  return text;
}

// The answer arrives through a socket a moment later, unless the daemon has ended in the meantime.
template <typename Reply>
std::unique_ptr<node::Answer<Reply>> Client::Later(void (Client::*on_reply)(const Reply&),
                                                   void (Client::*on_failure)(const Failure&)) {
  const auto soon = [this, life = life_](const auto& what) {
    job_.schedule().After(random_.Below(20 * kMicrosecond), [this, life, what] {
      if (life != host_.life() || gone_) return;
      asking_ = false;
      what();
    });
  };
  asking_ = true;
  gave_up_ = false;
  asked_ns_ = job_.schedule().now_ns();
  return std::make_unique<Reported<Reply>>(
      [this, soon, on_reply](const Reply& reply) {
        soon([this, on_reply, reply] { (this->*on_reply)(reply); });
      },
      [this, soon, on_failure](const Failure& failure) {
        soon([this, on_failure, failure] { (this->*on_failure)(failure); });
      });
}

std::uint64_t Client::asked_for_ns() const { return job_.schedule().now_ns() - asked_ns_; }

void Client::CheckAnswered(std::uint64_t asked_ns, std::uint64_t timeout_ns,
                           const char* what) const {
  const std::uint64_t took = job_.schedule().now_ns() - asked_ns;
  if (took <= timeout_ns + job_.late_ns_max(host_)) return;
  Complain(absl::StrCat(what, " was answered after ", took / kMillisecond, " ms, its deadline was ",
                        timeout_ns / kMillisecond, " ms"));
}

// What this process does while it is waiting.
void Client::EndSoon(std::uint64_t exits_ns, std::uint64_t cancels_ns, bool joining) {
  const auto still_waits = [this, life = life_, call = asks_] {
    return life == host_.life() && !gone_ && asking_ && asks_ == call;
  };
  if (exits_ns != kNever) {
    job_.schedule().After(exits_ns, [this, still_waits] {
      if (still_waits()) Exit();
    });
  }
  if (cancels_ns == kNever) return;
  job_.schedule().After(cancels_ns, [this, still_waits, joining, call = asks_] {
    if (!still_waits()) return;
    gave_up_ = true;
    job_.OnGivesUp(*this, joining ? "joining" : "shrinking");
    host_.daemon()->Post([session = session_, joining, call](node::Node& node) {
      node.Call(joining ? &jobs::Jobs::CancelAttach : &jobs::Jobs::CancelShrink, session, call);
    });
  });
}

// --- joining ------------------------------------------------------------------------------

void Client::Start() {
  life_ = host_.life();
  host_.daemon()->Post([session = session_, pid = rank_ + 1000](node::Node& node) {
    node.OnSessionOpened(session, {pid, ""});
  });
  const std::uint64_t late =
      options_.joins_late_ns_max > 0 ? random_.Below(options_.joins_late_ns_max) : 0;
  job_.schedule().After(late, [this] {
    if (life_ == host_.life() && !gone_) Join();
  });
}

void Client::Join() {
  v1::AttachRequest request;
  request.set_job(job_.name());
  request.set_rank(rank_);
  request.set_size(static_cast<std::uint32_t>(job_.hosts().size()));
  request.set_timeout_ms(options_.join_timeout_ns / kMillisecond);
  auto answer = Later<v1::AttachReply>(&Client::OnJoined, &Client::OnNotJoined);
  host_.daemon()->Post([session = session_, call = ++asks_, request,
                        answer = std::move(answer)](node::Node& node) mutable {
    node.Call(&jobs::Jobs::Attach, session, call, request, std::move(answer));
  });
  EndSoon(fate_.exits_joining_ns, fate_.cancels_joining_ns, true);
}

void Client::OnJoined(const v1::AttachReply& reply) {
  CheckAnswered(asked_ns_, options_.join_timeout_ns, "joining");
  const std::vector<Host*>& hosts = job_.hosts();
  bool right = static_cast<std::size_t>(reply.members_size()) == hosts.size();
  for (std::size_t i = 0; right && i < hosts.size(); ++i) {
    const v1::Member& member = reply.members(static_cast<int>(i));
    right = member.node() == hosts[i]->name() && member.pid() == i + 1000;
  }
  if (!right) Complain("was told of other members than its job has");
  job_.OnJoined(*this, reply.group());
  joined_ = true;
  phase_ = Phase::kWalking;
  ids_[0] = main_group_ = reply.group();
  Advance();
}

void Client::OnNotJoined(const Failure& failure) {
  CheckAnswered(asked_ns_, options_.join_timeout_ns, "joining");
  job_.OnNotJoined(*this, failure);
  Leave();
}

// --- shrinking ----------------------------------------------------------------------------

void Client::Shrink() {
  phase_ = Phase::kShrinking;
  lost_ = false;
  v1::ShrinkRequest request;
  request.set_group(main_group_);
  request.set_timeout_ms(options_.timeout_ns / kMillisecond);
  auto answer = Later<v1::GroupReply>(&Client::OnShrunk, &Client::OnNotShrunk);
  host_.daemon()->Post([session = session_, call = ++asks_, request,
                        answer = std::move(answer)](node::Node& node) mutable {
    node.Call(&jobs::Jobs::Shrink, session, call, request, std::move(answer));
  });
  EndSoon(fate_.exits_shrinking_ns, fate_.cancels_shrinking_ns, false);
}

void Client::OnShrunk(const v1::GroupReply& reply) {
  CheckAnswered(asked_ns_, options_.timeout_ns, "shrinking");
  ++shrinks_;
  phase_ = Phase::kWalking;
  left_ = {reply.group(), reply.rank(), static_cast<std::uint32_t>(reply.members_size()), 0};
  main_group_ = reply.group();
  job_.OnShrunk(*this, reply);
  Advance();
}

void Client::OnNotShrunk(const Failure& failure) {
  CheckAnswered(asked_ns_, options_.timeout_ns, "shrinking");
  job_.OnNotShrunk(*this, failure);
  Leave();
}

// --- walking ------------------------------------------------------------------------------

// Thinks for a moment, then continues.
void Client::Advance() {
  if (due_ || gone_ || halted_) return;
  due_ = true;
  const std::uint64_t think = options_.think_ns_max > 0 ? random_.Below(options_.think_ns_max) : 0;
  job_.schedule().After(think, [this, life = life_] {
    due_ = false;
    if (life == host_.life() && !gone_ && !halted_) WalkOn();
  });
}

void Client::WalkOn() {
  if (phase_ != Phase::kWalking || asking_) return;
  if (lost_ && !leaving_) {
    if (under_way_.empty()) Shrink();
    return;
  }
  if (left_.group != 0) return WalkOnWithThoseLeft();
  while (!leaving_ && next_ < job_.program().steps.size() &&
         under_way_.size() < options_.calls_max && fence_ == 0) {
    if (next_ >= fate_.exits_at) return Exit();
    if (next_ >= fate_.halts_at) {
      halted_ = true;
      job_.OnFault(absl::StrCat("rank ", rank_, " stops calling before step ", next_));
      return;
    }
    if (MustWaitBefore(job_.program().steps[next_])) return;
    const bool waits = TakeStep(job_.program().steps[next_++]);
    if (asking_) return;
    if (waits) return Advance();
  }
  if (next_ >= job_.program().steps.size()) leaving_ = true;
  if (leaving_ && under_way_.empty()) Leave();
}

// One at a time, the same on all remaining ranks.
void Client::WalkOnWithThoseLeft() {
  if (!leaving_ && under_way_.empty() && left_.next < kStepsAfterShrink) {
    const Step step = StepAfterShrink(left_.group, left_.next, left_.size);
    return Submit(step, left_.next++, left_.group, left_.rank, true);
  }
  if (under_way_.empty()) Leave();
}

// A group is left only when nothing is in progress in it.
bool Client::MustWaitBefore(const Step& step) const {
  return step.kind == Step::Kind::kRelease &&
         std::any_of(under_way_.begin(), under_way_.end(),
                     [&](const auto& entry) { return entry.second.step.group == step.group; });
}

// True if it has called an operation, and thinks before it continues.
bool Client::TakeStep(const Step& step) {
  const GroupPlan& group = job_.program().groups[step.group];
  const std::uint32_t rank = RankIn(group, rank_);
  if (rank == kEveryRank) return false;
  const bool takes_part =
      step.kind != Step::Kind::kMessage || rank == step.source || rank == step.destination;
  if (!takes_part) return false;
  job_.LogCall(*this, step, next_ - 1, "calls");
  if (step.kind == Step::Kind::kSplit) {
    if (failed_[group.parent]) {
      failed_[step.group] = true;
    } else {
      Split(step);
    }
    return true;
  }
  if (failed_[step.group]) {
    LosePartsOf(step);
    return false;
  }
  if (step.kind == Step::Kind::kRelease) {
    auto answer = Later<v1::ReleaseReply>(&Client::OnReleasedGroup, &Client::OnNotReleasedGroup);
    v1::ReleaseRequest request;
    request.set_group(ids_[step.group]);
    host_.daemon()->Post(
        [session = session_, request, answer = std::move(answer)](node::Node& node) mutable {
          node.Call(&jobs::Jobs::Release, session, request, *answer);
        });
    return true;
  }
  Submit(step, next_ - 1, ids_[step.group], rank, false);
  return true;
}

void Client::OnReleasedGroup(const v1::ReleaseReply&) { Advance(); }

void Client::OnNotReleasedGroup(const Failure& failure) {
  Complain(absl::StrCat("may not leave a group: ", failure.message));
  Advance();
}

// A split whose fence has failed has made no usable group.
void Client::LosePartsOf(const Step& fence) {
  for (std::size_t i = 1; fence.fence != 0 && i < failed_.size(); ++i) {
    const GroupPlan& part = job_.program().groups[i];
    if (part.parent == fence.group && part.number == fence.fence) failed_[i] = true;
  }
}

void Client::Split(const Step& step) {
  const GroupPlan& group = job_.program().groups[step.group];
  v1::SplitRequest request;
  request.set_parent(ids_[group.parent]);
  request.set_number(group.number);
  request.mutable_ranks()->Add(group.parent_ranks.begin(), group.parent_ranks.end());
  splitting_ = step.group;
  auto answer = Later<v1::GroupReply>(&Client::OnSplit, &Client::OnNotSplit);
  host_.daemon()->Post(
      [session = session_, request, answer = std::move(answer)](node::Node& node) mutable {
        node.Call(&jobs::Jobs::Split, session, request, *answer);
      });
}

void Client::OnSplit(const v1::GroupReply& reply) {
  const GroupPlan& group = job_.program().groups[splitting_];
  ids_[splitting_] = reply.group();
  const bool right = reply.rank() == RankIn(group, rank_) &&
                     static_cast<std::size_t>(reply.members_size()) == group.members.size();
  if (!right) Complain("was given a different rank or size from the one it split");
  Advance();
}

void Client::OnNotSplit(const Failure& failure) {
  failed_[splitting_] = true;
  // It repeats the parent's.
  job_.OnFailure(*this, job_.program().groups[splitting_].parent, failure);
  if (options_.gives_up) leaving_ = true;
  Advance();
}

void Client::Submit(const Step& step, std::size_t index, std::uint64_t group, std::uint32_t rank,
                    bool after_shrink) {
  const std::uint64_t ticket = next_ticket_++;
  if (step.fence != 0) fence_ = ticket;
  Call& call = under_way_[ticket];
  call.step = step;
  call.index = index;
  call.rank = rank;
  call.after_shrink = after_shrink;
  call.submitted_ns = job_.schedule().now_ns();
  oracle::Operation o = step.operation;
  const bool message = step.kind == Step::Kind::kMessage;
  if (message && rank == step.destination) o.kind = OperationKind::kReceive;
  call.differs = !after_shrink && index >= fate_.differs_at && !message && !HasCounts(o.kind) &&
                 !has_differed();
  if (call.differs) {
    differed_in_ = step.group;
    o.kind =
        o.kind == OperationKind::kAllReduce ? OperationKind::kAllGather : OperationKind::kAllReduce;
    o.root = 0;
    o.op = o.kind == OperationKind::kAllReduce ? ReduceOperator::kSum : ReduceOperator::kNone;
    job_.OnFault(absl::StrCat("rank ", rank_, " calls something else at step ", index));
  }
  const std::size_t width = DataTypeBytes(o.type);
  const OperationShape shape = o.ShapeFor(rank);
  call.input = oracle::Input(o.type, o.op, rank, shape.input_elements, o.salt);
  call.in_place = shape.writes && shape.input_elements == shape.output_elements &&
                  MayBeInPlace(o.kind) && random_.Chance(300);
  if (!call.in_place) call.output.assign(shape.output_elements * width, std::byte{0xee});
  collective::Call submitted;
  submitted.session = session_;
  submitted.group = group;
  submitted.ticket = ticket;
  submitted.signature = {
      o.kind,   o.type, o.op, HasCounts(o.kind) ? 0 : o.count, HasRoot(o.kind) ? o.root : 0,
      step.plan};
  submitted.peer_rank = rank == step.source ? step.destination : step.source;
  submitted.tag = step.tag;
  submitted.timeout_ns = options_.timeout_ns;
  submitted.input = call.input.data();
  submitted.output = call.in_place ? call.input.data() : call.output.data();
  submitted.input_bytes_available = call.input.size();
  submitted.output_bytes_available = call.in_place ? call.input.size() : call.output.size();
  if (!o.tables.empty()) {
    submitted.counts = reinterpret_cast<const std::byte*>(call.step.operation.tables[rank].data());
    submitted.counts_bytes_available = o.tables[rank].size() * sizeof(std::uint64_t);
  }
  host_.daemon()->Submit(submitted);
}

void Client::OnCompleted(const collective::Action& action) {
  const auto found = under_way_.find(action.ticket);
  if (found == under_way_.end()) {
    return Complain(absl::StrCat("ticket ", action.ticket, " was answered twice, or is unknown"));
  }
  Call call = std::move(found->second);
  under_way_.erase(found);
  if (fence_ == action.ticket) fence_ = 0;
  ++finished_;
  CheckTime(call);
  job_.LogCall(*this, call.step, call.index,
               action.failure.ok() ? "has done" : "is told a failure of");
  if (action.failure.ok()) {
    Check(call);
  } else {
    OnCallFailed(call, action.failure);
  }
  Keep(std::move(call.input));
  Keep(std::move(call.output));
  if (!exited_) Advance();
}

void Client::OnCallFailed(const Call& call, const Failure& failure) {
  if (call.after_shrink) {
    job_.OnFailureAfterShrink(*this, failure);
  } else {
    failed_[call.step.group] = true;
    LosePartsOf(call.step);
    job_.OnFailure(*this, call.step.group, failure);
  }
  if (options_.shrinks && failure.code == FailureCode::kRankLost && shrinks_ < kShrinksMax) {
    lost_elsewhere_ = !call.after_shrink && call.step.group != 0;
    lost_ = true;
  } else if (options_.gives_up || call.after_shrink) {
    leaving_ = true;
  }
}

void Client::Check(Call& call) {
  const Step& step = call.step;
  if (call.differs && step.operation.size > 1) {
    return Complain(absl::StrCat("step ", call.index,
                                 " went well although it called something "
                                 "else than the others"));
  }
  if (call.differs) return;
  const oracle::Bytes& output = call.in_place ? call.input : call.output;
  const std::size_t key =
      call.after_shrink ? static_cast<std::size_t>(Mix(left_.group) + call.index) : call.index;
  const std::string wrong = job_.WrongIn(key, step, call.rank, output);
  if (!wrong.empty()) Complain(absl::StrCat("step ", call.index, ": ", wrong));
}

void Client::CheckTime(const Call& call) const {
  const std::uint64_t took = job_.schedule().now_ns() - call.submitted_ns;
  if (took <= options_.timeout_ns + job_.late_ns_max(host_)) return;
  Complain(absl::StrCat("step ", call.index, " ended ", took / kMillisecond,
                        " ms after it was called, its deadline was ",
                        options_.timeout_ns / kMillisecond, " ms"));
}

void Client::Keep(oracle::Bytes buffer) {
  if (buffer.empty()) return;
  std::fill(buffer.begin(), buffer.end(), kHandedBack);
  kept_bytes_ += buffer.size();
  kept_.push_back(std::move(buffer));
  while (kept_bytes_ > kKeptBytesMax && kept_.size() > 1) {
    CheckKept(kept_.front());
    kept_bytes_ -= kept_.front().size();
    kept_.pop_front();
  }
}

void Client::CheckKept(const oracle::Bytes& buffer) const {
  const auto wrong =
      std::find_if(buffer.begin(), buffer.end(), [](std::byte b) { return b != kHandedBack; });
  if (wrong == buffer.end()) return;
  Complain(absl::StrCat("byte ", wrong - buffer.begin(), " of a buffer of ", buffer.size(),
                        " was written to after the buffer had been handed back"));
}

void Client::Leave() {
  gone_ = true;
  auto answer = std::make_unique<Reported<v1::DetachReply>>([](const v1::DetachReply&) {},
                                                            [](const Failure&) {});
  host_.daemon()->Post([session = session_, answer = std::move(answer)](node::Node& node) mutable {
    node.Call(&jobs::Jobs::Detach, session, v1::DetachRequest(), *answer);
  });
  host_.daemon()->EndSession(session_, "its process has ended");
  for (const oracle::Bytes& buffer : kept_) CheckKept(buffer);
  job_.OnGone(*this);
}

void Client::Exit() {
  job_.OnFault(absl::StrCat("rank ", rank_, " exits before step ", next_));
  exited_ = true;
  gone_ = true;
  host_.daemon()->EndSession(session_, "its process has ended");
  job_.OnGone(*this);
}

void Client::OnReleased() {
  for (const oracle::Bytes& buffer : kept_) CheckKept(buffer);
  kept_.clear();
  under_way_.clear();
}

void Client::OnDaemonEnded() {
  gone_ = true;
  under_way_.clear();
  kept_.clear();
}

void Client::Complain(const std::string& what) const {
  job_.Complain(absl::StrCat("rank ", rank_, " on ", host_.name(), ": ", what));
}

}  // namespace mlxcomm::sim
