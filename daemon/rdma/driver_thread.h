// Calls the driver of one device on its own thread, one call at a time, because a call may take a
// long time or never return. If it hangs, it produces nothing more, and nothing waits for it.
//
//   loop ──Make, Connect, Destroy──▶ jobs ──▶ driver ──▶ results ──Pop──▶ loop
//
// A device that the system wants back (`rdma link delete`) is closed, and opened again by name for
// the next queue pair. The same applies if the driver's process ends, after a growing pause.
//
// Owner: RdmaRails. Thread: the loop's; its own runs the jobs, and outlives the owner if the driver
// hangs. Memory: queued jobs, two for each path, and queue pairs: one for each path, and a few in
// destruction.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "daemon/platform/wakeup.h"
#include "daemon/rdma/arena_regions.h"
#include "daemon/rdma/queue_pair.h"
#include "proto/queue/scheduling_policy.h"

namespace mlxcomm::v1 {
class TransportDevice;
}

namespace mlxcomm::rdma {

class DriverThread {
 public:
  struct Result {
    enum class Kind : std::uint8_t { kMade, kConnected };
    Kind kind = Kind::kMade;
    std::uint64_t ticket = 0;
    absl::Status status;
    std::unique_ptr<QueuePair> pair;  // If the status is OK.
  };

  // `program` calls the driver in a process of its own; if empty, this process does (tests).
  struct Subject {
    std::string library;
    std::string device;
    Limits limits;
    std::string program = {};
    queue::SchedulingPolicy scheduling = {};
  };
  // Opens the device with the first job. Rings `bell` for results. RESOURCE_EXHAUSTED: no thread.
  static absl::StatusOr<std::unique_ptr<DriverThread>> Start(const Subject& subject,
                                                             platform::Wakeup& bell);
  ~DriverThread();

  // `ticket` comes back with the result. Refused if the device has `pairs_max` queue pairs, lost
  // ones included.
  void Make(std::uint64_t ticket, const QueuePairShape& shape, const Gid& gid,
            std::uint32_t pairs_max) {
    Give({.ticket = ticket, .shape = shape, .gid = gid, .pairs_max = pairs_max});
  }
  void Connect(std::uint64_t ticket, std::unique_ptr<QueuePair> pair,
               const QueuePairAddress& peer) {
    Give({.kind = Job::Kind::kConnect, .ticket = ticket, .pair = std::move(pair), .peer = peer});
  }
  // Drops jobs that have not begun, so that none pile up behind a driver that hangs.
  void Cancel(std::uint64_t ticket);
  void Destroy(std::unique_ptr<QueuePair> pair) {
    Give({.kind = Job::Kind::kDestroy, .pair = std::move(pair)});
  }
  // The device's; valid as long as it is held.
  std::shared_ptr<ArenaRegions> regions() const { return {shared_, &shared_->regions}; }
  bool Pop(Result& result);
  // Lock-free: called in every turn.
  bool has_results() const { return shared_->has_results.load(std::memory_order_acquire); }
  void Describe(v1::TransportDevice& status) const;
  // Jobs that have not begun.
  std::size_t waiting() const;

 private:
  struct Job {
    enum class Kind : std::uint8_t { kMake, kConnect, kDestroy };
    Kind kind = Kind::kMake;
    std::uint64_t ticket = 0;
    QueuePairShape shape = {};
    Gid gid{};
    std::uint32_t pairs_max = 0;
    std::unique_ptr<QueuePair> pair = nullptr;
    QueuePairAddress peer = {};
  };
  // Shared with the thread, which may outlive this object.
  struct Shared {
    explicit Shared(const Subject& its) : subject(its) {}
    void UpdateSoon();

    const Subject subject;
    mutable std::mutex mutex;
    std::condition_variable changed;
    std::deque<Job> jobs;
    std::deque<Result> results;
    std::atomic<bool> has_results{false};
    platform::Wakeup* bell = nullptr;  // Null once the owner is gone.
    std::uint64_t busy_since_ns = 0;   // A call that has not returned; 0: none.
    std::shared_ptr<Device> device;    // Null if not open.
    bool update_regions = false;
    ArenaRegions regions{subject.limits, [this] { UpdateSoon(); }};
    // Counts the driver's processes that have ended or were killed; last_end describes how the last
    // one ended.
    std::uint32_t ended = 0;
    std::string last_end;
    std::uint64_t opened_ns = 0;
    std::uint64_t pause_ns = 0;
    std::uint64_t again_ns = 0;  // Not opened before this time.
  };

  explicit DriverThread(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}
  void Give(Job job);
  static void Run(Shared& shared);
  // Runs a driver's call without the lock; busy_since_ns shows it.
  template <typename Call>
  static void InDriver(Shared& shared, std::unique_lock<std::mutex>& lock, Call&& call);
  static void DoNext(Shared& shared, std::unique_lock<std::mutex>& lock);
  static void CheckDevice(Shared& shared, std::unique_lock<std::mutex>& lock);
  static absl::StatusOr<std::shared_ptr<Device>> Open(Shared& shared);
  // Requires the lock.
  static void OnProcessEnded(Shared& shared, const absl::Status& how);
  static void Do(Shared& shared, Job& job, Result& result);

  const std::shared_ptr<Shared> shared_;
};

}  // namespace mlxcomm::rdma
