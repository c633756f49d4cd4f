#include "proto/queue/scheduling_policy.h"

#include <algorithm>
#include <thread>
#if defined(__linux__)
#include <sched.h>
#endif

namespace mlxcomm::queue {
namespace {

// The loop, a worker and two ranks keep four cores busy.
constexpr std::uint32_t kFewCoresMost = 4;
constexpr std::uint32_t kWorkersMost = 4;

}  // namespace

SchedulingPolicy SchedulingPolicy::Choose(Scheduling asked, std::uint32_t usable_cores) {
  std::uint32_t cores = usable_cores;
  // Another process may send any byte: invalid values count as kAuto.
  if (asked == Scheduling::kFewCores) cores = std::min(cores, kFewCoresMost);
  if (asked == Scheduling::kManyCores) cores = std::max(cores, kFewCoresMost + 1);
  SchedulingPolicy policy;
  policy.cores = usable_cores;
  policy.loop_awaits_workers = cores > 1;
  policy.workers = std::clamp(cores / 2, 1u, kWorkersMost);
  if (cores <= kFewCoresMost) return policy;
  policy.waiting = {5'000, 200'000, false};
  policy.loop_drives_all = false;
  policy.workers_avoid_loop = false;
  policy.rail_spin_ns = 50'000;
  policy.rail_in_flight_spin_ns = 500'000;
  return policy;
}

std::uint32_t UsableCores() {
#if defined(__linux__) && !defined(MLXCOMM_POSIX_PLATFORM)
  cpu_set_t usable;
  if (::sched_getaffinity(0, sizeof usable, &usable) == 0) {
    return static_cast<std::uint32_t>(std::max(1, CPU_COUNT(&usable)));
  }
#endif
  return std::max(1u, std::thread::hardware_concurrency());
}

}  // namespace mlxcomm::queue
