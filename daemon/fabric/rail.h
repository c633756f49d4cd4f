// A rail: one transport connection to a neighbour. It moves frames in order until
// it says that it is down; what was under way then is unknown.
//
// The contract is kept to what an RDMA queue pair can do as well: bounded posts,
// "transmitted" means that the payload will not be read again by this rail and
// acknowledges nothing, data goes where a posted receive says.
//
//   engine ──commands──▶ rail's thread ──events──▶ engine
//
// Owner: Link. Thread: the public calls on the engine thread; the rail's own thread
// behind them. Memory: rings and slots are fixed at creation.
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

namespace mlxcomm::fabric {

struct RailEvent {
  enum class Kind : std::uint8_t { kFrame, kTransmitted, kWithdrawn, kDown };
  Kind kind = Kind::kFrame;
  bool placed = false;                // kFrame of kData: its receive was posted.
  bool reset = false;                 // kDown: the other side closed it.
  std::uint32_t frames = 0;           // kTransmitted: how many more.
  wire::FrameHeader header;           // kFrame
  std::span<const std::byte> payload; // kFrame: valid until the next Pop.
  OperationKey key;                   // kWithdrawn
  std::unique_ptr<std::vector<std::byte>> control;  // Owns the payload of a large kControl.
  std::string reason;                 // kDown
};

class Rail {
 public:
  virtual ~Rail() = default;  // Stops, joins.

  // False: as full as it may be; try again after the next events.
  virtual bool Transmit(const Channel::Frame& frame) = 0;
  virtual bool PostReceive(const PostedReceive& receive, std::uint64_t bytes_left) = 0;
  virtual bool Withdraw(const OperationKey& key) = 0;
  // Asks the other side for a sign of life.
  virtual void Heartbeat() = 0;
  virtual void Stop() = 0;  // Returns once no memory is touched any more; kDown follows.

  virtual bool Pop(RailEvent& event) = 0;
  virtual bool PrepareToSleep() = 0;
  virtual void WakeUp() = 0;

  virtual std::uint64_t last_received_ns() const = 0;
  virtual RailSnapshot Snapshot() const = 0;
};

}  // namespace mlxcomm::fabric
