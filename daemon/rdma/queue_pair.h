// What a rail needs of RDMA: devices that can be opened, and queue pairs that send and
// receive messages in memory that is registered with them. Behind it are verbs
// (verbs_device.cc), or nothing, where the daemon was built without their headers
// (no_verbs.cc); tests may have it of paper.
//
//   Device ──MakeQueuePair──▶ QueuePair: (made) ──Connect──▶ ready ──PostSend, PostReceive,
//                                                              Poll, Arm──▶ (destroyed)
//
// Everything here may call the driver, which may take long, or never come back: it is called
// by threads that nobody waits for (rdma_rail.h, rdma_rails.h), and never by the loop.
//
// Owner: QueuePair: its rail; it keeps its Device. Thread: one at a time each; Device's calls
// any. Memory: a queue pair's messages are one region of it, made with it.
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

// Where completions cannot be waited for, and where there is no room for what they bring.
inline constexpr int kLookMs = 1;

using Gid = std::array<std::uint8_t, 16>;

// Where a queue pair is, for the other side.
struct QueuePairAddress {
  Gid gid{};
  std::uint32_t number = 0;
  std::uint32_t first_packet = 0;  // The sequence number of its first packet; 24 bits.
  std::uint16_t lid = 0;           // InfiniBand alone has one.
  std::uint16_t mtu_bytes = 0;     // Of its port: 256 to 4096.
};

struct Completion {
  std::uint32_t slot = 0;  // As it was posted.
  bool receive = false;
  bool ok = false;
  std::uint32_t bytes = 0;  // Of a receive that is ok.
  const char* what = "";    // Why it is not.
};

// Memory that is registered with a device besides queue pairs' own, to be sent from.
// Deregistered when it is destroyed, which calls the driver.
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
  // Messages each way at once: receives() are the first slots, then come sends().
  virtual std::uint32_t receives() const = 0;
  virtual std::uint32_t sends() const = 0;
  virtual std::span<std::byte> Slot(std::uint32_t slot) = 0;
  // It is one of its receives, or of its sends.
  bool HasSlot(std::uint32_t slot, bool receive) const {
    const std::uint32_t first = receive ? 0 : receives();
    return slot - first < (receive ? receives() : sends());
  }

  // Ready to receive and to send, and all receives posted.
  virtual absl::Status Connect(const QueuePairAddress& peer) = 0;
  virtual absl::Status PostReceive(std::uint32_t slot) = 0;
  virtual absl::Status PostSend(std::uint32_t slot, std::uint32_t bytes) = 0;
  // What lies in a region of its device, which outlives the send; it completes as the slot's.
  virtual absl::Status PostSendFrom(std::uint32_t slot, const Region& region, const std::byte* from,
                                    std::uint32_t bytes) = 0;
  // What has completed; how many. An error: the queue pair is of no use any more.
  virtual absl::StatusOr<std::size_t> Poll(std::span<Completion> completions) = 0;
  // Readable after Arm when something has completed since; -1: there is no such thing, and
  // Poll has to be called now and then.
  virtual int descriptor() const = 0;
  // Takes what the descriptor tells, and has it tell once more. What completed before that is
  // not told: Poll after it.
  virtual absl::Status Arm() = 0;
};

// Of a call to a driver that another process makes: that process has ended, or was ended, as it did
// not answer. No driver's own error is one of these.
inline bool HasEndedProcess(const absl::Status& status) {
  return status.code() == absl::StatusCode::kAborted ||
         status.code() == absl::StatusCode::kDeadlineExceeded;
}

// How much of a device this daemon uses, and may.
struct DeviceUse {
  std::uint32_t queue_pairs = 0;
  std::uint32_t regions = 0;        // All of them.
  std::uint32_t arena_regions = 0;  // Of clients' memory; arena_bytes in all.
  std::uint64_t arena_bytes = 0;
};

// A queue pair's service and messages, as both sides have agreed on them.
struct QueuePairShape {
  Service service = Service::kUnreliable;
  std::uint32_t message_bytes = 0;
  std::uint32_t messages = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const std::string& name() const = 0;
  virtual const Limits& limits() const = 0;
  virtual DeviceUse use() const = 0;
  // False: the system wants it back, and waits until nobody has it open any more; or the process that
  // calls its driver has ended, or does not answer and so was ended. Then its queue pairs fail.
  virtual bool IsThere() = 0;
  // RESOURCE_EXHAUSTED: as many as there may be. UNAVAILABLE: the port is down, has no such
  // address, or whatever the driver says.
  absl::StatusOr<std::unique_ptr<QueuePair>> MakeQueuePair(const QueuePairShape& shape,
                                                           const Gid& gid) {
    return MakeQueuePairIn({}, shape, gid);
  }
  // Its messages lie in this memory, which outlives it; where it is empty, in the queue pair's own.
  virtual absl::StatusOr<std::unique_ptr<QueuePair>> MakeQueuePairIn(std::span<std::byte> memory,
                                                                     const QueuePairShape& shape,
                                                                     const Gid& gid) = 0;
  // A piece of an arena, which is kept until the region has been deregistered. RESOURCE_EXHAUSTED:
  // as many as there may be. UNAVAILABLE: the driver takes no more of it.
  virtual absl::StatusOr<std::shared_ptr<const Region>> Register(const rail::ClientMemory& arena,
                                                                 std::byte* data,
                                                                 std::uint64_t bytes) = 0;
  // Where its driver is called by a process of its own (driver_process.h): how that has ended, OK
  // while it runs; and its number, 0: by this one.
  virtual absl::Status DriverEnded() { return absl::OkStatus(); }
  virtual int driver_pid() const { return 0; }
};

// What is known of a device without using it, as the probe found it (probe.h).
struct DeviceFacts {
  std::string name;
  bool opened = true;     // False: it may not be.
  bool active = false;    // Its port is.
  std::string state;      // Of the port, for people.
  std::vector<Gid> gids;  // None that are zero.
};

// The library, if there is one: opened once, and never closed, as drivers do not expect it.
class Library {
 public:
  virtual ~Library() = default;
  virtual absl::StatusOr<std::vector<DeviceFacts>> ListDevices() = 0;
  // The device stays open as long as anything of it is used.
  virtual absl::StatusOr<std::shared_ptr<Device>> Open(const std::string& name,
                                                       const Limits& limits) = 0;
};

// `path`: empty for the system's own. UNAVAILABLE: why there is none.
absl::StatusOr<std::unique_ptr<Library>> LoadLibrary(const std::string& path);

// The address as GIDs mirror it: IPv6 as it is, IPv4 as ::ffff:a.b.c.d.
std::string GidText(const Gid& gid);

}  // namespace mlxcomm::rdma
