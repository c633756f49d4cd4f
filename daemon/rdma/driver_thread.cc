#include "daemon/rdma/driver_thread.h"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <thread>

#include <spdlog/spdlog.h>

#include "absl/strings/str_cat.h"
#include "daemon/platform/machine.h"
#include "daemon/rdma/driver_process.h"
#include "mlxcomm/v1/diagnostics.pb.h"

namespace mlxcomm::rdma {
namespace {

// Interval of checks whether the device still exists.
constexpr auto kCheckPause = std::chrono::seconds(1);
// Pause before the driver's process is restarted; doubles if it lasted less than kSteadyProcessNs.
constexpr std::uint64_t kPauseNsMin = 500'000'000;
constexpr std::uint64_t kPauseNsMax = 60'000'000'000;
constexpr std::uint64_t kSteadyProcessNs = 60'000'000'000;  // Longer than any call's timeout.

absl::StatusOr<std::shared_ptr<Device>> OpenWhereItIsCalled(const DriverThread::Subject& subject) {
  if (!subject.program.empty()) {
    return OpenInProcess(subject.program, subject.library, subject.device, subject.limits,
                         subject.scheduling);
  }
  return OpenDevice(subject.library, subject.device, subject.limits);
}

}  // namespace

absl::StatusOr<std::unique_ptr<DriverThread>> DriverThread::Start(const Subject& subject,
                                                                  platform::Wakeup& bell) {
  auto shared = std::make_shared<Shared>(subject);
  shared->bell = &bell;
  try {
    std::thread([shared] { Run(*shared); }).detach();
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(std::string("no thread for the driver: ") + error.what());
  }
  return std::unique_ptr<DriverThread>(new DriverThread(std::move(shared)));
}

DriverThread::~DriverThread() {
  const std::lock_guard lock(shared_->mutex);
  shared_->bell = nullptr;
  shared_->changed.notify_all();
}

void DriverThread::Give(Job job) {
  const std::lock_guard lock(shared_->mutex);
  shared_->jobs.push_back(std::move(job));
  shared_->changed.notify_all();
}

void DriverThread::Cancel(std::uint64_t ticket) {
  const std::lock_guard lock(shared_->mutex);
  std::erase_if(shared_->jobs, [ticket](const Job& job) {
    return job.kind == Job::Kind::kMake && job.ticket == ticket;
  });
  for (Job& job : shared_->jobs) {
    if (job.kind == Job::Kind::kConnect && job.ticket == ticket) job.kind = Job::Kind::kDestroy;
  }
}

std::size_t DriverThread::waiting() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->jobs.size();
}

bool DriverThread::Pop(Result& result) {
  const std::lock_guard lock(shared_->mutex);
  if (shared_->results.empty()) return false;
  result = std::move(shared_->results.front());
  shared_->results.pop_front();
  shared_->has_results.store(!shared_->results.empty(), std::memory_order_release);
  return true;
}

void DriverThread::Describe(v1::TransportDevice& status) const {
  const std::lock_guard lock(shared_->mutex);
  if (const Device* const device = shared_->device.get(); device != nullptr) {
    const DeviceUse use = device->use();
    const auto add = [&status](const char* name, std::uint32_t used, std::uint32_t most) {
      v1::DeviceUse& row = *status.add_uses();
      row.set_name(name);
      row.set_used(used);
      row.set_most(most);
    };
    add("queue pair", use.queue_pairs, device->limits().queue_pairs_max);
    add("memory region", use.regions, device->limits().regions_max);
    status.set_driver_pid(static_cast<std::uint32_t>(device->driver_pid()));
  }
  status.set_drivers_ended(shared_->ended);
  status.set_last_end(shared_->last_end);
  if (shared_->busy_since_ns != 0)
    status.set_busy_ms((platform::MonotonicNow() - shared_->busy_since_ns) / 1'000'000);
}

void DriverThread::Shared::UpdateSoon() {
  const std::lock_guard lock(mutex);
  update_regions = true;
  changed.notify_all();
}

// Queued destructions still run after the owner has gone.
void DriverThread::Run(Shared& shared) {
  std::unique_lock lock(shared.mutex);
  auto check_at = std::chrono::steady_clock::now() + kCheckPause;
  for (;;) {
    while (shared.jobs.empty() && !shared.update_regions && shared.bell != nullptr) {
      if (shared.device == nullptr) {
        shared.changed.wait(lock);
      } else if (shared.changed.wait_until(lock, check_at) == std::cv_status::timeout) {
        break;
      }
    }
    // Checked on time, however much other work there is.
    if (shared.device != nullptr && std::chrono::steady_clock::now() >= check_at) {
      CheckDevice(shared, lock);
      check_at = std::chrono::steady_clock::now() + kCheckPause;
    } else if (!shared.jobs.empty()) {
      DoNext(shared, lock);
    } else if (shared.update_regions) {
      shared.update_regions = false;
      const std::shared_ptr<Device> device = shared.bell == nullptr ? nullptr : shared.device;
      InDriver(shared, lock, [&] { shared.regions.Update(device, platform::MonotonicNow()); });
    } else if (shared.bell == nullptr) {
      break;
    }
  }
  // Destroys unclaimed results and the device here, because that calls the driver.
  std::deque<Result> results = std::move(shared.results);
  std::shared_ptr<Device> device = std::move(shared.device);
  lock.unlock();
  shared.regions.Clear();
}

template <typename Call>
void DriverThread::InDriver(Shared& shared, std::unique_lock<std::mutex>& lock, Call&& call) {
  shared.busy_since_ns = platform::MonotonicNow();
  lock.unlock();
  call();
  lock.lock();
  shared.busy_since_ns = 0;
}

void DriverThread::DoNext(Shared& shared, std::unique_lock<std::mutex>& lock) {
  Job job = std::move(shared.jobs.front());
  shared.jobs.pop_front();
  // Opens the device again if it has vanished since the last check.
  if (job.kind == Job::Kind::kMake && shared.device != nullptr) CheckDevice(shared, lock);
  const bool wanted = shared.bell != nullptr;
  Result result;
  InDriver(shared, lock, [&] {
    if (wanted) Do(shared, job, result);
    job.pair.reset();
  });
  if (job.kind == Job::Kind::kDestroy || shared.bell == nullptr) {
    InDriver(shared, lock, [&] { result.pair.reset(); });
    return;
  }
  shared.results.push_back(std::move(result));
  shared.has_results.store(true, std::memory_order_release);
  shared.bell->Ring();
}

// Its queue pairs fail, and keep it open until they are destroyed.
void DriverThread::CheckDevice(Shared& shared, std::unique_lock<std::mutex>& lock) {
  std::shared_ptr<Device> device = shared.device;
  bool is_there = false;
  absl::Status ended;
  InDriver(shared, lock, [&] {
    is_there = device->IsThere();
    if (!is_there) ended = device->DriverEnded();
  });
  if (is_there) return;
  shared.device.reset();
  if (!ended.ok()) {
    OnProcessEnded(shared, ended);
  }
  InDriver(shared, lock, [&] {
    if (!ended.ok()) {
      spdlog::warn("{}; TCP carries on, and it will be restarted", std::string(ended.message()));
    }
    shared.regions.ForgetRegions();  // Regions keep the device open.
    device.reset();
  });
}

void DriverThread::OnProcessEnded(Shared& shared, const absl::Status& how) {
  const std::uint64_t now = platform::MonotonicNow();
  const bool was_steady = now - shared.opened_ns >= kSteadyProcessNs;
  shared.pause_ns =
      was_steady ? kPauseNsMin : std::clamp(2 * shared.pause_ns, kPauseNsMin, kPauseNsMax);
  shared.again_ns = now + shared.pause_ns;
  ++shared.ended;
  shared.last_end = std::string(how.message());
}

absl::StatusOr<std::shared_ptr<Device>> DriverThread::Open(Shared& shared) {
  const Subject& subject = shared.subject;
  {
    const std::lock_guard lock(shared.mutex);
    if (shared.device != nullptr) return shared.device;
    const std::uint64_t now = platform::MonotonicNow();
    if (now < shared.again_ns) {
      return absl::UnavailableError(absl::StrCat(shared.last_end, "; it will be restarted in ",
                                                 (shared.again_ns - now) / 1'000'000 + 1, " ms"));
    }
    shared.opened_ns = now;
  }
  absl::StatusOr<std::shared_ptr<Device>> device = OpenWhereItIsCalled(subject);
  const std::lock_guard lock(shared.mutex);
  if (HasEndedProcess(device.status())) OnProcessEnded(shared, device.status());
  if (!device.ok()) return device.status();
  shared.device = *device;
  return *device;
}

void DriverThread::Do(Shared& shared, Job& job, Result& result) {
  result.ticket = job.ticket;
  if (job.kind == Job::Kind::kConnect) {
    result.kind = Result::Kind::kConnected;
    result.status = job.pair->Connect(job.peer);
    if (result.status.ok()) result.pair = std::move(job.pair);
  } else if (job.kind == Job::Kind::kMake) {
    const absl::StatusOr<std::shared_ptr<Device>> device = Open(shared);
    if (!device.ok()) {
      result.status = device.status();
      return;
    }
    // A thread of each queue pair may hang in the driver forever, so this bounds their number.
    if ((*device)->use().queue_pairs >= job.pairs_max) {
      result.status = absl::ResourceExhaustedError(
          absl::StrCat("RDMA device ", shared.subject.device, ": the driver has not given back ",
                       (*device)->use().queue_pairs, " queue pairs"));
      return;
    }
    absl::StatusOr<std::unique_ptr<QueuePair>> made = (*device)->MakeQueuePair(job.shape, job.gid);
    result.status = made.status();
    if (made.ok()) result.pair = *std::move(made);
  }
}

}  // namespace mlxcomm::rdma
