#include "client/python/src/interrupt.h"

#include <csignal>

#include <atomic>

namespace mlxcomm::python {
namespace {

std::atomic<bool> g_interrupted{false};
struct sigaction g_previous;

void OnInterrupt(int signal, siginfo_t* info, void* context) {
  g_interrupted.store(true, std::memory_order_relaxed);
  if ((g_previous.sa_flags & SA_SIGINFO) != 0) {
    g_previous.sa_sigaction(signal, info, context);
  } else if (g_previous.sa_handler != SIG_IGN && g_previous.sa_handler != SIG_DFL) {
    g_previous.sa_handler(signal);
  }
}

}  // namespace

void WatchInterrupts() {
  static std::atomic_flag busy;
  if (busy.test_and_set(std::memory_order_acquire)) return;  // Another thread sees to it.
  struct sigaction present {};
  ::sigaction(SIGINT, nullptr, &present);
  const bool has_information = (present.sa_flags & SA_SIGINFO) != 0;
  const bool ours = has_information && present.sa_sigaction == OnInterrupt;
  const bool nothing_to_hand_on = !has_information && (present.sa_handler == SIG_DFL ||
                                                       present.sa_handler == SIG_IGN);
  if (!ours && !nothing_to_hand_on) {
    g_previous = present;
    struct sigaction action {};
    action.sa_sigaction = OnInterrupt;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    ::sigaction(SIGINT, &action, nullptr);
  }
  busy.clear(std::memory_order_release);
}

int WasInterrupted(void*) { return g_interrupted.load(std::memory_order_relaxed) ? 1 : 0; }

void ForgetInterrupt() { g_interrupted.store(false, std::memory_order_relaxed); }

}  // namespace mlxcomm::python
