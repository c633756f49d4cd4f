// The interface of RDMA that rails use: devices, and queue pairs that send and receive messages in
// registered memory. Implemented by verbs (verbs_device.cc), by a driver's process
// (process_device.cc), and by a stand-in in builds without verbs (no_verbs.cc).
//
//   Device ──MakeQueuePair──▶ QueuePair: (made) ──Connect──▶ ready ──PostSend, PostReceive,
//                                                              Poll, Arm──▶ (destroyed)
//
// A call may enter the driver and never return, so only threads that nothing waits for make them.
//
// Owner: QueuePair: its rail; it keeps its Device. Thread: one at a time each; Device: any. Memory:
// a queue pair's messages are one region, made with it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/rail/client_memory.h"
#include "daemon/rdma/limits.h"

namespace mlxcomm::rdma {

// Poll interval when completions raise no events, or when there is no room for received frames.
inline constexpr int kPollMs = 1;

using Gid = std::array<std::uint8_t, 16>;

// How the other side reaches a queue pair; also sent to it (rail_setup.h).
struct QueuePairAddress {
  Gid gid{};
  std::uint32_t number = 0;
  std::uint32_t first_packet = 0;  // The first packet's sequence number; 24 bits.
  std::uint32_t receives = 0;      // Posted before the other side may send.
  std::uint16_t lid = 0;           // InfiniBand only.
  std::uint16_t mtu_bytes = 0;     // The port's MTU, 256 to 4096.
};

struct Completion {
  std::uint32_t slot = 0;
  bool receive = false;
  std::uint32_t bytes = 0;  // Set for a receive.
};

// Memory to send from that is registered in addition to a queue pair's own. Its destructor calls
// the driver.
class Region {
 public:
  virtual ~Region() = default;
  const std::byte* data() const { return data_; }
  std::uint64_t bytes() const { return bytes_; }
  std::uint32_t key() const { return key_; }

 protected:
  Region(const std::byte* data, std::uint64_t bytes, std::uint32_t key)
      : data_(data), bytes_(bytes), key_(key) {}

 private:
  const std::byte* const data_;
  const std::uint64_t bytes_;
  const std::uint32_t key_;
};

class QueuePair {
 public:
  virtual ~QueuePair() = default;

  virtual const QueuePairAddress& address() const = 0;
  // Messages in each direction. Slots: receives first, then as many sends.
  std::uint32_t messages() const { return address().receives; }
  virtual std::span<std::byte> Slot(std::uint32_t slot) = 0;
  bool HasSlot(std::uint32_t slot, bool receive) const {
    return slot - (receive ? 0 : messages()) < messages();
  }

  // Makes it ready to receive and to send, with all receives posted.
  virtual absl::Status Connect(const QueuePairAddress& peer) = 0;
  virtual absl::Status PostReceive(std::uint32_t slot) = 0;
  virtual absl::Status PostSend(std::uint32_t slot, std::uint32_t bytes) = 0;
  // Sends from a region of its device, which outlives the send. Completes as `slot`.
  virtual absl::Status PostSendFrom(std::uint32_t slot, const Region& region, const std::byte* from,
                                    std::uint32_t bytes) = 0;
  // Returns the number of completions. After an error, including a failed request, the queue pair
  // is unusable.
  virtual absl::StatusOr<std::size_t> Poll(std::span<Completion> completions) = 0;
  // Readable after Arm if something has completed since; -1: no events, so Poll must be called
  // regularly.
  virtual int descriptor() const = 0;
  // Clears the descriptor and requests another event. Earlier completions raise none: call Poll
  // afterwards.
  virtual absl::Status Arm() = 0;
};

// The other process that makes the call has ended, or was killed because it did not answer.
inline bool HasEndedProcess(const absl::Status& status) {
  return status.code() == absl::StatusCode::kAborted ||
         status.code() == absl::StatusCode::kDeadlineExceeded;
}

struct DeviceUse {
  std::uint32_t queue_pairs = 0;
  std::uint32_t regions = 0;  // Those of queue pairs, and of clients' memory.
};

// A queue pair's service and messages, as agreed by both sides.
struct QueuePairShape {
  Service service = Service::kUnreliable;
  std::uint32_t message_bytes = 0;
  std::uint32_t messages = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const Limits& limits() const = 0;
  virtual DeviceUse use() const = 0;
  // Returns false if the system wants the device back, or if the driver's process has ended.
  virtual bool IsThere() = 0;
  // RESOURCE_EXHAUSTED: the limit is reached. UNAVAILABLE: the port is down, or the driver failed.
  absl::StatusOr<std::unique_ptr<QueuePair>> MakeQueuePair(const QueuePairShape& shape,
                                                           const Gid& gid) {
    return MakeQueuePairIn({}, shape, gid);
  }
  // The messages lie in `memory`, which outlives the queue pair, or in memory of its own if that is
  // empty.
  virtual absl::StatusOr<std::unique_ptr<QueuePair>> MakeQueuePairIn(std::span<std::byte> memory,
                                                                     const QueuePairShape& shape,
                                                                     const Gid& gid) = 0;
  // Registers a piece of an arena, which the region keeps. RESOURCE_EXHAUSTED: the limit is
  // reached.
  virtual absl::StatusOr<std::shared_ptr<const Region>> Register(const rail::ClientMemory& arena,
                                                                 std::byte* data,
                                                                 std::uint64_t bytes) = 0;
  // If another process calls the driver: how it ended (OK while it runs) and its pid; 0: this
  // process does.
  virtual absl::Status DriverEnded() { return absl::OkStatus(); }
  virtual int driver_pid() const { return 0; }
};

// Describes a device of the library.
struct DeviceFacts {
  std::string name;
  bool opened = true;
  bool active = false;    // Its port.
  std::string state;      // The port's, for display.
  std::vector<Gid> gids;  // Zero entries are left out.
};

// `library`: a path; empty for the system's own. NOT_FOUND: it cannot be loaded.
absl::StatusOr<std::vector<DeviceFacts>> ListDevices(const std::string& library);
// The device stays open while anything of it is in use. NOT_FOUND: also if it has no such device.
absl::StatusOr<std::shared_ptr<Device>> OpenDevice(const std::string& library,
                                                   const std::string& name, const Limits& limits);

// IPv6 unchanged, IPv4 without the mapped prefix.
std::string GidText(const Gid& gid);

}  // namespace mlxcomm::rdma
