// The loop: one thread that drives the node with its io_context, queues, sockets, workers and
// clock.
//
//   turn: io_context (at intervals), queues, rails, workers, time ─▶ node ─▶ all its actions
//   nothing to do: help the workers; otherwise spin for a learnt, bounded time (adaptive_spin.h),
//                  then sleep
//
// Owner: Daemon. Thread: Run() is the loop's thread; RequestStop and Drain from another; the rest
// before Run or after it. Memory: temporary threads that examine the machine for doctor and release
// freed memory.
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
#include "daemon/fabric/tcp_fabric.h"
#include "daemon/intake/intake.h"
#include "daemon/loop/hello_sockets.h"
#include "daemon/node/node.h"
#include "daemon/platform/power.h"
#include "daemon/platform/shared_memory.h"
#include "daemon/platform/wakeup.h"
#include "daemon/record/event_log.h"
#include "daemon/record/flight_recorder.h"
#include "daemon/services/control_server.h"
#include "daemon/work/scratch_pool.h"
#include "daemon/work/workers.h"
#include "proto/queue/scheduling_policy.h"
#include "proto/wire/versions.h"

namespace mlxcomm {

struct LoopOptions {
  queue::SchedulingPolicy scheduling;
  // Private daemons end with their last client, or if no client connects in time.
  bool ends_with_last_client = false;
  std::function<void()> on_useless;  // Called then, on the loop's thread.
  std::uint64_t first_client_timeout_ns = 30'000'000'000;
};

// The successor of a running daemon, as it describes itself.
struct NextProgram {
  std::string release;  // "0.2.0"
  wire::VersionRange versions{};
};

// Releases freed memory on a temporary thread, because it takes milliseconds.
class MemoryRelease {
 public:
  MemoryRelease() = default;
  ~MemoryRelease();

  // Does not block. If no thread can be started, the memory stays until the next call.
  void Start();

 private:
  void Run();

  std::atomic<std::uint32_t> asked_{0};  // 0: idle.
  std::thread thread_;
};

class Loop final : public intake::IntakeListener, public node::NodePort {
 public:
  Loop(asio::io_context& io, LoopOptions options, record::FlightRecorder& recorder,
       record::EventLog& events);
  ~Loop() override;

  // The parts that it drives, all of which outlive Run. Call it before Run.
  struct Parts {
    node::Node& node;
    intake::Intake& intake;
    fabric::TcpFabric& fabric;
    services::ControlServer& control;
    ScratchPool& scratch;
    HelloSockets* hellos = nullptr;
  };
  void Join(const Parts& parts);
  const std::uint64_t& wakeups() const { return wakeups_; }

  void Run();
  void RequestStop();
  // Refuses new jobs and waits until no group is left. Returns false if groups were failed after
  // timeout_ns.
  bool Drain(std::uint64_t timeout_ns);
  // Stops accepting once the last client has left, and calls `on_idle` on the loop's thread. A
  // client that connects in the meantime is served, and the wait starts again. Any thread.
  void LeaveWhenIdle(NextProgram next, std::function<void()> on_idle);
  // Keeps serving; status, an event and the log have the reason.
  void RefuseNext(const absl::Status& why);
  // Like RefuseNext, but only after on_idle.
  void RefuseHandOver(const absl::Status& why);
  // Cancels a pending hand-over and clears a reported refusal. Any thread.
  void CancelNext();
  // After on_idle, not on the loop's thread: returns the listen socket. FAILED_PRECONDITION: a
  // neighbour speaks no version of the next program. DEADLINE_EXCEEDED: the loop hangs. CANCELLED:
  // no longer idle. After an error the loop keeps serving.
  absl::StatusOr<intake::ListenSocket> HandOver(const NextProgram& next);
  // After Run has returned, on the caller's thread: answers all open and queued calls. May be
  // repeated.
  void AnswerOpenCalls();
  // Workers read the operations' descriptions, so they must end before the node.
  void StopWorkers() { workers_.reset(); }

 private:
  // IntakeListener
  void OnSessionOpened(intake::SessionId session, const intake::Peer& peer) override;
  void OnConnection(intake::SessionId, intake::ControlConnection connection) override {
    control_->Adopt(std::move(connection));
  }
  void OnSubmission(collective::Call& call) override { node_->OnSubmission(call); }
  void OnCloseAsked(intake::SessionId session, std::uint64_t group) override {
    node_->OnCloseAsked(session, group);
  }
  void OnSessionEnded(intake::SessionId session, const absl::Status& why) override;
  void OnArenaMade(const std::shared_ptr<const platform::SharedSegment>& arena,
                   const std::shared_ptr<intake::ArenaPages>& pages) override;
  void OnArenaReleased(const std::byte* arena) override { fabric_->RemoveMemory(arena); }
  // NodePort
  bool SubmitWork(const collective::Action& action) override;
  void OnViolation(const NodeId& node, const std::string& what) override;
  std::vector<std::string> Describe(v1::NodeStatus& status) const override;
  void DescribeLinks(v1::NodeStatus& status) const override { fabric_->Describe(status); }
  void CheckSystem() override;
  std::vector<std::string> Listening() const override { return fabric_->listening(); }
  Clocks ReadClocks() const override;

  bool Turn();
  void CountGroups();
  void Sleep();
  void WatchBell();
  void CheckUsefulness();
  void CheckWhetherToLeave();
  void KeepServing(const absl::Status& why);
  void Stay();
  absl::Status CheckNext(const NextProgram& next) const;
  void ReleaseFreeMemory();
  std::uint64_t NextDeadline() const;
  void KeepAwake();
  Failure Stopping() const;

  struct Client {
    pid_t pid = 0;
    std::string user;
  };
  // An event, not a log line, because any process may attach as often as it likes.
  void Report(const Client& client, const char* kind, std::string text);

  asio::io_context& io_;
  LoopOptions options_;
  record::FlightRecorder& recorder_;
  record::EventLog& events_;
  node::Node* node_ = nullptr;
  intake::Intake* intake_ = nullptr;
  fabric::TcpFabric* fabric_ = nullptr;
  services::ControlServer* control_ = nullptr;
  ScratchPool* scratch_ = nullptr;
  HelloSockets* hellos_ = nullptr;  // nullptr if discovery is off.
  platform::Wakeup bell_;           // Rung by the workers.
  asio::posix::stream_descriptor bell_watch_;
  asio::steady_timer timer_;
  std::uint64_t armed_ns_ = collective::kNever;  // The timer's deadline.
  std::unique_ptr<Workers> workers_;
  std::vector<std::uint64_t> done_work_;
  platform::SleepGuard sleep_guard_;
  bool keeps_awake_ = false;
  std::uint64_t now_ns_;
  std::uint64_t io_polled_ns_ = 0;
  const std::uint64_t started_ns_;
  std::uint64_t wakeups_ = 0;
  std::uint64_t clients_seen_ = 0;
  // A private daemon ends this long after its last client.
  static constexpr std::uint64_t kLingerNs = 1'000'000'000;
  std::uint64_t useless_since_ns_ = collective::kNever;
  std::map<intake::SessionId, Client> clients_;
  std::set<intake::SessionId> launchers_;
  std::thread examining_;  // Examines the machine for doctor.
  MemoryRelease memory_release_;
  std::uint64_t release_due_ns_ = collective::kNever;  // Unless a group is formed before.
  // Used by Drain; never held while payload moves. Only the loop writes groups_left_.
  std::mutex groups_mutex_;
  std::condition_variable groups_changed_;
  std::size_t groups_left_ = 0;
  // Hand-over to another program.
  enum class Leaving : std::uint8_t { kNo, kWhenIdle, kAtRest, kReady };
  Leaving leaving_ = Leaving::kNo;
  std::uint32_t restarts_asked_ = 0;
  std::string release_of_next_;
  std::string next_refused_;  // Why the last one was refused; empty: it was not.
  std::uint64_t next_refused_ns_ = 0;
  bool next_cancelled_ = false;
  std::function<void()> on_idle_;
  std::atomic<bool> stop_{false};
};

}  // namespace mlxcomm
