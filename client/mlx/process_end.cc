#include "client/mlx/process_end.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "client/lib/interrupt.h"
#include "client/mlx/group_use.h"
#include "client/mlx/process_groups.h"
#include "client/mlx/queued_operations.h"
#include "mlx/scheduler.h"

namespace mlxcomm::graph {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr Seconds kPatience{60};
constexpr Seconds kToldAfter{10};
constexpr std::chrono::milliseconds kLook{100};  // Between two looks for Ctrl-C.

const char* (*g_why)() = nullptr;
std::atomic<pid_t> g_process{
    0};  // The last process that was to join: a child may join where its parent had not.

Seconds Patience() {
  const char* const word = std::getenv("MLXCOMM_END_TIMEOUT");
  if (word == nullptr || *word == '\0') return kPatience;
  char* end = nullptr;
  const double seconds = std::strtod(word, &end);
  if (*end == '\0' && !std::isnan(seconds)) return Seconds(std::clamp(seconds, 0.0, 1e9));
  std::fprintf(stderr, "mlxcomm: MLXCOMM_END_TIMEOUT=\"%s\": expected seconds; it is %.0f\n", word,
               kPatience.count());
  return kPatience;
}

// Waits for operations that were begun, as by mlx_async_eval, to end. They end with an error if
// another rank dies or does not call them.
void AwaitQueued() {
  const client::UnderWay under_way;
  const Seconds patience = Patience();
  const Clock::time_point begin = Clock::now();
  Clock::time_point progress = begin;
  std::uint64_t before = 0;
  std::uint64_t queued = QueuedOperation::AwaitNone(std::chrono::milliseconds(0), before);
  // Operations that other threads begin meanwhile are not waited for.
  const std::uint64_t those_begun = before + queued;
  bool told = false;
  while (true) {
    std::uint64_t ended = 0;
    queued = QueuedOperation::AwaitNone(kLook, ended);
    if (queued == 0 || ended >= those_begun || client::WasInterrupted(nullptr) != 0) return;
    const Clock::time_point now = Clock::now();
    if (ended != before) {
      before = ended;
      progress = now;
    }
    if (!told && now - begin > kToldAfter) {
      told = true;
      std::fprintf(stderr,
                   "mlxcomm: the program has ended; %llu operations that it began are still under "
                   "way. mlxcommctl status says whom they wait for; Ctrl-C ends the wait\n",
                   static_cast<unsigned long long>(queued));
    }
    if (now - progress > patience) {
      std::fprintf(stderr,
                   "mlxcomm: %llu operations have not ended in %.0f s after the end of the "
                   "program: given up\n",
                   static_cast<unsigned long long>(queued), patience.count());
      return;
    }
  }
}

void Exit() {
  if (g_process != ::getpid()) return;  // A forked child that has joined nothing.
  const char* const fault = g_why == nullptr ? nullptr : g_why();
  const std::vector<std::shared_ptr<DaemonGroup>> worlds = Worlds();
  if (fault != nullptr) {
    for (const auto& world : worlds) mlxcomm_leave(world->handle(), fault);
  } else if (!worlds.empty()) {
    AwaitQueued();
    if (CloseGroups()) {
      for (const auto& world : worlds) mlxcomm_group_close(world->handle());
    }
  }
  NoteProcessHasEnded();
}

}  // namespace

void LeaveJobsAtEnd(const char* (*why)()) {
  g_process = ::getpid();
  static const int registered = [why] {
    g_why = why;
    // Exit handlers run in reverse order, and the waiting needs MLX's scheduler, which some
    // releases destroy.
    mlx::core::scheduler::scheduler();
    return std::atexit(Exit);
  }();
  (void)registered;  // Full: then the daemon sees the process end.
}

}  // namespace mlxcomm::graph
