#include "daemon/engine.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <spdlog/spdlog.h>
#include <asio/post.hpp>

#include "absl/strings/str_cat.h"
#include "daemon/platform/machine.h"
#include "daemon/platform/process_state.h"
#include "daemon/platform/thread_quality.h"
#include "proto/queue/adaptive_spin.h"
#include "proto/types/utf8.h"

namespace mlxcomm {
namespace {

// What comes by the io_context while the engine is awake (calls, ends of processes, timers,
// sockets of rails that were quiet) can wait so long: asking the system costs more than a turn
// without it.
constexpr std::uint64_t kIoIntervalNs = 20'000;

}  // namespace

Engine::Engine(asio::io_context& io, EngineOptions options, telemetry::FlightRecorder& recorder,
               telemetry::OperationCounts& counts, telemetry::EventLog& events)
    : io_(io),
      options_(std::move(options)),
      bell_watch_(io),
      timer_(io),
      recorder_(recorder),
      events_(events),
      scratch_(options_.scratch_bytes_max),
      operation_recorder_(recorder, counts, now_ns_),
      collectives_(options_.self.id, scratch_, {}, &operation_recorder_,
                   [](std::uint64_t pid) { return platform::IsStopped(static_cast<pid_t>(pid)); }),
      membership_(collectives_, options_.groups_per_user_max),
      rendezvous_(options_.self.id, options_.self.name, options_.self.incarnation, *this),
      forming_worlds_(options_.self.id, options_.self.name,
                      {options_.way_timeout_ns, options_.rendezvous_timeout_ns}, *this),
      shrink_(options_.self.id, *this),
      carrier_(collectives_, membership_, scratch_, *this),
      now_ns_(platform::MonotonicNow()),
      started_ns_(now_ns_),
      probes_(*this) {}

// The workers go first: what they still do reads the operations' own descriptions.
Engine::~Engine() {
  workers_.reset();
  bell_watch_.release();
}

void Engine::Join(intake::Intake& intake, fabric::Fabric& fabric, control::ControlServer& control) {
  intake_ = &intake;
  fabric_ = &fabric;
  control_ = &control;
  workers_ = std::make_unique<Workers>(options_.scheduling, bell_, recorder_);
  done_work_.reserve(Workers::kWorksMax);
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
  platform::ServeWhoWaits();
  queue::AdaptiveSpin spin(options_.scheduling.waiting);
  while (!stop_.load(std::memory_order_acquire)) {
    now_ns_ = platform::MonotonicNow();
    if (Turn()) {
      spin.Found(now_ns_);
    } else if (!workers_->Help()) {
      const bool others_work = workers_->IsUnderWay();
      if (!spin.LookAgain(now_ns_, options_.scheduling.engine_awaits_workers && others_work)) {
        Sleep();
      }
    }
  }
}

// One look at everything. False: there was nothing to do.
bool Engine::Turn() {
  std::size_t count = 0;
  // Not counted: what it brings for operations is seen below. The rest (timers, signs of life) is
  // nothing to look for; an idle daemon would learn to look from it, which cost it most.
  if (now_ns_ - io_polled_ns_ >= kIoIntervalNs) {
    io_polled_ns_ = now_ns_;
    io_.poll();
  }
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
    forming_worlds_.OnTime(now_ns_);
    shrink_.OnTime(now_ns_);
    FinishLateStatus();
    probes_.OnTime(now_ns_);
    CheckUsefulness();
    ++count;
  }
  CarryOut();
  if (operation_recorder_.AnyFailed()) TellOfFailures();
  if (!forming_.empty()) RefuseFailedWorlds();
  if (membership_.AnyLeft()) RemoveGroupsLeft();
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
    ++wakeups_;
    // Whatever it was, what waits in the queues is worth more than a further look at the system.
    io_polled_ns_ = platform::MonotonicNow();
    workers_->WakeUp();
  }
  if (fabric_too) fabric_->WakeUp();
  if (may_sleep) intake_->WakeUp();
}

std::uint64_t Engine::NextDeadline() const {
  std::uint64_t next =
      std::min({collectives_.NextDeadline(), rendezvous_.NextDeadline(),
                forming_worlds_.NextDeadline(), shrink_.NextDeadline(), probes_.NextDeadline()});
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
  RefuseShrinking({FailureCode::kDaemonStopping, kNoRank, "this daemon is stopping"});
  probes_.Clear();
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
  RefuseShrinking(failure);
  CarryOut();
}

void Engine::CountGroups() {
  std::size_t left = 0;
  collectives_.ForEach([&left](const collective::Group&) { ++left; });
  {
    const std::lock_guard lock(groups_mutex_);
    groups_left_ = left;
    groups_changed_.notify_all();
  }
  KeepAwake();
}

// Others' jobs want this machine as well, where their frames go through it. (Only this thread changes
// how many groups are left.)
void Engine::KeepAwake() { sleep_guard_.Want(groups_left_ > 0 || forwards_); }

void Engine::OnForwarding(bool forwards) {
  forwards_ = forwards;
  KeepAwake();
}

void Engine::OnSessionOpened(intake::SessionId session, const intake::Peer& peer) {
  sessions_[session].peer = peer;
  if (peer.role != queue::ProcessRole::kClient) return;
  ++clients_seen_;
  ++clients_open_;
  if (const auto arena = intake_->ArenaOf(session); arena != nullptr) {
    fabric_->AddMemory({arena, arena->data(), arena->bytes(), arena->descriptor(),
                        [pages = intake_->PagesOf(session)] { return pages->Keep(); }});
  }
  spdlog::debug("client {} attached (session {})", peer.pid, session);
}

void Engine::OnConnection(intake::SessionId, platform::FileDescriptor connection) {
  control_->Adopt(std::move(connection));
}

void Engine::OnSubmission(intake::SessionId session, const intake::Submission& submission) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return;
  const queue::SubmissionEntry& entry = submission.entry;
  const std::uint32_t* const rank = membership_.RankOf(session, entry.group);
  if (rank == nullptr) {
    return intake_->Complete(
        session, entry.ticket, entry.group,
        {FailureCode::kInvalidArgument, kNoRank, "group: this process has not joined it"}, false);
  }
  collective::Call call;
  call.session = session;
  call.ticket = entry.ticket;
  call.rank = *rank;
  call.signature = {entry.kind,
                    entry.data_type,
                    entry.reduce_operator,
                    HasCounts(entry.kind) ? 0 : entry.count,
                    HasRoot(entry.kind) ? entry.peer_rank : 0,
                    entry.plan,
                    0};
  call.peer_rank = entry.peer_rank;
  call.tag = entry.tag;
  call.input = submission.input;
  call.output = submission.output;
  call.input_bytes_available = submission.input_bytes_available;
  call.output_bytes_available = submission.output_bytes_available;
  call.counts = submission.counts;
  call.counts_bytes_available = submission.counts_bytes_available;
  call.timeout_ns = entry.timeout_ns != 0 ? entry.timeout_ns : options_.operation_timeout_ns;
  call.by_liveness = call.timeout_ns == 0;
  if (call.by_liveness) call.timeout_ns = options_.stalled_timeout_ns;
  collectives_.Submit(entry.group, call, now_ns_);
}

void Engine::OnSessionEnded(intake::SessionId session, const absl::Status& why) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return;
  const bool client = found->second.peer.role == queue::ProcessRole::kClient;
  if (client) {
    --clients_open_;
    TellEvent("client_gone", telemetry::EventSeverity::kNote,
              absl::StrCat("process ", found->second.peer.pid), std::string(why.message()),
              found->second.peer.user.name);
    spdlog::info("client {} has gone: {}", found->second.peer.pid, std::string(why.message()));
    const intake::CopiedResults copied = intake_->ResultsCopiedBy(session);
    if (copied.results > 0) {
      spdlog::info(
          "client {} says that it copied {} results ({} bytes) out of shared memory, in {} ms",
          found->second.peer.pid, copied.results, copied.bytes, copied.nanoseconds / 1'000'000);
    }
  }
  rendezvous_.Leave(session);
  OnGroupsLeft(session, membership_.OnSessionEnded(session, std::string(why.message()), now_ns_));
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
    if (const auto arena = intake_->ArenaOf(session); arena != nullptr) {
      fabric_->RemoveMemory(arena->data());
    }
    intake_->ReleaseMemory(session);
    return true;
  });
}

void Engine::CheckUsefulness() {
  if (!options_.ends_with_last_client || on_useless_ == nullptr) return;
  const bool nobody_came =
      clients_seen_ == 0 && now_ns_ >= started_ns_ + options_.first_client_timeout_ns;
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
  Ask(std::move(answer), [this, who, call, request](std::unique_ptr<control::AttachAnswer> held) {
    const auto found = sessions_.find(who.session);
    if (found == sessions_.end()) {
      return held->Fail(
          {FailureCode::kCancelled, kNoRank, "the session that asked has ended: connect anew"});
    }
    Session& session = found->second;
    if (draining_) {
      return held->Fail({FailureCode::kDaemonStopping, kNoRank, "this daemon is stopping"});
    }
    if (session.attaching != nullptr || membership_.HasPlaces(who.session)) {
      return held->Fail({FailureCode::kAlreadyExists, kNoRank,
                         "this process has joined a job already on this connection"});
    }
    session.attaching = std::move(held);
    session.attach_call = call;
    session.program = std::string(Utf8Prefix(request.program(), cluster::Rendezvous::kJobBytesMax));
    const std::uint64_t timeout_ns =
        request.timeout_ms() != 0
            ? std::min<std::uint64_t>(request.timeout_ms(), 86'400'000) * 1'000'000
            : options_.rendezvous_timeout_ns;
    rendezvous_.Attach(who.session,
                       {{session.peer.user.name, request.job()},
                        request.rank(),
                        request.size(),
                        static_cast<std::uint64_t>(session.peer.pid),
                        session.program},
                       timeout_ns, now_ns_);
    CarryOut();
  });
}

void Engine::CancelAttach(intake::SessionId session, std::uint64_t call) {
  asio::post(io_, [this, session, call] {
    const auto found = sessions_.find(session);
    if (found == sessions_.end() || found->second.attaching == nullptr) return;
    if (found->second.attach_call != call) return;  // That one has been answered.
    // Taken out first: what follows may end the session itself.
    const auto attaching = std::exchange(found->second.attaching, nullptr);
    rendezvous_.Leave(session);
    // Its world may have formed, and be about to be told: others would wait for it there.
    OnGroupsLeft(session, membership_.OnSessionEnded(
                              session, "it gave up while the job was forming", now_ns_));
    attaching->Fail({FailureCode::kCancelled, kNoRank, "cancelled by the caller"});
    CarryOut();
  });
}

void Engine::OnAttachRefused(std::uint64_t session, const Failure& failure) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end() || found->second.attaching == nullptr) return;
  std::exchange(found->second.attaching, nullptr)->Fail(failure);
}

}  // namespace mlxcomm
