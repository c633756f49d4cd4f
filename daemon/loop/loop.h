// The loop: one thread that drives the node (node/node.h), with all that the node needs of the machine: the
// io_context, queues in shared memory, sockets, workers, the clock.
//
//   turn: io_context (at intervals), queues, rails, workers, time ─▶ node ─▶ actions until none is left
//   nothing to do: a piece of the workers' work; else it spins for a time that is bounded and learnt
//   (adaptive_spin.h), then sleeps in the io_context
//
// Owner: Daemon. Thread: Run() is the loop's thread; RequestStop and Drain from another; the rest before
// Run or after it. Memory: one more thread while the machine is examined for doctor, and one while freed
// memory is given back.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/control/control_server.h"
#include "daemon/fabric/tcp_fabric.h"
#include "daemon/intake/intake.h"
#include "daemon/loop/hello_sockets.h"
#include "daemon/node/node.h"
#include "daemon/platform/power.h"
#include "daemon/platform/shared_memory.h"
#include "daemon/platform/wakeup.h"
#include "daemon/record/event_log.h"
#include "daemon/record/flight_recorder.h"
#include "daemon/work/scratch_pool.h"
#include "daemon/work/workers.h"
#include "proto/queue/scheduling_policy.h"
#include "proto/wire/versions.h"

namespace mlxcomm {

struct LoopOptions {
  // Ranks of one machine carry out small operations by themselves (node/direct_groups.h).
  bool ranks_meet = true;
  queue::SchedulingPolicy scheduling;
  // Private daemons end with their last client, or when no client came in time.
  bool ends_with_last_client = false;
  std::function<void()> on_useless;  // Called then, on the loop's thread.
  std::uint64_t first_client_timeout_ns = 30'000'000'000;
};

// The program that is to take a running daemon's place, as it describes itself.
struct NextProgram {
  std::string release;  // "0.2.0"
  wire::VersionRange versions{};
};

// Gives memory that was freed back to the system, which takes milliseconds, on a thread that exists
// only meanwhile: the loop has payload to move. Where two are asked for at once, one more follows
// the first.
class MemoryRelease {
 public:
  MemoryRelease() = default;
  ~MemoryRelease();

  // Waits for nothing. Where no thread can be started, the memory stays until the next time.
  void Start();

 private:
  void Run();

  std::atomic<std::uint32_t> asked_{0};  // 0: no thread runs.
  std::thread thread_;
};

class Loop final : public intake::IntakeListener, public node::NodePort {
 public:
  // `recorder` and `events` outlive it.
  Loop(asio::io_context& io, LoopOptions options, record::FlightRecorder& recorder,
       record::EventLog& events);
  ~Loop() override;

  // The parts that it drives; call it before Run. All outlive Run; `hellos` may be nullptr.
  struct Parts {
    node::Node& node;
    intake::Intake& intake;
    fabric::TcpFabric& fabric;
    control::ControlServer& control;
    ScratchPool& scratch;
    HelloSockets* hellos = nullptr;
  };
  void Join(const Parts& parts);
  const std::uint64_t& wakeups() const { return wakeups_; }

  void Run();  // Until RequestStop.
  void RequestStop();
  // Refuses new jobs and waits until no group is left, but at most timeout_ns; then fails the remaining ones.
  // False: groups had to be failed.
  bool Drain(std::uint64_t timeout_ns);
  // Makes place for another program (process/successor.h): once no client is here, the door rests, and
  // `on_idle` is called on the loop's thread. Who comes just then is served, and it waits again. Any thread.
  void LeaveWhenIdle(NextProgram next, std::function<void()> on_idle);
  // Serves on; status, an event and the log tell why.
  void RefuseNext(const absl::Status& why);
  // As RefuseNext, of one that on_idle was called for; else nothing.
  void RefuseHandOver(const absl::Status& why);
  // Serves on, whatever LeaveWhenIdle was asked for before, and says no more that it refused. Any thread.
  void TakeBackNext();
  // After on_idle, not on the loop's thread: what the next program goes on with. FAILED_PRECONDITION: a
  // neighbour and that program have no version of the protocol in common; then it serves on.
  // DEADLINE_EXCEEDED: its thread stands still. CANCELLED: it is not idle, because that was taken back
  // meanwhile, or a client has come.
  absl::StatusOr<intake::ListenSocket> HandOver(const NextProgram& next);
  // After Run has returned, on the caller's thread: answers every open call and those still on their way. May
  // be called again.
  void AnswerOpenCalls();
  // Workers still read the operations' own descriptions, so they end before the node.
  void StopWorkers() { workers_.reset(); }

 private:
  // IntakeListener
  void OnSessionOpened(intake::SessionId session, const intake::Peer& peer) override;
  void OnConnection(intake::SessionId, intake::ControlConnection connection) override {
    control_->Adopt(std::move(connection));
  }
  void OnSubmission(intake::SessionId session, const intake::Submission& submission) override {
    node_->OnSubmission(session, submission);
  }
  void OnSessionEnded(intake::SessionId session, const absl::Status& why) override;
  // NodePort
  bool SubmitWork(const collective::LocalWork& work, std::uint64_t cookie) override;
  void Complete(const collective::Action& action) override {
    intake_->Complete(action.session, action.ticket, action.key.group, action.failure,
                      action.group_failed);
  }
  void ReleaseMemory(intake::SessionId session) override;
  std::byte* MakePage(std::uint64_t group, std::size_t bytes,
                      const std::vector<intake::SessionId>& sessions) override;
  void GivePage(std::uint64_t group, const std::vector<intake::SessionId>& sessions) override;
  void DropPage(std::uint64_t group) override { pages_.erase(group); }
  void AnswerClose(intake::SessionId session, std::uint64_t group) override {
    intake_->AnswerClose(session, group);
  }
  std::optional<intake::Submission> TakeOver(intake::SessionId session,
                                             const queue::SubmissionEntry& entry) override {
    return intake_->TakeOver(session, entry);
  }
  void OnGroups(std::size_t groups) override;
  void OnForwarding(bool forwards) override {
    forwards_ = forwards;
    KeepAwake();
  }
  void OnEvent(record::LoggedEvent event) override;
  void OnViolation(const NodeId& node, const std::string& what) override;
  std::vector<std::string> Describe(v1::NodeStatus& status) const override;
  void DescribeLinks(v1::NodeStatus& status) const override { fabric_->Describe(status); }
  intake::CopiedResults ResultsCopiedBy(intake::SessionId session) const override {
    return intake_->ResultsCopiedBy(session);
  }
  void CheckSystem() override;
  std::vector<std::string> Listening() const override { return fabric_->listening(); }
  Clocks ReadClocks() const override;
  // DiscoveryPort
  void SendHello(const std::string& interface, const wire::DiscoveryHello& hello) override;
  void Dial(const std::string& address) override;
  void StopDialing(const std::string& address) override { fabric_->RemovePeer(address); }
  // LinksPort
  void OnRailSetup(const NodeId& node, std::span<const std::byte> payload) override {
    fabric_->OnRailSetup(node, payload);
  }
  void OnRailGone() override { fabric_->OnRailGone(); }
  void OnDeadlineChanged() override { fabric_->OnDeadlineChanged(); }
  void OnMemoryFreed() override { memory_release_.Start(); }

  bool Turn();
  void Sleep();
  void WatchBell();
  void CheckUsefulness();
  void LookWhetherToLeave();
  void ServeOn(const absl::Status& why);
  void Stay();
  absl::Status CheckNext(const NextProgram& next) const;
  void GiveBackMemory();
  std::uint64_t NextDeadline() const;
  // Jobs of other nodes also need this machine awake if their frames pass through it. (Only this thread
  // changes the number of groups left.)
  void KeepAwake() { sleep_guard_.Want(groups_left_ > 0 || forwards_); }
  Failure Stopping() const;

  struct Client {
    pid_t pid = 0;
    std::string user;
  };
  // As an event: anybody may attach and leave as often as it likes.
  void Report(const Client& client, const char* kind, std::string text);

  asio::io_context& io_;
  LoopOptions options_;
  record::FlightRecorder& recorder_;
  record::EventLog& events_;
  node::Node* node_ = nullptr;
  intake::Intake* intake_ = nullptr;
  fabric::TcpFabric* fabric_ = nullptr;
  control::ControlServer* control_ = nullptr;
  ScratchPool* scratch_ = nullptr;
  HelloSockets* hellos_ = nullptr;  // nullptr: no neighbour is looked for.
  platform::Wakeup bell_;           // Rung by the workers.
  asio::posix::stream_descriptor bell_watch_;
  asio::steady_timer timer_;
  std::uint64_t armed_ns_ = collective::kNever;  // When timer_ will fire.
  std::unique_ptr<Workers> workers_;
  std::vector<std::uint64_t> done_work_;
  platform::SleepGuard sleep_guard_;  // Held while a group is here or operations pass through.
  bool forwards_ = false;
  std::uint64_t now_ns_;
  std::uint64_t io_polled_ns_ = 0;
  const std::uint64_t started_ns_;
  std::uint64_t wakeups_ = 0;
  std::uint64_t clients_seen_ = 0;
  // A private daemon ends this long after its last client.
  static constexpr std::uint64_t kLingerNs = 1'000'000'000;
  std::uint64_t useless_since_ns_ = collective::kNever;
  std::map<intake::SessionId, Client> clients_;             // That are there.
  std::set<intake::SessionId> launchers_;                   // Likewise.
  std::map<std::uint64_t, platform::SharedSegment> pages_;  // By group: what its ranks share.
  std::thread looking_;                                     // Examines the machine.
  MemoryRelease memory_release_;
  std::uint64_t release_due_ns_ = collective::kNever;  // When no group comes before.
  std::mutex groups_mutex_;  // Drain waits on it; never held on the path of payload.
  std::condition_variable groups_changed_;
  std::size_t groups_left_ = 0;
  // Of a program that is to take this one's place.
  enum class Leaving : std::uint8_t { kNo, kWhenIdle, kAtRest, kReady };
  Leaving leaving_ = Leaving::kNo;
  std::uint32_t restarts_asked_ = 0;  // And answered: begun to wait, or refused.
  std::string release_of_next_;
  std::string next_refused_;  // Why; empty: it was not, or that was taken back.
  std::uint64_t next_refused_ns_ = 0;
  bool next_taken_back_ = false;
  std::function<void()> on_idle_;
  std::atomic<bool> stop_{false};
};

}  // namespace mlxcomm
