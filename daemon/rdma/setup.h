// The set-up of an RDMA rail on one path: which side offers, which answers, what both agree on, and
// when an attempt is repeated (rail_setup.h has the messages; README.md).
//
//   kIdle ──due──▶ kMaking ──made──▶ kOffered ──answer──▶ kConnecting ──connected──▶ kUp
//     ▲  offer ──▶ kMaking ──made──▶ kConnecting ──connected──▶ kAnswered ──ready──▶ kUp
//     └── refused, failed, timed out, the rail or the one beside it has ended ──────────┘
//
// Sans-I/O; time and random numbers are arguments. Owner: RdmaRails. Thread: the loop's. Memory:
// texts only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "daemon/rail/rail_path.h"
#include "daemon/rdma/queue_pair.h"
#include "daemon/rdma/rail_setup.h"
#include "proto/types/link_reason.h"

namespace mlxcomm::rdma {

// Called from inside Setup's calls; must not call back.
class SetupPort {
 public:
  virtual ~SetupPort() = default;
  virtual void Send(const RailSetup& message) = 0;
  // OnMade follows, or never.
  virtual void Make(const QueuePairShape& shape) = 0;
  // Connects the attempt's queue pair; OnConnected follows, or never.
  virtual void Connect(const QueuePairAddress& peer) = 0;
  // The queue pair is connected on both sides and becomes a rail.
  virtual absl::Status AddRail(std::uint64_t attempt, Service service,
                               const QueuePairAddress& peer) = 0;
  // The attempt's queue pair and rail are no longer needed, nor are results that follow.
  virtual void Drop() = 0;
};

class Setup {
 public:
  enum class State : std::uint8_t { kIdle, kMaking, kOffered, kConnecting, kAnswered, kUp };
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};
  static constexpr std::uint64_t kAttemptNs = 5'000'000'000;  // The timeout of an attempt.
  static constexpr std::uint64_t kPauseNsMin = 1'000'000'000;
  static constexpr std::uint64_t kPauseNsMax = 60'000'000'000;
  // A rail that lasted less counts as a failure.
  static constexpr std::uint64_t kSteadyNs = 10'000'000'000;

  // `offers`: this side makes the offers. `has`: the limits of its device.
  Setup(SetupPort& port, rail::RailPath path, bool offers, const Limits& has)
      : port_(port),
        path_(std::move(path)),
        offers_(offers),
        has_(has),
        message_bytes_(std::min(has.message_bytes, has.message_bytes_max)),
        service_(has.service) {}

  const rail::RailPath& path() const { return path_; }
  State state() const { return state_; }
  std::uint64_t attempt() const { return attempt_; }
  // Why no rail exists, for display; empty if one exists or is being made.
  const std::string& detail() const { return detail_; }
  // The same as a reason; `peers_reason`: the other side reported it about itself.
  LinkReason reason() const { return reason_; }
  bool peers_reason() const { return peers_reason_; }
  bool waits_for_offer() const { return state_ == State::kIdle && !offers_; }

  // `attempt`: a random number in case an attempt begins.
  void OnTime(std::uint64_t now_ns, std::uint64_t attempt);
  std::uint64_t deadline_ns() const;
  // Messages are for this path, and not trusted.
  void OnMessage(const RailSetup& message, std::uint64_t now_ns);
  // Results of the current attempt.
  void OnMade(const absl::StatusOr<QueuePairAddress>& made, std::uint64_t now_ns);
  void OnConnected(const absl::Status& status, std::uint64_t now_ns);
  void OnRailGone(std::uint64_t now_ns);
  // Ends the pause: an interface has come up, or a probe has found a device.
  void TryNow(std::uint64_t now_ns) {
    pause_ns_ = kPauseNsMin;
    if (state_ == State::kIdle && offers_) due_ns_ = now_ns;
  }
  // The channel or the rail beside it has ended: sends nothing more.
  void Abandon();

 private:
  RailSetup Message(SetupKind kind) const;
  void Refuse(std::uint64_t attempt, const std::string& why, std::uint32_t services = 0,
              LinkReason reason = LinkReason::kNotMade);
  void OnRefused(const RailSetup& refusal, std::uint64_t now_ns);
  void Fail(const std::string& why, LinkReason reason, std::uint64_t now_ns);
  void OnOffer(const RailSetup& offer, std::uint64_t now_ns);
  void OnAnswer(const RailSetup& answer, std::uint64_t now_ns);
  void ForgetFailure();
  void EndAttempt();
  void BecomeRail(std::uint64_t now_ns);
  std::string WarningOfGids(LinkReason& reason) const;
  static bool IsSound(const RailSetup& message);

  SetupPort& port_;
  const rail::RailPath path_;
  const bool offers_;
  const Limits has_;
  std::uint32_t message_bytes_;  // Offered; lowered if the other side requires it.
  Service service_;              // kReliable until a device turns out not to support it.
  State state_ = State::kIdle;
  std::string detail_;
  LinkReason reason_ = LinkReason::kNone;
  bool peers_reason_ = false;
  std::uint64_t attempt_ = 0;  // 0: none.
  std::uint64_t due_ns_ = 0;   // kIdle: the next attempt. Otherwise: the timeout.
  std::uint64_t up_since_ns_ = 0;
  std::uint64_t pause_ns_ = kPauseNsMin;
  QueuePairShape shape_;
  QueuePairAddress own_;
  QueuePairAddress peer_;
};

}  // namespace mlxcomm::rdma
