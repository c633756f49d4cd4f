#include "daemon/engine.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <asio/post.hpp>
#include <spdlog/spdlog.h>

#include "absl/strings/str_cat.h"
#include "daemon/platform/machine.h"
#include "proto/types/utf8.h"

namespace mlxcomm {
namespace {

// How long the engine looks again before it sleeps: a hand-over through a sleeping
// thread costs ten times as much as one to a thread that looks. Short where cores
// are scarce, for then somebody else needs this one.
constexpr std::uint64_t kSpinNsFewCores = 5'000;
constexpr std::uint64_t kSpinNsManyCores = 50'000;

}  // namespace

Engine::Engine(asio::io_context& io, EngineOptions options)
    : io_(io),
      options_(std::move(options)),
      bell_watch_(io),
      timer_(io),
      scratch_(options_.scratch_bytes_max),
      collectives_(options_.self.id, scratch_),
      rendezvous_(options_.self.id, options_.self.name, options_.self.incarnation, *this),
      now_ns_(platform::MonotonicNow()),
      started_ns_(now_ns_) {}

// The workers go first: what they still do reads the operations' own descriptions.
Engine::~Engine() {
  workers_.reset();
  bell_watch_.release();
}

void Engine::Join(intake::Intake& intake, fabric::Fabric& fabric,
                  control::ControlServer& control) {
  intake_ = &intake;
  fabric_ = &fabric;
  control_ = &control;
  workers_ = std::make_unique<Workers>(options_.workers, bell_);
  bell_watch_.assign(bell_.descriptor());
  WatchBell();
}

void Engine::WatchBell() {
  bell_watch_.async_wait(asio::posix::descriptor_base::wait_read,
                         [this](const asio::error_code& error) {
                           if (error) return;
                           bell_.Drain();
                           WatchBell();
                         });
}

void Engine::Run() {
  const std::uint64_t spin_ns = platform::CoreCount() <= 4 ? kSpinNsFewCores : kSpinNsManyCores;
  std::uint64_t idle_since = 0;
  while (!stop_.load(std::memory_order_acquire)) {
    now_ns_ = platform::MonotonicNow();
    if (Turn()) {
      idle_since = 0;
      continue;
    }
    if (idle_since == 0) idle_since = now_ns_;
    if (now_ns_ - idle_since >= spin_ns) {
      Sleep();
      idle_since = 0;
    }
  }
}

// One look at everything. False: there was nothing to do.
bool Engine::Turn() {
  std::size_t count = io_.poll();
  count += intake_->Poll();
  CarryOut();
  count += fabric_->Poll();
  CarryOut();
  workers_->Poll(done_work_);
  for (const std::uint64_t cookie : done_work_) collectives_.OnLocalWorkDone(cookie, now_ns_);
  count += done_work_.size();
  done_work_.clear();
  if (NextDeadline() <= now_ns_) {
    collectives_.OnTime(now_ns_);
    rendezvous_.OnTime(now_ns_);
    FinishLateStatus();
    CheckUsefulness();
    ++count;
  }
  CarryOut();
  if (!forming_.empty()) FinishForming();
  if (!ended_sessions_.empty()) ReleaseEndedSessions();
  return count > 0;
}

void Engine::Sleep() {
  const bool may_sleep = intake_->PrepareToSleep();
  const bool fabric_too = may_sleep && fabric_->PrepareToSleep();
  if (fabric_too && workers_->PrepareToSleep()) {
    // Setting the timer anew would itself wake us (its old wait is cancelled), so it
    // is left alone unless the deadline has come nearer.
    const std::uint64_t deadline = NextDeadline();
    if (deadline < armed_ns_) {
      const std::uint64_t wait = deadline > now_ns_ ? deadline - now_ns_ : 1;
      timer_.expires_after(std::chrono::nanoseconds(wait));
      armed_ns_ = deadline;
      timer_.async_wait([this](const asio::error_code& cancelled) {
        if (!cancelled) armed_ns_ = collective::kNever;
      });
    }
    io_.restart();
    io_.run_one();
    workers_->WakeUp();
  }
  if (fabric_too) fabric_->WakeUp();
  if (may_sleep) intake_->WakeUp();
}

std::uint64_t Engine::NextDeadline() const {
  std::uint64_t next = std::min(collectives_.NextDeadline(), rendezvous_.NextDeadline());
  for (const auto& [query, call] : status_calls_) next = std::min(next, call.deadline_ns);
  if (options_.ends_with_last_client && clients_seen_ == 0) {
    next = std::min(next, started_ns_ + options_.first_client_timeout_ns);
  }
  return next;
}

void Engine::RequestStop() {
  stop_.store(true, std::memory_order_release);
  asio::post(io_, [] {});
}

bool Engine::Drain(std::uint64_t timeout_ns) {
  const Failure failure{FailureCode::kDaemonStopping, kNoRank,
                        absl::StrCat("mlxcommd on ", options_.self.name, " is stopping")};
  asio::post(io_, [this, failure] {
    draining_ = true;
    RefuseAttaching(failure);
  });
  std::unique_lock lock(groups_mutex_);
  const auto none_left = [this] { return groups_left_ == 0; };
  if (groups_changed_.wait_for(lock, std::chrono::nanoseconds(timeout_ns), none_left)) return true;
  asio::post(io_, [this, failure] { FailEverything(failure); });
  // Long enough for the last answers; processes that never leave are left behind.
  groups_changed_.wait_for(lock, std::chrono::milliseconds(300), none_left);
  return false;
}

void Engine::AnswerOpenCalls() {
  draining_ = true;
  io_.restart();
  io_.poll();
  RefuseAttaching({FailureCode::kDaemonStopping, kNoRank, "this daemon is stopping"});
  status_calls_.clear();  // An answer that is dropped says so to its caller.
}

void Engine::RefuseAttaching(const Failure& failure) {
  for (auto& [id, session] : sessions_) {
    if (session.attaching == nullptr) continue;
    rendezvous_.Leave(id);
    OnAttachRefused(id, failure);
  }
}

void Engine::FailEverything(const Failure& failure) {
  std::vector<std::uint64_t> groups;
  collectives_.ForEach([&](const collective::Group& group) { groups.push_back(group.id()); });
  for (const std::uint64_t group : groups) {
    OperationKey key;
    key.group = group;
    collectives_.Find(group)->Fail(failure, key, now_ns_);
  }
  CarryOut();
}

void Engine::CountGroups() {
  std::size_t left = 0;
  collectives_.ForEach([&left](const collective::Group&) { ++left; });
  const std::lock_guard lock(groups_mutex_);
  groups_left_ = left;
  groups_changed_.notify_all();
}

void Engine::OnSessionOpened(intake::SessionId session, const intake::Peer& peer) {
  sessions_[session].peer = peer;
  if (peer.role != queue::ProcessRole::kClient) return;
  ++clients_seen_;
  ++clients_open_;
  spdlog::debug("client {} attached (session {})", peer.pid, session);
}

void Engine::OnConnection(intake::SessionId, platform::FileDescriptor connection) {
  control_->Adopt(std::move(connection));
}

void Engine::OnSubmission(intake::SessionId session, const intake::Submission& submission) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return;
  const queue::SubmissionEntry& entry = submission.entry;
  if (found->second.group == 0 || found->second.group != entry.group) {
    return intake_->Complete(session, entry.ticket, entry.group,
                             {FailureCode::kInvalidArgument, kNoRank,
                              "group: this process has not joined it"},
                             false);
  }
  collective::Call call;
  call.session = session;
  call.ticket = entry.ticket;
  call.rank = found->second.rank;
  call.signature = {entry.kind, entry.data_type, entry.reduce_operator,
                    HasCounts(entry.kind) ? 0 : entry.count,
                    HasRoot(entry.kind) ? entry.peer_rank : 0, entry.plan, 0};
  call.peer_rank = entry.peer_rank;
  call.tag = entry.tag;
  call.input = submission.input;
  call.output = submission.output;
  call.input_bytes_available = submission.input_bytes_available;
  call.output_bytes_available = submission.output_bytes_available;
  call.counts = submission.counts;
  call.counts_bytes_available = submission.counts_bytes_available;
  call.timeout_ns = entry.timeout_ns != 0 ? entry.timeout_ns : options_.operation_timeout_ns;
  collectives_.Submit(entry.group, call, now_ns_);
}

void Engine::OnSessionEnded(intake::SessionId session, const absl::Status& why) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return;
  const bool client = found->second.peer.role == queue::ProcessRole::kClient;
  if (client) {
    --clients_open_;
    spdlog::info("client {} has gone: {}", found->second.peer.pid, std::string(why.message()));
  }
  rendezvous_.Leave(session);
  if (collective::Group* const group = collectives_.Find(found->second.group); group != nullptr) {
    group->OnLocalRankGone(found->second.rank, std::string(why.message()), now_ns_);
  }
  found->second.attaching.reset();
  sessions_.erase(found);
  ended_sessions_.push_back(session);
  CarryOut();
  CheckUsefulness();
}

// An ended session's memory stays until no operation names it.
void Engine::ReleaseEndedSessions() {
  std::erase_if(ended_sessions_, [this](intake::SessionId session) {
    if (collectives_.UsesSession(session)) return false;
    intake_->ReleaseMemory(session);
    return true;
  });
  if (!collectives_.RemoveGroupsThatAreOver().empty()) CountGroups();
}

void Engine::CheckUsefulness() {
  if (!options_.ends_with_last_client || on_useless_ == nullptr) return;
  const bool nobody_came = clients_seen_ == 0 &&
                           now_ns_ >= started_ns_ + options_.first_client_timeout_ns;
  if (nobody_came || (clients_seen_ > 0 && clients_open_ == 0)) {
    options_.ends_with_last_client = false;  // Once.
    on_useless_(on_useless_context_);
  }
}

bool Engine::BeginCall() {
  if (calls_.fetch_add(1) < kCallsMax) return true;
  calls_.fetch_sub(1);
  return false;
}

void Engine::Attach(const intake::SessionIdentity& who, std::uint64_t call,
                    const v1::AttachRequest& request,
                    std::unique_ptr<control::AttachAnswer> answer) {
  if (!BeginCall()) {
    return answer->Fail({FailureCode::kResourceExhausted, kNoRank, "too many calls at once"});
  }
  // std::function must be copyable, so the answer crosses as a plain pointer.
  asio::post(io_, [this, who, call, request, raw = answer.release()] {
    calls_.fetch_sub(1);
    std::unique_ptr<control::AttachAnswer> held(raw);
    const auto found = sessions_.find(who.session);
    if (found == sessions_.end()) return;
    Session& session = found->second;
    if (draining_) {
      return held->Fail({FailureCode::kDaemonStopping, kNoRank, "this daemon is stopping"});
    }
    if (session.attaching != nullptr || session.group != 0) {
      return held->Fail({FailureCode::kAlreadyExists, kNoRank,
                         "this process has joined a job already on this connection"});
    }
    session.attaching = std::move(held);
    session.attach_call = call;
    session.rank = request.rank();
    session.program = std::string(
        Utf8Prefix(request.program(), cluster::Rendezvous::kJobBytesMax));
    const std::uint64_t timeout_ns = request.timeout_ms() != 0
                                         ? std::min<std::uint64_t>(request.timeout_ms(),
                                                                   86'400'000) * 1'000'000
                                         : options_.rendezvous_timeout_ns;
    rendezvous_.Attach(who.session,
                       {request.job(), request.rank(), request.size(),
                        static_cast<std::uint64_t>(session.peer.pid), session.program},
                       timeout_ns, now_ns_);
    CarryOut();
  });
}

void Engine::CancelAttach(intake::SessionId session, std::uint64_t call) {
  asio::post(io_, [this, session, call] {
    const auto found = sessions_.find(session);
    if (found == sessions_.end() || found->second.attaching == nullptr) return;
    if (found->second.attach_call != call) return;  // That one has been answered.
    rendezvous_.Leave(session);
    // Its world may have formed, and be about to be told: others would wait for it there.
    collective::Group* const group = collectives_.Find(std::exchange(found->second.group, 0));
    if (group != nullptr) {
      group->OnLocalRankGone(found->second.rank, "it gave up while the job was forming", now_ns_);
    }
    found->second.attaching->Fail({FailureCode::kCancelled, kNoRank, "cancelled by the caller"});
    found->second.attaching.reset();
    CarryOut();
    if (!collectives_.RemoveGroupsThatAreOver().empty()) CountGroups();
  });
}

void Engine::Detach(intake::SessionId session, std::unique_ptr<control::DetachAnswer> answer) {
  if (!BeginCall()) {
    return answer->Fail({FailureCode::kResourceExhausted, kNoRank, "too many calls at once"});
  }
  asio::post(io_, [this, session, raw = answer.release()] {
    calls_.fetch_sub(1);
    std::unique_ptr<control::DetachAnswer> held(raw);
    const auto found = sessions_.find(session);
    if (found != sessions_.end()) {
      rendezvous_.Leave(session);
      collective::Group* const group = collectives_.Find(found->second.group);
      if (group != nullptr) group->OnLocalRankDetached(found->second.rank, now_ns_);
      found->second.group = 0;
      CarryOut();
      if (!collectives_.RemoveGroupsThatAreOver().empty()) CountGroups();
    }
    held->Succeed(v1::DetachReply());
  });
}

void Engine::OnAttachRefused(std::uint64_t session, const Failure& failure) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end() || found->second.attaching == nullptr) return;
  std::exchange(found->second.attaching, nullptr)->Fail(failure);
}

void Engine::OnWorldFormed(const std::string& job, std::uint64_t group,
                           const std::vector<cluster::FormedMember>& members) {
  std::vector<collective::Member> layout;
  Forming forming;
  forming.reply.set_group(group);
  forming.reply.set_timeout_default_ms(options_.operation_timeout_ns / 1'000'000);
  forming.coordinator = members[0].node;
  Failure unreachable;
  for (std::uint32_t rank = 0; rank < members.size(); ++rank) {
    const cluster::FormedMember& member = members[rank];
    layout.push_back({member.node, member.node_name, member.pid});
    v1::Member& told = *forming.reply.add_members();
    told.set_rank(rank);
    told.set_node(member.node_name);
    told.set_pid(member.pid);
    if (member.node == options_.self.id) continue;
    const auto known = std::find(forming.awaited.begin(), forming.awaited.end(), member.node);
    if (known == forming.awaited.end()) forming.awaited.push_back(member.node);
    if (fabric_->IsReachable(member.node)) continue;
    unreachable = {FailureCode::kUnavailable, static_cast<std::int32_t>(rank),
                   absl::StrCat("node ", options_.self.name, " has no link to node ",
                                member.node_name, ", where rank ", rank,
                                " is: connect the two (peers { connect } in the configuration)")};
  }
  if (forming.coordinator != options_.self.id) forming.awaited.clear();
  if (!collectives_.AddGroup(group, job, std::move(layout))) {
    const Failure failure{FailureCode::kResourceExhausted, kNoRank,
                          "job " + job + " is beyond what this daemon serves (64 ranks a node)"};
    for (const cluster::FormedMember& member : members) OnAttachRefused(member.session, failure);
    return;
  }
  spdlog::info("job {} is formed: {} ranks, group {}", job, members.size(), group);
  CountGroups();
  collective::Group& formed = *collectives_.Find(group);
  for (std::uint32_t rank = 0; rank < members.size(); ++rank) {
    if (members[rank].node != options_.self.id) continue;
    const auto session = sessions_.find(members[rank].session);
    if (session != sessions_.end() && session->second.attaching != nullptr) {
      session->second.group = group;
      session->second.rank = rank;
      forming.sessions.push_back(session->first);
    } else {
      formed.OnLocalRankGone(rank, "its process went while the job was forming", now_ns_);
    }
  }
  if (!unreachable.ok()) {
    OperationKey key;
    key.group = group;
    formed.Fail(unreachable, key, now_ns_);
  }
  if (forming.coordinator != options_.self.id) {
    SendWorldStep(forming.coordinator, group, /*ready=*/false);
  } else {
    forming.ready = forming.awaited.empty();
  }
  forming_[group] = std::move(forming);
  FinishForming();
}

void Engine::SendWorldStep(const NodeId& node, std::uint64_t group, bool ready) {
  v1::PeerMessage message;
  if (ready) {
    message.mutable_world_ready()->set_group(group);
  } else {
    message.mutable_world_joined()->set_group(group);
  }
  SendToNode(node, message);
}

void Engine::OnWorldJoined(const NodeId& node, std::uint64_t group) {
  const auto found = forming_.find(group);
  if (found == forming_.end() || found->second.coordinator != options_.self.id) return;
  std::erase(found->second.awaited, node);
  if (!found->second.awaited.empty()) return;
  found->second.ready = true;
  const collective::Group* const formed = collectives_.Find(group);
  if (formed != nullptr) {
    for (std::uint16_t i = 0; i < formed->layout().node_count(); ++i) {
      if (i != formed->layout().self()) SendWorldStep(formed->layout().node(i), group, true);
    }
  }
  FinishForming();
}

// Answers those whose world is ready, or has failed before it was.
void Engine::FinishForming() {
  std::erase_if(forming_, [this](const auto& entry) {
    const Forming& forming = entry.second;
    const collective::Group* const formed = collectives_.Find(entry.first);
    const bool failed = formed == nullptr || formed->failed();
    if (!forming.ready && !failed) return false;
    for (const intake::SessionId id : forming.sessions) {
      const auto session = sessions_.find(id);
      if (session == sessions_.end() || session->second.attaching == nullptr) continue;
      auto answer = std::exchange(session->second.attaching, nullptr);
      if (!failed) {
        answer->Succeed(forming.reply);
      } else {
        answer->Fail(formed != nullptr ? formed->failure()
                                       : Failure{FailureCode::kRankLost, kNoRank,
                                                 "a rank left while the job was forming"});
      }
    }
    return true;
  });
}

}  // namespace mlxcomm
