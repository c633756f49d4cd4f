// A rail: one transport connection to a neighbour, or a circuit to a node further away.
// It moves frames in order until it says that it is down; what was under way then is
// unknown.
//
// The contract is kept to what an RDMA queue pair can do as well: bounded posts,
// "transmitted" means that the payload will not be read again by this rail and
// acknowledges nothing, data goes where a posted receive says.
//
//   (created) ──Expect…──▶ Start ──Give / Pop──▶ down, by itself or by Stop
//
//   engine ──commands──▶ rail's thread ──events──▶ engine
//
// Owner: Link. Thread: the public calls on the engine thread; a connection's own thread
// behind them, from Start to Stop. Memory: rings and slots are fixed at creation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "daemon/fabric/channel.h"
#include "daemon/fabric/fabric.h"
#include "daemon/fabric/received_ranges.h"

namespace mlxcomm::fabric {

struct RailCommand {
  enum class Kind : std::uint8_t { kTransmit, kPostReceive, kWithdraw, kHeartbeat };
  Kind kind = Kind::kTransmit;
  Channel::Frame frame;   // kTransmit
  PostedReceive receive;  // kPostReceive
  OperationKey key;       // kWithdraw: kWithdrawn follows, in the order of the commands.
};

enum class DownCause : std::uint8_t {
  kCut,        // Nobody knows why, or we wanted it.
  kReset,      // The other side closed it.
  kViolation,  // The other side broke the protocol: its state is not to be trusted.
};

struct RailEvent {
  enum class Kind : std::uint8_t { kFrame, kTransmitted, kWithdrawn, kDown };
  Kind kind = Kind::kFrame;
  bool placed = false;                // kFrame of kData: its receive was posted.
  DownCause cause = DownCause::kCut;  // kDown
  std::uint32_t transmitted = 0;      // With every kind: numbered frames written since.
  wire::FrameHeader header;           // kFrame
  std::span<const std::byte> payload; // kFrame: valid until the next Pop.
  OperationKey key;                   // kWithdrawn
  std::unique_ptr<std::vector<std::byte>> control;  // Owns the payload of a large kControl.
  std::string reason;                 // kDown
};

class Rail {
 public:
  virtual ~Rail() = default;  // Stops, joins.

  // Before Start: a receive that goes on, and what of it has come. As many as there are.
  virtual void Expect(const PostedReceive& receive, const ReceivedRanges& received) = 0;
  // `resumed`: data may still come that an earlier rail was told to forget.
  virtual absl::Status Start(bool resumed) = 0;

  // False: as full as it may be; try again after the next events.
  [[nodiscard]] virtual bool Give(const RailCommand& command) = 0;
  // As Stop, but first sends what it was given, within a short time. Does not wait.
  virtual void Finish() = 0;
  virtual void Stop() = 0;  // Returns once no memory is touched any more; kDown follows.

  virtual bool Pop(RailEvent& event) = 0;
  virtual bool PrepareToSleep() = 0;
  virtual void WakeUp() = 0;

  // False: it goes through other nodes.
  virtual bool is_direct() const { return true; }
  virtual std::uint64_t last_received_ns() const = 0;
  virtual RailSnapshot Snapshot() const = 0;
};

}  // namespace mlxcomm::fabric
