// A rail: one transport connection to a neighbour, or a circuit to a node further away. It moves
// frames in order until it reports that it is down; the fate of what was under way then is unknown.
// A reliable rail loses nothing before that; an unreliable one may lose single frames, but those
// that arrive are whole and in order.
//
//   (created) ──Expect…──▶ Start ──Give / Pop──▶ down, after a failure or Stop
//
// Called on the loop's thread; a rail may have its own thread from Start or the first need until
// Stop.
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
    kForgetCompleted,  // A receive is complete, on several rails. Not urgent: wakes no thread.
    kWithdraw,         // Answered by kWithdrawn, in the order of the commands.
    kHeartbeat,
  };
  Kind kind = Kind::kTransmit;
  OutgoingFrame frame;         // kTransmit
  PostedReceive receive;       // kPostReceive
  ReceiveBudget::Share share;  // kPostReceive
  OperationKey key;            // kWithdraw, kForgetCompleted
  std::uint16_t step = 0;      // kForgetCompleted
  std::uint64_t clock_ns = 0;  // kHeartbeat: when it was sent.
  bool padded = false;         // kHeartbeat: it and its echo are as large as data frames.
};

enum class DownCause : std::uint8_t {
  kCut,        // Unknown, or wanted by this side: both daemons are probably alive.
  kReset,      // The peer closed it.
  kViolation,  // The peer broke the protocol; its state cannot be trusted.
};

inline constexpr LinkReason ReasonOf(DownCause cause) {
  if (cause == DownCause::kCut) return LinkReason::kCut;
  return cause == DownCause::kReset ? LinkReason::kReset : LinkReason::kViolation;
}

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
  bool duplicate = false;              // kFrame of kData: a dropped copy.
  DownCause cause = DownCause::kCut;   // kDown
  std::uint32_t transmitted = 0;       // Every kind: numbered frames written since the last event.
  wire::FrameHeader header;            // kFrame
  std::span<const std::byte> payload;  // kFrame: valid until the next Pop.
  OperationKey key;                    // kWithdrawn
  std::unique_ptr<std::vector<std::byte>> control;  // Owns the payload of a large kControl.
  std::uint64_t abandoned = 0;  // kDown, kTransmitted: see PostedReceives::Abandon; 0: none.
  std::string reason;           // kDown
  // kDown: refines `cause`. kTransmitted: why a frame was abandoned.
  LinkReason link_reason = LinkReason::kNone;
};

// Counted since the rail came up. Round trips are those of heartbeats; 0: none yet.
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

  // Before Start: adds a receive that continues here.
  virtual void Expect(const PostedReceive& receive, ReceiveBudget::Share share) = 0;
  // `resumed`: data may arrive for receives that an earlier rail has forgotten. `claims` outlive
  // the rail.
  virtual absl::Status Start(bool resumed, ArrivalClaims& claims) = 0;
  // A job's data will follow: the rail makes its thread now rather than later.
  virtual void Prepare() {}

  // Returns false if the rail is full; try again after its next events. A waiting command holds up
  // the link.
  [[nodiscard]] virtual bool Give(const RailCommand& command) = 0;
  // Like Stop, but first tries for a short time to send what is queued. Does not block.
  virtual void Finish() = 0;
  virtual void Stop() = 0;  // Returns once no memory is touched any more; kDown follows.
  // After Stop: keeps the socket of a dropped rail open but unused (link/README.md). Null if
  // nothing is open, or if closing it reports why it has ended.
  virtual std::shared_ptr<void> KeepEnd() { return nullptr; }

  virtual bool Pop(RailEvent& event) = 0;
  virtual bool PrepareToSleep() = 0;
  virtual void WakeUp() = 0;

  virtual bool is_direct() const { return true; }
  virtual bool is_reliable() const { return true; }
  virtual std::uint64_t last_received_ns() const = 0;
  // Returns whether a padded heartbeat was answered: packets of any size pass. True if a rail
  // cannot test it.
  virtual bool has_passed_large() const { return true; }
  // The measured bytes per second and minimum round trip (0: unknown), so that the rail can size
  // its buffers; kAnyRate: the system sizes them.
  static constexpr double kAnyRate = std::numeric_limits<double>::infinity();
  virtual void OnRate(double, std::uint64_t) {}
  // Costs at most one system call.
  virtual std::optional<HeldBytes> held() const { return std::nullopt; }
  // The key that both sides proved. Once it is withdrawn, each asks the other to prove a new one on
  // another connection.
  virtual ClusterKeyId proved_with() const { return {}; }
  virtual void SetProvedWith(const ClusterKeyId&) {}
  virtual void AskForNewProof() {}
  virtual bool is_asked_for_new_proof() const { return false; }
  // {0, 0}: this rail does not negotiate versions.
  virtual wire::VersionRange peers_versions() const { return {}; }
  virtual RailFigures figures() const = 0;
  // Sets the addresses, the security and what is specific to this kind of rail.
  virtual void Describe(v1::RailStatus& status) const = 0;
};

}  // namespace mlxcomm::rail
