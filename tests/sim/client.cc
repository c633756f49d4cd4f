#include "tests/sim/client.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/sim/job.h"

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
      failed_(job.program().groups.size(), false) {}

void Client::Start() {
  life_ = host_.life();
  Advance();
}

std::string Client::Describe() const {
  if (gone_) return "has gone";
  std::string text = absl::StrCat("at step ", next_, " of ", job_.program().steps.size());
  if (halted_) absl::StrAppend(&text, ", halted");
  for (const auto& [ticket, call] : under_way_) {
    const Step& step = job_.program().steps[call.step];
    absl::StrAppend(&text, "; waits for step ", call.step, " ",
                    OperationKindName(step.operation.kind), " in group ", step.group);
  }
  return text;
}

// Thinks for a moment, then walks on.
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
    if (waits) return Advance();
  }
  if (next_ >= job_.program().steps.size()) leaving_ = true;
  if (leaving_ && under_way_.empty()) Leave();
}

// A group is left only when nothing is under way in it.
bool Client::MustWaitBefore(const Step& step) const {
  return step.kind == Step::Kind::kRelease &&
         std::any_of(under_way_.begin(), under_way_.end(), [&](const auto& entry) {
           return job_.program().steps[entry.second.step].group == step.group;
         });
}

// True: it has called something, and thinks before it goes on.
bool Client::TakeStep(const Step& step) {
  const GroupPlan& group = job_.program().groups[step.group];
  const std::uint32_t rank = RankIn(group, rank_);
  if (rank == kEveryRank) return false;
  const bool takes_part =
      step.kind != Step::Kind::kMessage || rank == step.source || rank == step.destination;
  if (!takes_part) return false;
  job_.LogCall(*this, next_ - 1, "calls");
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
    host_.daemon()->membership().Release(session_, group.id, job_.schedule().now_ns());
    host_.daemon()->Wake();
    return true;
  }
  return Submit(step, rank);
}

// A split whose fence has failed has made nothing that may be used.
void Client::LosePartsOf(const Step& fence) {
  for (std::size_t i = 1; fence.fence != 0 && i < failed_.size(); ++i) {
    const GroupPlan& part = job_.program().groups[i];
    if (part.parent == fence.group && part.number == fence.fence) failed_[i] = true;
  }
}

void Client::Split(const Step& step) {
  const GroupPlan& group = job_.program().groups[step.group];
  collective::SplitCall call;
  call.group = group.id;
  call.parent = job_.program().groups[group.parent].id;
  call.number = group.number;
  call.ranks = group.parent_ranks;
  const Failure failure =
      host_.daemon()->membership().Split(session_, call, job_.schedule().now_ns());
  host_.daemon()->Wake();
  if (failure.ok()) return;
  failed_[step.group] = true;
  job_.OnFailure(*this, group.parent, failure);  // It repeats the parent's.
  if (options_.gives_up) leaving_ = true;
}

bool Client::Submit(const Step& step, std::uint32_t rank) {
  const std::uint64_t ticket = next_ticket_++;
  if (step.fence != 0) fence_ = ticket;
  Call& call = under_way_[ticket];
  call.step = next_ - 1;
  call.rank = rank;
  call.submitted_ns = job_.schedule().now_ns();
  oracle::Operation o = step.operation;
  const bool message = step.kind == Step::Kind::kMessage;
  if (message && rank == step.destination) o.kind = OperationKind::kReceive;
  call.differs = call.step >= fate_.differs_at && !message && !HasCounts(o.kind) && !differed_;
  if (call.differs) {
    differed_ = true;
    o.kind =
        o.kind == OperationKind::kAllReduce ? OperationKind::kAllGather : OperationKind::kAllReduce;
    o.root = 0;
    o.op = o.kind == OperationKind::kAllReduce ? ReduceOperator::kSum : ReduceOperator::kNone;
    job_.OnFault(absl::StrCat("rank ", rank_, " calls something else at step ", call.step));
  }
  const std::size_t width = DataTypeBytes(o.type);
  const OperationShape shape = o.ShapeFor(rank);
  call.input = oracle::Input(o.type, o.op, rank, shape.input_elements, o.salt);
  const bool may_be_in_place = o.kind == OperationKind::kAllReduce ||
                               o.kind == OperationKind::kReduce ||
                               o.kind == OperationKind::kBroadcast;
  call.in_place = shape.writes && shape.input_elements == shape.output_elements &&
                  may_be_in_place && random_.Chance(300);
  if (!call.in_place) call.output.assign(shape.output_elements * width, std::byte{0xee});
  collective::Call submitted;
  submitted.session = session_;
  submitted.ticket = ticket;
  submitted.rank = rank;
  submitted.signature = {o.kind, o.type, o.op, o.count, o.root, step.plan};
  submitted.peer_rank = rank == step.source ? step.destination : step.source;
  submitted.tag = step.tag;
  submitted.input = call.input.data();
  submitted.output = call.in_place ? call.input.data() : call.output.data();
  submitted.input_bytes_available = call.input.size();
  submitted.output_bytes_available = call.in_place ? call.input.size() : call.output.size();
  if (!o.tables.empty()) {
    submitted.counts = reinterpret_cast<const std::byte*>(step.operation.tables[rank].data());
    submitted.counts_bytes_available = o.tables[rank].size() * sizeof(std::uint64_t);
  }
  submitted.timeout_ns = options_.timeout_ns;
  host_.daemon()->Submit(job_.program().groups[step.group].id, submitted);
  return true;
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
  job_.LogCall(*this, call.step, action.failure.ok() ? "has done" : "is told a failure of");
  const std::uint32_t group = job_.program().steps[call.step].group;
  if (action.failure.ok()) {
    Check(call);
  } else {
    failed_[group] = true;
    LosePartsOf(job_.program().steps[call.step]);
    job_.OnFailure(*this, group, action.failure);
    if (options_.gives_up) leaving_ = true;
  }
  Keep(std::move(call.input));
  Keep(std::move(call.output));
  if (!exited_) Advance();
}

void Client::Check(Call& call) {
  const Step& step = job_.program().steps[call.step];
  if (call.differs && step.operation.size > 1) {
    return Complain(absl::StrCat("step ", call.step,
                                 " went well although it called something "
                                 "else than the others"));
  }
  if (call.differs) return;
  const oracle::Bytes& output = call.in_place ? call.input : call.output;
  const std::string wrong = job_.expected().Wrong(call.step, step, call.rank, output);
  if (!wrong.empty()) Complain(absl::StrCat("step ", call.step, ": ", wrong));
}

void Client::CheckTime(const Call& call) const {
  const std::uint64_t took = job_.schedule().now_ns() - call.submitted_ns;
  if (took <= options_.timeout_ns + job_.late_ns_max(host_)) return;
  Complain(absl::StrCat("step ", call.step, " ended ", took / kMillisecond,
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
  host_.daemon()->membership().LeaveAll(session_, job_.schedule().now_ns());
  host_.daemon()->Wake();
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
