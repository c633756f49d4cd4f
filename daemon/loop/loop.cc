#include "daemon/loop/loop.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <system_error>
#include <utility>

#include <spdlog/spdlog.h>
#include <asio/post.hpp>

#include "absl/strings/str_cat.h"
#include "daemon/loop/own_facts.h"
#include "daemon/platform/handler_memory.h"
#include "daemon/platform/machine.h"
#include "daemon/platform/system_facts.h"
#include "daemon/work/work_pieces.h"
#include "proto/queue/adaptive_spin.h"

namespace mlxcomm {
namespace {

// Uses handler memory, because it is also set outside of handlers.
struct Alarm : platform::UsesHandlerMemory {
  std::uint64_t& armed_ns;

  explicit Alarm(std::uint64_t& armed) : armed_ns(armed) {}
  void operator()(const asio::error_code& cancelled) const {
    if (!cancelled) armed_ns = collective::kNever;
  }
};

// While awake, the loop polls the io_context (calls, timers, exits, quiet sockets) at this
// interval: the system call costs more than the rest of a turn.
constexpr std::uint64_t kIoIntervalNs = 20'000;
// The last group's scratch memory is kept this long for the next group.
constexpr std::uint64_t kNoGroupNs = 1'000'000'000;
constexpr std::chrono::seconds kHandOverTimeout{10};

}  // namespace

MemoryRelease::~MemoryRelease() {
  if (thread_.joinable()) thread_.join();
}

void MemoryRelease::Start() {
  if (asked_.fetch_add(1) > 0) return;     // The running thread will see it.
  if (thread_.joinable()) thread_.join();  // It has ended.
  try {
    thread_ = std::thread([this] { Run(); });
  } catch (const std::system_error&) {
    asked_.store(0);
  }
}

void MemoryRelease::Run() {
  std::uint32_t seen = asked_.load();
  do {
    platform::ReleaseFreeMemory();
  } while (!asked_.compare_exchange_strong(seen, 0));
}

Loop::Loop(asio::io_context& io, LoopOptions options, record::FlightRecorder& recorder,
           record::EventLog& events)
    : io_(io),
      options_(std::move(options)),
      recorder_(recorder),
      events_(events),
      bell_watch_(io),
      timer_(io),
      now_ns_(platform::MonotonicNow()),
      started_ns_(now_ns_) {}

Loop::~Loop() {
  StopWorkers();
  bell_watch_.release();
  if (examining_.joinable()) examining_.join();
}

void Loop::Join(const Parts& parts) {
  node_ = &parts.node;
  intake_ = &parts.intake;
  fabric_ = &parts.fabric;
  control_ = &parts.control;
  scratch_ = &parts.scratch;
  hellos_ = parts.hellos;
  workers_ = std::make_unique<Workers>(options_.scheduling, bell_, recorder_);
  done_work_.reserve(Workers::kWorksMax);
  bell_watch_.assign(bell_.descriptor());
  WatchBell();
}

void Loop::WatchBell() {
  bell_watch_.async_wait(asio::posix::descriptor_base::wait_read,
                         [this](const asio::error_code& error) {
                           if (error) return;
                           bell_.Drain();
                           WatchBell();
                         });
}

void Loop::Run() {
  platform::RaiseThreadPriority();
  queue::AdaptiveSpin spin(options_.scheduling.waiting);
  while (!stop_.load(std::memory_order_acquire)) {
    now_ns_ = platform::MonotonicNow();
    if (Turn()) {
      spin.Found(now_ns_);
    } else if (!workers_->Help()) {
      const bool others_work = workers_->IsUnderWay();
      if (!spin.LookAgain(now_ns_, options_.scheduling.loop_awaits_workers && others_work)) {
        Sleep();
      }
    }
  }
}

// Polls everything once. Returns false if there was nothing to do.
bool Loop::Turn() {
  node_->AdvanceTo(now_ns_);
  std::size_t count = 0;
  // Not counted: an idle daemon would learn to spin for timers and heartbeats.
  if (now_ns_ - io_polled_ns_ >= kIoIntervalNs) {
    io_polled_ns_ = now_ns_;
    io_.poll();
  }
  count += intake_->Poll();
  node_->CarryOut();
  count += fabric_->Poll();
  node_->CarryOut();
  workers_->Poll(done_work_);
  for (const std::uint64_t cookie : done_work_) node_->OnWorkDone(cookie);
  count += done_work_.size();
  done_work_.clear();
  if (node_->EndTurn()) ++count;
  CountGroups();
  if (options_.ends_with_last_client) CheckUsefulness();
  if (leaving_ != Leaving::kNo) CheckWhetherToLeave();
  KeepAwake();
  ReleaseFreeMemory();
  return count > 0;
}

// There are no more operations before the next job, and the allocator would keep the pages.
void Loop::ReleaseFreeMemory() {
  if (release_due_ns_ <= now_ns_) {
    // Freeing takes milliseconds, in which other nodes' operations would wait.
    const bool waits = node_->links().forwards();
    release_due_ns_ = waits ? now_ns_ + kNoGroupNs : collective::kNever;
    if (!waits) {
      scratch_->FreeKept();
      memory_release_.Start();
    }
  }
  if (node_->links().TakeMemoryFreed()) memory_release_.Start();
}

void Loop::Sleep() {
  const bool may_sleep = intake_->PrepareToSleep();
  const bool fabric_too = may_sleep && fabric_->PrepareToSleep();
  if (fabric_too && workers_->PrepareToSleep()) {
    // Cancelling the timer's wait wakes this thread, so it is only moved to an earlier time.
    const std::uint64_t deadline = NextDeadline();
    if (deadline < armed_ns_) {
      timer_.expires_after(std::chrono::nanoseconds(deadline > now_ns_ ? deadline - now_ns_ : 1));
      armed_ns_ = deadline;
      timer_.async_wait(Alarm(armed_ns_));
    }
    io_.restart();
    io_.run_one();
    ++wakeups_;
    // Queued work is more urgent than another poll of the system.
    io_polled_ns_ = platform::MonotonicNow();
    workers_->WakeUp();
  }
  if (fabric_too) fabric_->WakeUp();
  if (may_sleep) intake_->WakeUp();
}

std::uint64_t Loop::NextDeadline() const {
  const std::uint64_t next = std::min(node_->NextDeadline(), release_due_ns_);
  if (!options_.ends_with_last_client) return next;
  if (useless_since_ns_ != collective::kNever) return std::min(next, useless_since_ns_ + kLingerNs);
  if (clients_seen_ > 0) return next;
  return std::min(next, started_ns_ + options_.first_client_timeout_ns);
}

void Loop::CheckUsefulness() {
  const bool nobody_came =
      clients_seen_ == 0 && now_ns_ >= started_ns_ + options_.first_client_timeout_ns;
  const bool is_useful = clients_seen_ == 0 || !clients_.empty() || !launchers_.empty();
  if (is_useful) useless_since_ns_ = collective::kNever;
  if (!nobody_came && is_useful) return;
  // Lingers, so that the launcher can still ask how the job ended.
  useless_since_ns_ = std::min(useless_since_ns_, now_ns_);
  if (!nobody_came && now_ns_ < useless_since_ns_ + kLingerNs) return;
  options_.ends_with_last_client = false;  // Do this once.
  if (options_.on_useless) options_.on_useless();
}

void Loop::LeaveWhenIdle(NextProgram next, std::function<void()> on_idle) {
  asio::post(io_, [this, next = std::move(next), on_idle = std::move(on_idle)] {
    if (const absl::Status fits = CheckNext(next); !fits.ok()) return KeepServing(fits);
    ++restarts_asked_;
    next_refused_.clear();
    next_cancelled_ = false;
    release_of_next_ = next.release;
    on_idle_ = on_idle;
    if (leaving_ == Leaving::kNo) leaving_ = Leaving::kWhenIdle;
    spdlog::info("mlxcommd {} takes over once no client is left; now {}", release_of_next_,
                 clients_.size());
  });
}

// Groups may outlive their clients for a moment.
void Loop::CheckWhetherToLeave() {
  const bool is_idle = clients_.empty() && groups_left_ == 0;
  if (leaving_ == Leaving::kWhenIdle && is_idle) {
    intake_->Rest();
    leaving_ = Leaving::kAtRest;
  }
  if (leaving_ != Leaving::kAtRest) return;
  if (!is_idle) {
    intake_->GoOn();
    leaving_ = Leaving::kWhenIdle;
  } else if (intake_->is_at_rest()) {
    leaving_ = Leaving::kReady;
    on_idle_();
  }
}

void Loop::RefuseHandOver(const absl::Status& why) {
  asio::post(io_, [this, why] {
    if (leaving_ == Leaving::kReady) KeepServing(why);
  });
}

void Loop::RefuseNext(const absl::Status& why) {
  asio::post(io_, [this, why] { KeepServing(why); });
}

void Loop::KeepServing(const absl::Status& why) {
  ++restarts_asked_;
  next_cancelled_ = false;
  next_refused_ = std::string(why.message());
  next_refused_ns_ = platform::MonotonicNow();
  release_of_next_.clear();
  spdlog::warn("SIGUSR2: restart refused: {}", next_refused_);
  events_.Report("restart_refused", record::EventSeverity::kWarning, "program", next_refused_);
  Stay();
}

void Loop::Stay() {
  if (std::exchange(leaving_, Leaving::kNo) >= Leaving::kAtRest) intake_->GoOn();
}

void Loop::CancelNext() {
  asio::post(io_, [this] {
    if (leaving_ == Leaving::kNo && next_refused_.empty()) return;
    next_cancelled_ = true;
    if (next_refused_.empty()) {
      spdlog::info("mlxcommd {} does not take over: the restart was cancelled", release_of_next_);
    } else {
      spdlog::info("cancelled the refused restart");
      next_refused_.clear();
    }
    Stay();
  });
}

absl::StatusOr<intake::ListenSocket> Loop::HandOver(const NextProgram& next) {
  struct Request {
    std::promise<absl::StatusOr<intake::ListenSocket>> listen_socket;
    std::atomic<bool> is_over{false};  // The loop has answered, or the caller gave up.
  };
  const auto request = std::make_shared<Request>();
  asio::post(io_, [this, next, request] {
    if (request->is_over.exchange(true)) return;
    const bool ready = leaving_ == Leaving::kReady;
    const absl::Status fits = ready ? CheckNext(next) : absl::CancelledError("it is in use");
    request->listen_socket.set_value(fits.ok() ? intake_->HandOver() : fits);
  });
  std::future<absl::StatusOr<intake::ListenSocket>> listen_socket =
      request->listen_socket.get_future();
  // The caller handles signals, so a hung loop must not block it.
  const bool late = listen_socket.wait_for(kHandOverTimeout) == std::future_status::timeout;
  if (late && !request->is_over.exchange(true)) {
    return absl::DeadlineExceededError("the daemon's loop did not answer within 10 s");
  }
  return listen_socket.get();
}

// All links must come back, so each neighbour needs a common version.
absl::Status Loop::CheckNext(const NextProgram& next) const {
  absl::Status fits;
  node_->links().ForEach([&](const link::Link& link) {
    link.ForEachRail([&](const rail::Rail& rail) {
      const wire::VersionRange theirs = rail.peers_versions();
      if (theirs.newest == 0 || wire::CommonVersion(next.versions, theirs)) return;
      const std::string peer = node_->links().NameOf(link.peer().id);
      fits = absl::FailedPreconditionError(absl::StrCat(
          "mlxcommd ", next.release, " speaks protocol version ", wire::TextOf(next.versions),
          ", and ", peer, " version ", wire::TextOf(theirs), ": upgrade ", peer,
          " first, or to a release in between; or end all jobs and restart the ",
          "service on all nodes (mlxcommctl service restart --force)"));
    });
  });
  return fits;
}

Failure Loop::Stopping() const {
  return {FailureCode::kDaemonStopping, kNoRank,
          absl::StrCat("mlxcommd on ", node_->options().fabric.self.name, " is stopping")};
}

void Loop::RequestStop() {
  stop_.store(true, std::memory_order_release);
  asio::post(io_, [] {});
}

bool Loop::Drain(std::uint64_t timeout_ns) {
  asio::post(io_, [this, timeout_ns] { node_->RefuseNew(Stopping(), timeout_ns); });
  std::unique_lock lock(groups_mutex_);
  const auto none_left = [this] { return groups_left_ == 0; };
  if (groups_changed_.wait_for(lock, std::chrono::nanoseconds(timeout_ns), none_left)) return true;
  asio::post(io_, [this] { node_->FailAll(Stopping()); });
  // Time for the last answers; processes that never leave are abandoned.
  groups_changed_.wait_for(lock, std::chrono::milliseconds(300), none_left);
  return false;
}

void Loop::AnswerOpenCalls() {
  const Failure stopping{FailureCode::kDaemonStopping, kNoRank, "this daemon is stopping"};
  node_->RefuseNew(stopping, 0);  // Comes before the calls that are still queued.
  io_.restart();
  io_.poll();
  node_->AnswerOpenCalls(stopping);
}

void Loop::OnSessionOpened(intake::SessionId session, const intake::Peer& peer) {
  node_->OnSessionOpened(session, {static_cast<std::uint64_t>(peer.pid), peer.user.name});
  if (peer.role == queue::ProcessRole::kLauncher) launchers_.insert(session);
  if (peer.role != queue::ProcessRole::kClient) return;
  const Client& client = clients_[session] = {peer.pid, peer.user.name};
  ++clients_seen_;
  Report(client, "process_attached", "attached");
}

void Loop::OnArenaMade(const std::shared_ptr<const platform::SharedSegment>& arena,
                       const std::shared_ptr<intake::ArenaPages>& pages) {
  fabric_->AddMemory({arena, arena->data(), arena->bytes(), arena->descriptor(),
                      [pages] { return pages->Keep(); }});
}

void Loop::Report(const Client& client, const char* kind, std::string text) {
  events_.Add({.kind = kind,
               .object = absl::StrCat("process ", client.pid),
               .text = std::move(text),
               .user = client.user});
}

void Loop::OnSessionEnded(intake::SessionId session, const absl::Status& why) {
  const std::string text(why.message());
  if (const auto client = clients_.find(session); client != clients_.end()) {
    std::string reported = absl::StrCat("left: ", text);
    const intake::CopiedResults copied = intake_->ResultsCopiedBy(session);
    if (copied.results > 0) {
      absl::StrAppend(&reported, "; it reported that it copied ", copied.results, " results (",
                      copied.bytes, " bytes) out of shared memory, in ",
                      copied.nanoseconds / 1'000'000, " ms");
    }
    Report(client->second, "process_gone", std::move(reported));
    clients_.erase(client);
  }
  launchers_.erase(session);
  node_->OnSessionEnded(session, text);
}

bool Loop::SubmitWork(const collective::Action& action) {
  return HasSeveralPieces(*action.work) && workers_->Submit(action.work, action.cookie, action.key);
}

void Loop::CountGroups() {
  const std::size_t groups = node_->jobs().membership().group_count();
  if (groups == groups_left_) return;
  {
    const std::lock_guard lock(groups_mutex_);
    groups_left_ = groups;
    groups_changed_.notify_all();
  }
  release_due_ns_ = groups == 0 ? now_ns_ + kNoGroupNs : collective::kNever;
}

// Other nodes' jobs need this machine awake if it forwards their frames.
void Loop::KeepAwake() {
  const bool wanted = groups_left_ > 0 || node_->links().forwards();
  if (std::exchange(keeps_awake_, wanted) != wanted) sleep_guard_.Want(wanted);
}

void Loop::OnViolation(const NodeId& node, const std::string& what) {
  spdlog::error("node {} sent {}", node_->links().NameOf(node), what);
}

std::vector<std::string> Loop::Describe(v1::NodeStatus& status) const {
  const std::uint64_t now_ns = platform::MonotonicNow();
  status.set_pid(static_cast<std::uint64_t>(::getpid()));
  status.set_memory_bytes(platform::OwnMemoryBytes());
  std::vector<std::string> users = DescribeUse(*intake_, status);
  DescribeEnds(control_->ended(), status);
  status.set_start(node_->options().fabric.self.incarnation);
  if (restarts_asked_ > 0) {
    v1::RestartStatus& restart = *status.mutable_restart();
    restart.set_asked(restarts_asked_);
    restart.set_refused(next_refused_);
    if (!next_refused_.empty())
      restart.set_refused_ms_ago(node::MsBetween(next_refused_ns_, now_ns));
    restart.set_release(release_of_next_);
    restart.set_taken_back(next_cancelled_);
    restart.set_clients(static_cast<std::uint32_t>(clients_.size()));
  }
  const fabric::Links& links = node_->links();
  status.set_strangers_refused(fabric_->strangers_refused());
  status.set_nodes_refused(links.nodes_refused());
  if (fabric_->strangers_refused() > 0)
    status.set_stranger_refused_ms_ago(node::MsBetween(fabric_->stranger_refused_ns(), now_ns));
  status.set_ends_with_last_client(options_.ends_with_last_client);
  if (links.nodes_refused() > 0)
    status.set_node_refused_ms_ago(node::MsBetween(links.node_refused_ns(), now_ns));
  status.set_nodes_linked(links.nodes());
  status.set_nodes_linked_max(node_->options().fabric.nodes_max);
  for (const std::string& id : fabric_->key_ids()) status.add_cluster_keys(id);
  if (hellos_ != nullptr) hellos_->Describe(*status.mutable_discovery());
  return users;
}

node::NodePort::Clocks Loop::ReadClocks() const {
  return {platform::MonotonicNow(), platform::UnixNow()};
}

// The node asks again only after an answer, so at most one thread runs.
void Loop::CheckSystem() {
  if (examining_.joinable()) examining_.join();
  const auto examine = [this] {
    asio::post(
        io_, [this, seen = ExamineSystem()]() mutable { node_->OnSystemChecked(std::move(seen)); });
  };
  try {
    examining_ = std::thread(examine);
  } catch (const std::system_error&) {  // No thread can be started, so it runs here.
    examine();
  }
}

}  // namespace mlxcomm
