// Calls the driver of one device, one call after the other, for the loop, which never does:
// a call may take long, or not come back. Then nothing more comes of this device, and nobody
// waits for it.
//
// A device that the system wants back (`rdma link delete`) is closed as soon as that is seen, and opened
// again, by its name, for the next queue pair. So is one whose driver's process has ended, but with a
// pause that doubles where such processes do not last.
//
//   loop ──Make, Connect, Destroy──▶ jobs ──▶ driver ──▶ results ──Pop──▶ loop
//
// Owner: RdmaRails. Thread: the loop's; its own runs the jobs, and ends by itself when it comes back
// and is not wanted any more. Memory: what waits, two jobs for each path, and its queue pairs: one for
// each path, and a few that the driver has not given back.
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
class RdmaDevice;
}

namespace mlxcomm::rdma {

class DriverThread {
 public:
  struct Result {
    enum class Kind : std::uint8_t { kMade, kConnected };
    Kind kind = Kind::kMade;
    std::uint64_t ticket = 0;
    absl::Status status;
    std::unique_ptr<QueuePair> pair;  // Where the status is ok.
  };

  // Of a device and its library. `program` calls the driver when it is asked to
  // (driver_process.h); empty: this process does, which tests want.
  struct Subject {
    std::string library;
    std::string device;
    Limits limits;
    std::string program = {};
    queue::SchedulingPolicy scheduling = {};
  };
  // Opens the device with the first job. `bell` is rung for results, until this is destroyed.
  // RESOURCE_EXHAUSTED: no thread.
  static absl::StatusOr<std::unique_ptr<DriverThread>> Start(const Subject& subject,
                                                             platform::Wakeup& bell);
  ~DriverThread();
  // That have not ended, of this process: those that are wanted, and those that a driver keeps.
  static int threads() { return threads_.load(std::memory_order_acquire); }

  // `ticket`: this process's own number, which comes back with the result. Not made where the
  // device has `pairs_most` already, with those that were given up and have not come back.
  void Make(std::uint64_t ticket, const QueuePairShape& shape, const Gid& gid,
            std::uint32_t pairs_most) {
    Give({.ticket = ticket, .shape = shape, .gid = gid, .pairs_most = pairs_most});
  }
  void Connect(std::uint64_t ticket, std::unique_ptr<QueuePair> pair,
               const QueuePairAddress& peer) {
    Give({.kind = Job::Kind::kConnect, .ticket = ticket, .pair = std::move(pair), .peer = peer});
  }
  // What has not begun is not done, so that nothing piles up before a driver that hangs.
  void Cancel(std::uint64_t ticket);
  void Destroy(std::unique_ptr<QueuePair> pair) {
    Give({.kind = Job::Kind::kDestroy, .pair = std::move(pair)});
  }
  // Of the device; lasts as long as it is wanted.
  std::shared_ptr<ArenaRegions> regions() const { return {shared_, &shared_->regions}; }
  bool Pop(Result& result);
  // Without a lock: it is asked in every turn.
  bool has_results() const { return shared_->has_results.load(std::memory_order_acquire); }
  DeviceUse use() const { return shared_->Use(); }
  // How much of the device is in use, and what has become of the process that calls its driver.
  void Describe(v1::RdmaDevice& status) const;
  // Jobs that have not begun.
  std::size_t waiting() const;

 private:
  struct Job {
    enum class Kind : std::uint8_t { kMake, kConnect, kDestroy };
    Kind kind = Kind::kMake;
    std::uint64_t ticket = 0;
    QueuePairShape shape = {};
    Gid gid{};
    std::uint32_t pairs_most = 0;
    std::unique_ptr<QueuePair> pair = nullptr;
    QueuePairAddress peer = {};
  };
  // What the thread shares with this, and keeps when this has gone.
  struct Shared final : ArenaRegionsPort {
    explicit Shared(const Subject& its) : subject(its) {}
    void TendSoon() override;
    DeviceUse Use() const override;

    const Subject subject;
    mutable std::mutex mutex;
    std::condition_variable changed;
    std::deque<Job> jobs;
    std::deque<Result> results;
    std::atomic<bool> has_results{false};
    platform::Wakeup* bell = nullptr;  // Null: nobody waits for anything any more.
    std::uint64_t busy_since_ns = 0;   // A call that has not come back; 0: none is under way.
    std::shared_ptr<Device> device;    // Once it is open.
    bool tend_regions = false;
    ArenaRegions regions{subject.limits, *this};
    // Of processes that call the driver: how many have ended by themselves, or had to be ended, and
    // how the last one did. One that has ended is not started again at once.
    std::uint32_t ended = 0;
    std::string last_end;
    std::uint64_t opened_ns = 0;
    std::uint64_t pause_ns = 0;
    std::uint64_t again_ns = 0;  // Not opened before.
  };

  explicit DriverThread(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}
  void Give(Job job);
  static void Run(Shared& shared);
  // A call of the driver: without the lock, and seen by busy_since_ns.
  template <typename Call>
  static void InDriver(Shared& shared, std::unique_lock<std::mutex>& lock, Call&& call);
  static void DoNext(Shared& shared, std::unique_lock<std::mutex>& lock);
  static void LookAtDevice(Shared& shared, std::unique_lock<std::mutex>& lock);
  static absl::StatusOr<std::shared_ptr<Device>> Open(Shared& shared);
  // With the lock.
  static void OnProcessEnded(Shared& shared, const absl::Status& how);
  static void Do(Shared& shared, Job& job, Result& result);

  inline static std::atomic<int> threads_{0};
  const std::shared_ptr<Shared> shared_;
};

}  // namespace mlxcomm::rdma
