// The process in which a device's driver is called, as the daemon sees it. README.md says why, and
// what happens when it ends.
//
//   daemon: ProcessDevice ──Call──▶ socket ──▶ RunDriver (driver_main.cc) ──▶ verbs
//                │                                  │ a thread for each queue pair
//                └── requests, completions, slots ──┘ in shared memory (shared_queue.h)
//
// One that hangs in its driver may not even end when it is killed; then there is none for this
// device until it has.
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

// The argument that makes a program this process; its socket is kDriverSocket.
inline constexpr char kDriverArgument[] = "--drive-rdma";
inline constexpr int kDriverSocket = 3;

// In that process: a thread answers the daemon's requests, and one for each queue pair posts what
// the daemon asks for and reports what has completed. `socket`: a stream to the daemon; the exit
// code.
//
//   queue pair's thread: requests ─▶ post ─▶ poll ─▶ completions, as long as anything moves or the
//     daemon's thread looks as well ─▶ have the completion queue tell, look once more, sleep
//
// It ends when the daemon has, however that came about, and whatever its threads do then: its
// standard input ends. Signals that end a daemon in an orderly way are ignored: it is needed
// until the daemon has drained.
int RunDriver(int socket);

class DriverProcess {
 public:
  // Drivers take long over some calls, opening above all. One that takes longer counts as hung.
  static constexpr std::uint64_t kCallNs = 10'000'000'000;

  // `program` runs RunDriver when it is asked to; `device` is for people. RESOURCE_EXHAUSTED: no
  // descriptor. UNAVAILABLE: it cannot be started, or the last one of this device has not ended.
  static absl::StatusOr<std::shared_ptr<DriverProcess>> Start(const std::string& program,
                                                              const std::string& device,
                                                              std::uint64_t call_ns = kCallNs);
  // It ends by itself when nobody has the other end of its lifeline; else it is ended. Up to 2 s.
  ~DriverProcess();

  // Descriptors are passed, not given away. An error is the driver's; ABORTED: the process has ended,
  // DEADLINE_EXCEEDED: it was ended, as it did not answer. Others wait for as long: the loop never
  // is one of them.
  absl::StatusOr<DriverAnswer> Call(const DriverRequest& request,
                                    std::span<const int> descriptors = {});
  // OK: it runs, as far as is known. Else how it ended.
  absl::Status Ended();
  // The same of one that has closed its end of a socket, and so is about to end.
  absl::Status AwaitEnd();
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
  void Kill();  // Nobody waits for it any more after this.

  const std::string device_;
  const pid_t pid_;
  const std::uint64_t call_ns_;
  std::mutex mutex_;
  FileDescriptor socket_;
  // The process reads the other end of this pipe, and ends when nobody has it any more, also where
  // the daemon was killed while the driver hung.
  FileDescriptor lifeline_;
  bool reaped_ = false;  // Or given up.
  absl::Status ended_;   // Once it is known.
};

// A device whose driver is called there: the same Device, QueuePair and Region as verbs_device.h
// has, with the driver's part elsewhere. Posting writes a request into shared memory, and Poll
// reads completions from there: neither waits. What the other process writes is not believed: it is
// copied, checked against what was posted, and whatever does not fit fails the queue pair.
//
// Starts the process and opens the device there. UNAVAILABLE, NOT_FOUND: as Library::Open.
absl::StatusOr<std::shared_ptr<Device>> OpenInProcess(
    const std::string& program, const std::string& library, const std::string& name,
    const Limits& limits, const queue::SchedulingPolicy& scheduling,
    std::uint64_t call_ns = DriverProcess::kCallNs);

}  // namespace mlxcomm::rdma
