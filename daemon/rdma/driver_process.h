// The process in which a device's driver is called, as seen by the daemon (README.md).
//
//   daemon: ProcessDevice ──Call──▶ socket ──▶ RunDriver (driver_main.cc) ──▶ verbs
//                │                                  │ a thread for each queue pair
//                └── requests, completions, slots ──┘ in shared memory (shared_queue.h)
//
// A process that hangs in its driver may survive SIGKILL. Until it exits, no other is started for
// the device.
//
// Owner: ProcessDevice, its queue pairs and regions. Thread: any; one call at a time. Memory: none.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/rdma/driver_messages.h"
#include "daemon/rdma/queue_pair.h"
#include "proto/queue/scheduling_policy.h"
#include "proto/system/file_descriptor.h"

namespace mlxcomm::rdma {

// The argument that selects RunDriver, and the descriptor of its socket.
inline constexpr char kDriverArgument[] = "--drive-rdma";
inline constexpr int kDriverSocket = 3;

// Runs in that process: one thread answers the daemon's requests, and one for each queue pair posts
// and reports completions. `socket`: a stream to the daemon. Returns the exit code.
//
// It exits when its standard input ends, which it does with the daemon, whatever its threads are
// doing. It ignores the signals that stop a daemon, because the daemon needs it until it has
// drained.
int RunDriver(int socket);

class DriverProcess {
 public:
  // Drivers take a long time over some calls, especially opening. After this long the driver counts
  // as hung.
  static constexpr std::uint64_t kCallNs = 10'000'000'000;
  // A process that has closed its end of a socket exits within this time.
  static constexpr std::uint64_t kClosedNs = 1'000'000'000;

  // `program` must run RunDriver for kDriverArgument; `device` is for display. RESOURCE_EXHAUSTED:
  // no descriptor. UNAVAILABLE: it cannot be started, or the device's last process has not exited.
  static absl::StatusOr<std::shared_ptr<DriverProcess>> Start(const std::string& program,
                                                              const std::string& device,
                                                              std::uint64_t call_ns = kCallNs);
  // Closes the lifeline and waits for the exit, otherwise kills the process. Takes up to 2 s.
  ~DriverProcess();

  // `descriptors` are passed, not given away. Returns the driver's error; ABORTED: the process has
  // ended; DEADLINE_EXCEEDED: it did not answer and was killed. Other callers wait, so the loop
  // never calls it.
  absl::StatusOr<DriverAnswer> Call(const DriverRequest& request,
                                    std::span<const int> descriptors = {});
  // Returns how the process ended; OK if it still runs after `wait_ns`.
  absl::Status Ended(std::uint64_t wait_ns = 0);
  pid_t pid() const { return pid_; }

 private:
  DriverProcess(std::string device, pid_t pid, FileDescriptor socket, FileDescriptor lifeline,
                std::uint64_t call_ns)
      : device_(std::move(device)),
        pid_(pid),
        call_ns_(call_ns),
        socket_(std::move(socket)),
        lifeline_(std::move(lifeline)) {}
  absl::Status EndedLocked(std::uint64_t wait_ns);
  bool Reap(std::uint64_t wait_ns);
  void Kill();  // The process counts as reaped afterwards.

  const std::string device_;
  const pid_t pid_;
  const std::uint64_t call_ns_;
  std::mutex mutex_;
  FileDescriptor socket_;
  // The process exits when the other end of this pipe is closed, even if the driver hangs.
  FileDescriptor lifeline_;
  bool reaped_ = false;  // Or given up.
  absl::Status ended_;   // OK until it has ended.
};

// Starts the process and opens the device there. Posting writes a request into shared memory, and
// Poll reads completions from it; neither blocks. The other process's output is not trusted: it is
// copied and checked against what was posted, and a mismatch fails the queue pair. UNAVAILABLE,
// NOT_FOUND: like OpenDevice.
absl::StatusOr<std::shared_ptr<Device>> OpenInProcess(
    const std::string& program, const std::string& library, const std::string& name,
    const Limits& limits, const queue::SchedulingPolicy& scheduling,
    std::uint64_t call_ns = DriverProcess::kCallNs);

}  // namespace mlxcomm::rdma
