#include "client/lib/interrupt.h"

#include <csignal>
#include <cstdint>

#include <array>
#include <atomic>
#include <mutex>

namespace mlxcomm::client {
namespace {

using Action = struct sigaction;

std::atomic<bool> g_interrupted{false};
std::atomic<std::uint64_t> g_under_way{0};
// Set before our handler is; the actions that they name never change.
std::atomic<const Action*> g_first{nullptr};
std::atomic<const Action*> g_latest{nullptr};
std::atomic<int> g_handing_on{0};

bool HasInformation(const Action& action) { return (action.sa_flags & SA_SIGINFO) != 0; }

bool Same(const Action& a, const Action& b) {
  if (HasInformation(a) != HasInformation(b)) return false;
  return HasInformation(a) ? a.sa_sigaction == b.sa_sigaction : a.sa_handler == b.sa_handler;
}

void OnInterrupt(int signal, siginfo_t* info, void* context) {
  g_interrupted.store(true, std::memory_order_relaxed);
  const int before = g_handing_on.fetch_add(1, std::memory_order_acq_rel);
  if (before < 2) {
    const Action& next = *(before == 0 ? g_latest : g_first).load(std::memory_order_acquire);
    if (HasInformation(next)) {
      next.sa_sigaction(signal, info, context);
    } else {
      next.sa_handler(signal);
    }
  }
  g_handing_on.fetch_sub(1, std::memory_order_acq_rel);
}

// The kept copy of such a handler; null: there are too many.
const Action* Keep(const Action& action) {
  static std::array<Action, kHandlersMax> kept;
  static std::size_t count = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (Same(kept[i], action)) return &kept[i];
  }
  if (count == kept.size()) return nullptr;
  kept[count] = action;
  return &kept[count++];
}

void Watch() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  Action present{};
  ::sigaction(SIGINT, nullptr, &present);
  if (HasInformation(present) && present.sa_sigaction == OnInterrupt) return;
  const bool nobody =
      !HasInformation(present) && (present.sa_handler == SIG_DFL || present.sa_handler == SIG_IGN);
  if (nobody) return;
  const Action* const kept = Keep(present);
  if (kept == nullptr) return;
  if (g_first.load(std::memory_order_relaxed) == nullptr)
    g_first.store(kept, std::memory_order_release);
  g_latest.store(kept, std::memory_order_release);
  Action action{};
  action.sa_sigaction = OnInterrupt;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, nullptr);
}

}  // namespace

UnderWay::UnderWay() {
  Watch();
  if (g_under_way.fetch_add(1, std::memory_order_relaxed) == 0) {
    g_interrupted.store(false, std::memory_order_relaxed);
  }
}

UnderWay::~UnderWay() { g_under_way.fetch_sub(1, std::memory_order_relaxed); }

int WasInterrupted(void*) { return g_interrupted.load(std::memory_order_relaxed) ? 1 : 0; }

}  // namespace mlxcomm::client
