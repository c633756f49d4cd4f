#include "client/lib/interrupt.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <mutex>

namespace mlxcomm::client {
namespace {

using Action = struct sigaction;

// A later handler that passes signals on to ours, such as a second copy of this file, is both
// before and behind ours: signal -> ours -> the latest -> ours -> the first handler; a third time:
// nothing.
struct Watched {
  // Counts how deep a thread is in our handler; each thread has a place of its own.
  struct Depth {
    std::atomic<pthread_t> thread{};
    int depth = 0;
  };

  std::atomic<OnSignal> decision{OnSignal::kAtOnce};
  std::atomic<std::uint32_t> arrived{0};
  std::atomic<bool> has_byte{false};  // In the pipe, so that one frequent signal does not fill it.
  // Set before our handler is; the actions that they name never change.
  std::atomic<const Action*> first{nullptr};
  std::atomic<const Action*> latest{nullptr};
  std::array<Depth, kHandingOnMax> handing_on{};
  std::array<Action, kHandlersMax> kept{};
  std::size_t kept_count = 0;
};

std::atomic<bool> g_interrupted{false};
std::atomic<bool> g_asked_once{false};
std::atomic<std::uint64_t> g_under_way{0};
std::atomic<int> g_arrivals{-1};  // The pipe's end to write to.
std::array<Watched, kSignalsMax> g_watched;

bool HasInformation(const Action& action) { return (action.sa_flags & SA_SIGINFO) != 0; }

bool Same(const Action& a, const Action& b) {
  if (HasInformation(a) != HasInformation(b)) return false;
  return HasInformation(a) ? a.sa_sigaction == b.sa_sigaction : a.sa_handler == b.sa_handler;
}

void Note(Watched& watched, int signal) {
  switch (watched.decision.load(std::memory_order_relaxed)) {
    case OnSignal::kAtOnce: g_interrupted.store(true, std::memory_order_relaxed); return;
    case OnSignal::kSecond:
      if (g_asked_once.exchange(true)) g_interrupted.store(true, std::memory_order_relaxed);
      return;
    case OnSignal::kAsked: break;
  }
  watched.arrived.fetch_add(1);
  if (watched.has_byte.exchange(true)) return;
  const auto number = static_cast<char>(signal);
  const int error = errno;
  if (::write(g_arrivals.load(), &number, 1) < 0) {
    watched.has_byte.store(false);
    errno = error;
  }
}

// The calling thread's place; null: as many threads as there are places handle the signal already.
// Thread-local memory may be allocated at its first use, which a handler must not do.
Watched::Depth* FindPlace(Watched& watched) {
  const pthread_t self = ::pthread_self();
  for (Watched::Depth& place : watched.handing_on) {
    if (place.thread.load(std::memory_order_relaxed) == self) return &place;
  }
  for (Watched::Depth& place : watched.handing_on) {
    pthread_t nobody{};
    if (place.thread.compare_exchange_strong(nobody, self)) return &place;
  }
  return nullptr;
}

void OnArrival(int signal, siginfo_t* info, void* context) {
  Watched& watched = g_watched[static_cast<std::size_t>(signal)];
  Watched::Depth* const place = FindPlace(watched);
  if (place == nullptr) return Note(watched, signal);
  const int before = place->depth++;
  if (before == 0) Note(watched, signal);
  if (before < 2) {
    const Action& next =
        *(before == 0 ? watched.latest : watched.first).load(std::memory_order_acquire);
    if (HasInformation(next)) {
      next.sa_sigaction(signal, info, context);
    } else {
      next.sa_handler(signal);
    }
  }
  if (--place->depth == 0) place->thread.store({});
}

// The kept copy of such a handler; null: there are too many.
const Action* Keep(Watched& watched, const Action& action) {
  for (std::size_t i = 0; i < watched.kept_count; ++i) {
    if (Same(watched.kept[i], action)) return &watched.kept[i];
  }
  if (watched.kept_count == watched.kept.size()) return nullptr;
  watched.kept[watched.kept_count] = action;
  return &watched.kept[watched.kept_count++];
}

void PutInFront(int signal) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  Watched& watched = g_watched[static_cast<std::size_t>(signal)];
  Action present{};
  ::sigaction(signal, nullptr, &present);
  if (HasInformation(present) && present.sa_sigaction == OnArrival) return;
  const bool nobody =
      !HasInformation(present) && (present.sa_handler == SIG_DFL || present.sa_handler == SIG_IGN);
  if (nobody) return;
  const Action* const kept = Keep(watched, present);
  if (kept == nullptr) return;
  if (watched.first.load(std::memory_order_relaxed) == nullptr)
    watched.first.store(kept, std::memory_order_release);
  watched.latest.store(kept, std::memory_order_release);
  Action action{};
  action.sa_sigaction = OnArrival;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | (present.sa_flags & SA_RESTART);
  sigemptyset(&action.sa_mask);
  ::sigaction(signal, &action, nullptr);
}

}  // namespace

UnderWay::UnderWay() {
  PutInFront(SIGINT);
  if (g_under_way.fetch_add(1, std::memory_order_relaxed) == 0) {
    g_interrupted.store(false, std::memory_order_relaxed);
    g_asked_once.store(false, std::memory_order_relaxed);
  }
}

UnderWay::~UnderWay() { g_under_way.fetch_sub(1, std::memory_order_relaxed); }

int WasInterrupted(void*) { return g_interrupted.load(std::memory_order_relaxed) ? 1 : 0; }

void Watch(int signal, OnSignal decision) {
  if (signal <= 0 || signal >= kSignalsMax) return;
  g_watched[static_cast<std::size_t>(signal)].decision.store(decision);
  PutInFront(signal);
}

void Interrupt() { g_interrupted.store(true, std::memory_order_relaxed); }
bool AnyUnderWay() { return g_under_way.load(std::memory_order_relaxed) > 0; }

std::uint32_t Arrived(int signal) {
  if (signal <= 0 || signal >= kSignalsMax) return 0;
  Watched& watched = g_watched[static_cast<std::size_t>(signal)];
  watched.has_byte.store(false);
  return watched.arrived.load();
}

int ArrivalsPipe() {
  static const int reads = [] {
    int ends[2];
    if (::pipe(ends) != 0) return -1;
    for (const int end : ends) ::fcntl(end, F_SETFD, FD_CLOEXEC);
    ::fcntl(ends[1], F_SETFL, O_NONBLOCK);
    g_arrivals.store(ends[1]);
    return ends[0];
  }();
  return reads;
}

}  // namespace mlxcomm::client
