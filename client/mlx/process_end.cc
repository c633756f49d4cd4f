#include "client/mlx/process_end.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "client/lib/interrupt.h"
#include "client/lib/pending_sends.h"
#include "client/mlx/operation_error.h"

namespace mlxcomm::graph {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr std::uint64_t kClosed = std::uint64_t{1} << 63;
constexpr Seconds kPatience{60};
constexpr Seconds kReportAfter{10};
constexpr std::chrono::seconds kKeepTaskMax{5};
constexpr std::chrono::milliseconds kPoll{100};  // Checks for Ctrl-C this often.

std::atomic<std::uint64_t> g_uses{0};  // Calls in progress, and kClosed.
std::atomic<bool> g_has_ended{false};
std::atomic<bool> g_keeps_ends{false};

struct Queued {
  std::mutex mutex;
  std::condition_variable none;
  std::uint64_t count = 0;
  std::uint64_t ended = 0;
};
Queued& AllQueued() {
  static Queued* const queued = new Queued;
  return *queued;
}

// Waits at most this long until no operation is queued, and returns how many are. `ended`: how many
// have ended in this process.
std::uint64_t AwaitNone(std::chrono::milliseconds most, std::uint64_t& ended) {
  Queued& all = AllQueued();
  std::unique_lock lock(all.mutex);
  all.none.wait_for(lock, most, [&all] { return all.count == 0; });
  ended = all.ended;
  return all.count;
}

Seconds Patience() {
  const char* const word = std::getenv("MLXCOMM_END_TIMEOUT");
  if (word == nullptr || *word == '\0') return kPatience;
  char* end = nullptr;
  const double seconds = std::strtod(word, &end);
  if (*end == '\0' && !std::isnan(seconds)) return Seconds(std::clamp(seconds, 0.0, 1e9));
  std::fprintf(stderr, "mlxcomm: MLXCOMM_END_TIMEOUT=\"%s\": expected seconds; using %.0f\n", word,
               kPatience.count());
  return kPatience;
}

}  // namespace

GroupUse::GroupUse() {
  if ((g_uses.fetch_add(1) & kClosed) == 0) return;
  g_uses.fetch_sub(1);
  throw OperationError(
      {.code = MLXCOMM_CANCELLED, .message = "this process is exiting and has left its jobs"});
}

GroupUse::~GroupUse() { g_uses.fetch_sub(1); }

bool CloseGroups() {
  std::uint64_t none = 0;
  return g_uses.compare_exchange_strong(none, kClosed);
}

void NoteProcessHasEnded() { g_has_ended = true; }
bool ProcessHasEnded() { return g_has_ended; }
void KeepLaterEnds() { g_keeps_ends = true; }

EndOfTask::~EndOfTask() {
  if (g_keeps_ends) std::this_thread::sleep_for(kKeepTaskMax);
}

QueuedOperation::QueuedOperation() {
  Queued& all = AllQueued();
  const std::lock_guard lock(all.mutex);
  ++all.count;
}

QueuedOperation::~QueuedOperation() {
  Queued& all = AllQueued();
  const std::lock_guard lock(all.mutex);
  ++all.ended;
  if (--all.count == 0) all.none.notify_all();
}

void AwaitQueued() {
  const client::UnderWay under_way;
  // The program has nothing left to save in a handler.
  client::Watch(SIGINT, client::OnSignal::kAtOnce);
  const Seconds patience = Patience();
  const Clock::time_point begin = Clock::now();
  Clock::time_point progress = begin;
  std::uint64_t before = 0;
  std::uint64_t queued = AwaitNone(std::chrono::milliseconds(0), before);
  // Operations that other threads begin from now on do not count.
  const std::uint64_t begun = before + queued;
  bool reported = false;
  while (true) {
    std::uint64_t ended = 0;
    client::AwaitSends();
    queued = AwaitNone(kPoll, ended);
    if (queued == 0 || ended >= begun || client::WasInterrupted(nullptr) != 0) return;
    const Clock::time_point now = Clock::now();
    if (ended != before) {
      before = ended;
      progress = now;
    }
    if (!reported && now - begin > kReportAfter) {
      reported = true;
      std::fprintf(
          stderr,
          "mlxcomm: exiting, but still waiting for %llu operations. mlxcommctl status shows "
          "which ranks they wait for; Ctrl-C stops waiting\n",
          static_cast<unsigned long long>(queued));
    }
    if (now - progress > patience) {
      std::fprintf(stderr,
                   "mlxcomm: no longer waiting for %llu operations: none has ended for %.0f s\n",
                   static_cast<unsigned long long>(queued), patience.count());
      return;
    }
  }
}

}  // namespace mlxcomm::graph
