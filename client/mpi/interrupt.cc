#include "client/mpi/interrupt.h"

#include <csignal>
#include <cstdint>

#include <atomic>
#include <mutex>

namespace mlxcomm::mpi {
namespace {

std::atomic<bool> g_interrupted{false};
std::atomic<std::uint64_t> g_under_way{0};
struct sigaction g_previous;

// Whoever came before may have put itself behind us as well, and would call us again.
std::atomic_flag g_handing_on;

void OnInterrupt(int signal, siginfo_t* info, void* context) {
  g_interrupted.store(true, std::memory_order_relaxed);
  if (g_handing_on.test_and_set(std::memory_order_acquire)) return;
  if ((g_previous.sa_flags & SA_SIGINFO) != 0) {
    g_previous.sa_sigaction(signal, info, context);
  } else {
    g_previous.sa_handler(signal);
  }
  g_handing_on.clear(std::memory_order_release);
}

// Once; a handler that is set later knows of this one.
void Watch() {
  static std::atomic<bool> watching{false};
  static std::mutex mutex;
  if (watching.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(mutex);
  if (watching.load(std::memory_order_relaxed)) return;
  struct sigaction present {};
  ::sigaction(SIGINT, nullptr, &present);
  const bool has_information = (present.sa_flags & SA_SIGINFO) != 0;
  const bool nobody =
      !has_information && (present.sa_handler == SIG_DFL || present.sa_handler == SIG_IGN);
  if (nobody) return;
  g_previous = present;
  struct sigaction action {};
  action.sa_sigaction = OnInterrupt;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, nullptr);
  watching.store(true, std::memory_order_release);
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

}  // namespace mlxcomm::mpi
