// A rail: one transport connection to a neighbour, or a circuit to a node further away. It moves frames in
// order until it reports that it is down; the fate of what was under way then is unknown. A reliable rail
// loses nothing before that; an unreliable one may lose single frames, but those that arrive are whole and
// in order. The contract is kept to what an RDMA queue pair can do as well; see README.md, Rail.
//
//   (created) ──Expect…──▶ Start ──Give / Pop──▶ down, by itself or by Stop
//
//   node ──commands──▶ rail's thread ──events──▶ node
//
// Owner: Link. Thread: the public calls on the loop's thread; a connection's own thread behind them, from
// Start or the first need to Stop. Memory: rings and slots are fixed at creation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "daemon/rail/arrival_claims.h"
#include "daemon/rail/frames.h"
#include "daemon/rail/receive_budget.h"
#include "proto/key/cluster_key.h"
#include "proto/types/link_reason.h"
#include "proto/wire/versions.h"

namespace mlxcomm::v1 {
class RailStatus;
}

namespace mlxcomm::rail {

struct RailCommand {
  enum class Kind : std::uint8_t {
    kTransmit,
    kPostReceive,
    kForgetCompleted,  // All of a receive has come, on several rails. No hurry: wakes nobody.
    kWithdraw,         // kWithdrawn follows, in the order of the commands.
    kHeartbeat,
  };
  Kind kind = Kind::kTransmit;
  OutgoingFrame frame;         // kTransmit
  PostedReceive receive;       // kPostReceive
  ReceiveBudget::Share share;  // kPostReceive: of the receive's bytes, for all rails.
  OperationKey key;            // kWithdraw, kForgetCompleted
  std::uint16_t step = 0;      // kForgetCompleted
  std::uint64_t clock_ns = 0;  // kHeartbeat: when it was given.
  bool padded = false;         // kHeartbeat: as large as frames of data, and so is its echo.
};

enum class DownCause : std::uint8_t {
  kCut,        // Nobody knows why, or we wanted it: both daemons may well live.
  kReset,      // The other side closed it.
  kViolation,  // The other side broke the protocol: its state is not to be trusted.
};

inline constexpr LinkReason ReasonOf(DownCause cause) {
  if (cause == DownCause::kCut) return LinkReason::kCut;
  return cause == DownCause::kReset ? LinkReason::kReset : LinkReason::kViolation;
}

// How a rail has ended: what it means for the link, and why, for people and for programs.
struct RailEnd {
  RailEnd(std::string text, DownCause its_cause, LinkReason its_reason = LinkReason::kNone)
      : why(std::move(text)),
        cause(its_cause),
        reason(its_reason == LinkReason::kNone ? ReasonOf(its_cause) : its_reason) {}
  std::string why;
  DownCause cause;
  LinkReason reason;
};

struct RailEvent {
  enum class Kind : std::uint8_t { kFrame, kTransmitted, kWithdrawn, kDown };
  Kind kind = Kind::kFrame;
  bool placed = false;                 // kFrame of kData: its receive was posted.
  bool duplicate = false;              // kFrame of kData: a copy, read and dropped.
  DownCause cause = DownCause::kCut;   // kDown
  std::uint32_t transmitted = 0;       // With every kind: numbered frames written since.
  wire::FrameHeader header;            // kFrame
  std::span<const std::byte> payload;  // kFrame: valid until the next Pop.
  OperationKey key;                    // kWithdrawn
  std::unique_ptr<std::vector<std::byte>> control;  // Owns the payload of a large kControl.
  std::uint64_t abandoned = 0;  // kDown, kTransmitted: PostedReceives::Abandon, 0: none.
  std::string reason;           // kDown
  // kDown: where more is known than the cause says. kTransmitted: why a frame was abandoned.
  LinkReason link_reason = LinkReason::kNone;
};

// Since the rail came up; round trips of heartbeats, 0: none yet.
struct RailFigures {
  bool up = false;
  std::uint64_t sent_bytes = 0;
  std::uint64_t received_bytes = 0;
  std::uint64_t round_trip_ns = 0;
  std::uint64_t round_trip_ns_min = 0;
  std::uint32_t round_trips = 0;
};

class Rail {
 public:
  virtual ~Rail() = default;  // Stops, joins, closes.

  // Before Start: a receive that goes on. As many as there are.
  virtual void Expect(const PostedReceive& receive, ReceiveBudget::Share share) = 0;
  // `resumed`: data may still come that an earlier rail was asked to forget. `claims`
  // outlive the rail.
  virtual absl::Status Start(bool resumed, ArrivalClaims& claims) = 0;
  // It will carry a job's data: what that needs, a thread, is made now and not in the middle of it.
  virtual void Prepare() {}

  // False: as full as it may be; try again after the next events. While a command waits, so
  // does the whole link: few may wait inside, and of acknowledgements only the newest.
  [[nodiscard]] virtual bool Give(const RailCommand& command) = 0;
  // As Stop, but first sends what it was given, within a short time. Does not wait.
  virtual void Finish() = 0;
  virtual void Stop() = 0;  // Returns once no memory is touched any more; kDown follows.
  // What is left of a rail that this side has given up: neither read nor written, but open as long as this
  // is kept (README.md of link). After Stop; null if nothing is open any more, or if its end tells why it
  // has ended.
  virtual std::shared_ptr<void> KeepEnd() { return nullptr; }

  virtual bool Pop(RailEvent& event) = 0;
  virtual bool PrepareToSleep() = 0;
  virtual void WakeUp() = 0;

  // False: it goes through other nodes.
  virtual bool is_direct() const { return true; }
  virtual bool is_reliable() const { return true; }
  virtual std::uint64_t last_received_ns() const = 0;
  // A padded heartbeat was answered: packets of any size pass, both ways. Rails that cannot be asked
  // say so from the beginning.
  virtual bool has_passed_large() const { return true; }
  // When the other side last asked for a sign of life; 0: it has not, or nobody can tell, or what
  // this side has to say goes with its own.
  virtual std::uint64_t last_asked_ns() const { return 0; }
  // Bytes a second that it was measured to carry, now and then, and the least round trip (0: not
  // known), so that it can size its buffers; kAnyRate: leave them to the system. The loop's thread.
  static constexpr double kAnyRate = std::numeric_limits<double>::infinity();
  virtual void OnRate(double, std::uint64_t) {}
  // Nothing where no system tells. A call of the system at the most; the loop's thread.
  virtual std::optional<HeldBytes> held() const { return std::nullopt; }
  // Of a connection: the key that both sides proved to hold when it began. Where that is no
  // longer taken, a side asks the other to prove it again, which is done on another connection.
  virtual ClusterKeyId proved_with() const { return {}; }
  virtual void SetProvedWith(const ClusterKeyId&) {}
  virtual void AskForNewProof() {}
  virtual bool is_asked_for_new_proof() const { return false; }
  // Of the protocol; {0, 0}: not asked by this rail.
  virtual wire::VersionRange peers_versions() const { return {}; }
  virtual RailFigures figures() const = 0;
  // Its addresses, its security, and what only such rails have; the link adds the rest.
  virtual void Describe(v1::RailStatus& status) const = 0;
};

}  // namespace mlxcomm::rail
