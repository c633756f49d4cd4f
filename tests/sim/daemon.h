// One daemon of the simulator: the same node as in mlxcommd (node/node.h), with virtual time for a
// clock, simulated rails, and workers and clients that answer when the schedule decides.
//
//   clients ──calls, submissions──▶ node::Node ◀──Links── rails
//           ◀──answers, completions──
//
//   Wake ──a moment later──▶ Turn ──something was done──▶ Turn … ──▶ asleep until Wake
//
// Owner: Host; one for each of its lives. Thread: one. Memory: the node's.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "daemon/node/node.h"
#include "tests/sim/connected_rail.h"
#include "tests/sim/random.h"
#include "tests/sim/schedule.h"

namespace mlxcomm::sim {

struct DaemonOptions {
  node::NodeOptions node;
  std::uint64_t scratch_bytes_max = std::uint64_t{1} << 40;
  std::uint64_t turn_delay_ns_max = 5 * kMicrosecond;    // From wake-up to the next turn.
  std::uint64_t event_ns = 0;                            // The loop's time for each event.
  std::uint64_t work_bytes_per_second = 10'000'000'000;  // Of the workers.
  std::uint64_t look_ns_max = 3 * kMillisecond;          // To examine the machine.
  std::uint64_t blind_of_thousand = 0;                   // Examinations that never end.
};

// The rest of the daemon's host: clients, and dialing.
class DaemonListener {
 public:
  virtual ~DaemonListener() = default;
  virtual void OnCompleted(const collective::Action& action) = 0;
  // Its process has ended, and nothing touches its memory any more.
  virtual void OnSessionReleased(collective::SessionId session) = 0;
  virtual void OnRailGone() = 0;
  // The output of its discovery (discovery::DiscoveryPort).
  virtual void OnHello(const std::string& interface, const wire::DiscoveryHello& hello) = 0;
  virtual void OnDial(const std::string& address) = 0;
  virtual void OnStopDialing(const std::string& address) = 0;
  // An event for people.
  virtual void OnEvent(const record::LoggedEvent& event) = 0;
  // A frame or a message that no well-behaved daemon sends.
  virtual void OnViolation(const NodeId& node, const std::string& what) = 0;
};

// Counts, and allocates exactly the size asked for, so that tools see every byte beyond it.
class CountedScratch final : public collective::ScratchMemory {
 public:
  explicit CountedScratch(std::uint64_t limit_bytes) : limit_(limit_bytes) {}
  ~CountedScratch() override;
  std::byte* Take(std::uint64_t bytes) override;
  void Return(std::byte* memory) override;
  std::uint64_t used_bytes() const override { return used_; }
  std::uint64_t limit_bytes() const override { return limit_; }

 private:
  struct Taken {
    std::byte* memory = nullptr;
    std::uint64_t bytes = 0;
  };
  std::uint64_t limit_;
  std::uint64_t used_ = 0;
  std::vector<Taken> taken_;
};

class Daemon final : private node::NodePort,
                     private intake::Processes,
                     private record::EventSink,
                     private discovery::DiscoveryPort,
                     public RailOwner {
 public:
  using Call = absl::AnyInvocable<void(node::Node&)>;  // May own the answer that it is for.

  Daemon(Schedule& schedule, DaemonOptions options, DaemonListener& listener, Random random);
  ~Daemon() override;

  fabric::Links& links() { return node_.links(); }
  node::Node& node() { return node_; }
  const CountedScratch& scratch() const { return scratch_; }
  const DaemonOptions& options() const { return options_; }

  // Called after anything that may have given it work.
  void Wake();
  // SIGSTOP and SIGCONT.
  void SetStopped(bool stopped);
  // Runs in its next turn, like calls that are posted to the loop.
  void Post(Call call);
  void Submit(const collective::Call& call);
  // The session's process has ended: its memory is requested until nothing uses it.
  void EndSession(collective::SessionId session, const std::string& why);

  void OnRailHasEvents() override { Wake(); }

 private:
  // NodePort
  bool SubmitWork(const collective::Action& action) override;
  void OnViolation(const NodeId& node, const std::string& what) override {
    listener_.OnViolation(node, what);
  }
  std::vector<std::string> Describe(v1::NodeStatus&) const override { return {}; }
  void DescribeLinks(v1::NodeStatus& status) const override { node_.links().Describe(status); }
  void CheckSystem() override;
  std::vector<std::string> Listening() const override { return {}; }
  // No clock is read within a turn: only cables take time here.
  Clocks ReadClocks() const override { return {schedule_.now_ns(), schedule_.now_ns()}; }
  // Processes
  void Complete(collective::SessionId session, std::uint64_t ticket, std::uint64_t group,
                const Failure& failure, bool group_failed) override;
  void ReleaseMemory(collective::SessionId session) override {
    listener_.OnSessionReleased(session);
  }
  // EventSink
  void Add(record::LoggedEvent event) override { listener_.OnEvent(event); }
  // DiscoveryPort
  void SendHello(const std::string& interface, const wire::DiscoveryHello& hello) override {
    listener_.OnHello(interface, hello);
  }
  void Dial(const std::string& address) override { listener_.OnDial(address); }
  void StopDialing(const std::string& address) override { listener_.OnStopDialing(address); }

  void Turn();
  void Sleep();
  std::uint64_t now_ns() const { return schedule_.now_ns(); }

  Schedule& schedule_;
  DaemonOptions options_;
  DaemonListener& listener_;
  Random random_;
  std::shared_ptr<bool> alive_;
  CountedScratch scratch_;
  record::FlightRecorder recorder_;
  record::OperationCounts counts_;
  node::Node node_;
  std::vector<Call> calls_;
  std::vector<collective::Call> submissions_;
  std::vector<std::uint64_t> done_work_;
  bool stopped_ = false;
  bool turn_due_ = false;
  std::uint64_t busy_until_ns_ = 0;
  std::uint64_t workers_busy_until_ns_ = 0;
  std::uint64_t timer_ns_ = kNever;
  std::uint64_t rails_gone_ = 0;  // The links' number that was reported.
};

}  // namespace mlxcomm::sim
