// One daemon of the simulator: the state machines of mlxcommd, joined as Engine joins them,
// with virtual time for a clock, simulated rails, and workers and clients that answer when
// the schedule says so.
//
//   clients ──submissions──▶ Collectives, Membership ◀──ActionCarrier──▶ Links ◀── rails
//           ◀──completions──
//
//   Wake ──a moment later──▶ Turn ──something was done──▶ Turn … ──▶ asleep until Wake
//
// Owner: Host; one for each life of it. Thread: one. Memory: the state machines'.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "daemon/action_carrier.h"
#include "daemon/collective/collectives.h"
#include "daemon/collective/membership.h"
#include "daemon/fabric/links.h"
#include "tests/sim/random.h"
#include "tests/sim/schedule.h"
#include "tests/sim/simulated_rail.h"

namespace mlxcomm::sim {

struct DaemonOptions {
  fabric::FabricOptions fabric;
  collective::CreditOptions credit;
  std::uint64_t scratch_bytes_max = std::uint64_t{1} << 40;
  std::uint64_t turn_delay_ns_max = 5 * kMicrosecond;    // From waking up to the next turn.
  std::uint64_t event_ns = 0;                            // The engine's time for each event.
  std::uint64_t work_bytes_per_second = 10'000'000'000;  // Of the workers.
  // False: payload has a length only, and nothing is combined (for measuring time).
  bool carries_payload = true;
};

// Who lives on the daemon's host: clients, and what dials.
class DaemonListener {
 public:
  virtual ~DaemonListener() = default;
  virtual void OnCompleted(const collective::Action& action) = 0;
  // Its process has ended, and nothing touches its memory any more.
  virtual void OnSessionReleased(collective::SessionId session) = 0;
  virtual void OnRailGone() = 0;
  virtual void OnNodeUp(const fabric::NodeIdentity& node) = 0;
  virtual void OnNodeLost(const NodeId& node, const std::string& why) = 0;
  // A frame or a message that no well-behaved daemon sends.
  virtual void OnViolation(const NodeId& node, const std::string& what) = 0;
  virtual void OnNotice(const fabric::FabricNotice&) {}
};

// Counts, and gives exactly what is asked for, so that tools see every byte beyond it.
class CountedScratch final : public collective::ScratchMemory {
 public:
  explicit CountedScratch(std::uint64_t limit_bytes) : limit_(limit_bytes) {}
  ~CountedScratch() override;
  std::byte* Take(std::uint64_t bytes) override;
  void Return(std::byte* memory) override;
  std::uint64_t used_bytes() const override { return used_; }
  std::uint64_t limit_bytes() const override { return limit_; }
  std::uint64_t used_bytes_max() const { return used_max_; }

 private:
  struct Taken {
    std::byte* memory = nullptr;
    std::uint64_t bytes = 0;
  };
  std::uint64_t limit_;
  std::uint64_t used_ = 0;
  std::uint64_t used_max_ = 0;
  std::vector<Taken> taken_;
};

class Daemon final : private fabric::FabricListener,
                     private CarrierPort,
                     private fabric::LinksPort,
                     public RailOwner {
 public:
  Daemon(Schedule& schedule, DaemonOptions options, DaemonListener& listener, Random random);
  ~Daemon() override;

  fabric::Links& links() { return links_; }
  collective::Collectives& collectives() { return collectives_; }
  collective::Membership& membership() { return membership_; }
  const CountedScratch& scratch() const { return scratch_; }
  const DaemonOptions& options() const { return options_; }

  // After whatever may have given it something to do.
  void Wake();
  // SIGSTOP and SIGCONT.
  void SetStopped(bool stopped);
  void Submit(std::uint64_t group, const collective::Call& call);
  // The session's process has ended: its memory is asked for until nothing touches it.
  void EndSession(collective::SessionId session, const std::string& why);
  std::size_t sessions_to_release() const { return ended_sessions_.size(); }
  std::uint64_t messages_not_sent() const { return messages_not_sent_; }

  void OnRailHasEvents() override { Wake(); }

 private:
  struct Submission {
    std::uint64_t group = 0;
    collective::Call call;
  };

  // FabricListener
  void OnNotice(const fabric::FabricNotice& notice) override { listener_.OnNotice(notice); }
  void OnNodeUp(const fabric::NodeIdentity& node) override;
  void OnNodeLost(const NodeId& node, const absl::Status& why) override;
  void OnControl(const NodeId& node, std::span<const std::byte> message) override;
  void OnEager(const NodeId& node, const wire::FrameHeader& header,
               std::span<const std::byte> payload) override;
  void OnGrant(const NodeId& node, const wire::FrameHeader& header) override;
  void OnCredit(const NodeId& node, const wire::FrameHeader& header) override;
  void OnDataReceived(const NodeId& node, const wire::FrameHeader& header) override;
  void OnDataReleased(const NodeId& node, std::uint64_t cookie) override;
  void OnWithdrawn(const NodeId& node, const OperationKey& key) override;
  // CarrierPort
  bool IsReachable(const NodeId& node) const override { return links_.IsReachable(node); }
  absl::Status SendFrame(const NodeId& node, const wire::FrameHeader& header,
                         const std::byte* payload, std::uint64_t cookie) override;
  absl::Status PostReceive(const NodeId& node, const fabric::PostedReceive& receive) override;
  void Withdraw(const NodeId& node, const OperationKey& key) override;
  void CancelFrames(const NodeId& node, const OperationKey& key) override;
  bool SubmitWork(const collective::LocalWork& work, std::uint64_t cookie) override;
  void Complete(const collective::Action& action) override;
  void OnMessageNotSent(const NodeId& node, const absl::Status& why) override;
  // LinksPort
  void OnRailGone() override { listener_.OnRailGone(); }
  void OnDeadlineChanged() override { Wake(); }

  void Turn();
  void Sleep();
  void CheckFine(const NodeId& node, bool fine, const wire::FrameHeader& header);
  std::uint64_t now_ns() const { return schedule_.now_ns(); }

  Schedule& schedule_;
  DaemonOptions options_;
  DaemonListener& listener_;
  Random random_;
  std::shared_ptr<bool> alive_;
  CountedScratch scratch_;
  collective::Collectives collectives_;
  collective::Membership membership_;
  fabric::Links links_;
  ActionCarrier carrier_;
  std::vector<Submission> submissions_;
  std::vector<std::uint64_t> done_work_;
  std::vector<collective::SessionId> ended_sessions_;
  bool stopped_ = false;
  bool turn_due_ = false;
  std::uint64_t busy_until_ns_ = 0;
  std::uint64_t workers_busy_until_ns_ = 0;
  std::uint64_t timer_ns_ = kNever;
  std::uint64_t messages_not_sent_ = 0;
};

}  // namespace mlxcomm::sim
