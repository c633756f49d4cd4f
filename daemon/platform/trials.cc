#include "daemon/platform/trials.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/platform/interface_watch.h"
#include "daemon/platform/machine.h"
#include "daemon/platform/process_exit.h"
#include "daemon/platform/shared_memory.h"
#include "daemon/platform/system_facts.h"
#include "daemon/platform/wakeup.h"
#include "proto/system/file_descriptor.h"

namespace mlxcomm::platform {
namespace {

struct TrialResult {
  const char* verdict;
  std::string seen;  // Figures, or why it was not tried.
};
TrialResult Holds(std::string seen) { return {"holds", std::move(seen)}; }
TrialResult Fails(std::string seen) { return {"fails", std::move(seen)}; }
TrialResult Untried(std::string why) { return {"untried", std::move(why)}; }
std::string Error() { return std::strerror(errno); }

bool IsReadable(int descriptor, int timeout_ms) {
  pollfd ready{descriptor, POLLIN, 0};
  return ::poll(&ready, 1, timeout_ms) == 1;
}

TrialResult TryFixedSize() {
  const auto segment = SharedSegment::Create("trial", 1 << 20);
  if (!segment.ok()) return Fails(std::string(segment.status().message()));
  const bool grew = ::ftruncate(segment->descriptor(), 2 << 20) == 0;
  const std::string larger = grew ? "accepted" : Error();
  const bool shrank = ::ftruncate(segment->descriptor(), 4096) == 0;
  const std::string smaller = shrank ? "accepted" : Error();
  const std::string seen = absl::StrCat("a larger size: ", larger, "; a smaller one: ", smaller);
  return grew || shrank ? Fails(seen) : Holds(seen);
}

TrialResult TryWakeTime() {
  constexpr int kTimes = 2000;
  Wakeup ask;
  Wakeup answer;
  std::thread other([&] {
    for (int i = 0; i < kTimes && IsReadable(ask.descriptor(), 5000); ++i) {
      ask.Drain();
      answer.Ring();
    }
  });
  std::vector<std::uint64_t> times;
  for (int i = 0; i < kTimes; ++i) {
    const std::uint64_t begin = MonotonicNow();
    ask.Ring();
    if (!IsReadable(answer.descriptor(), 5000)) break;
    answer.Drain();
    times.push_back((MonotonicNow() - begin) / 2);
  }
  other.join();
  if (times.size() < kTimes) return Fails("a thread did not wake within 5 s of a ring");
  std::ranges::sort(times);
  const std::uint64_t median = times[times.size() / 2];
  const std::string seen = absl::StrCat("median ", median / 1000, " us, 99 of 100 within ",
                                        times[times.size() * 99 / 100] / 1000, " us, the longest ",
                                        times.back() / 1000, " us");
  return median <= 100'000 ? Holds(seen) : Fails(seen);
}

// Watches a grandchild, because this process is not its parent.
TrialResult TryProcessExit() {
  int reported[2];
  int held[2];
  if (::pipe(reported) != 0 || ::pipe(held) != 0) return Fails(Error());
  const pid_t child = ::fork();
  if (child == 0) {
    const pid_t grandchild = ::fork();
    if (grandchild == 0) {
      ::close(held[1]);
      char byte;
      static_cast<void>(::read(held[0], &byte, 1));  // Waits until released.
      ::_exit(0);
    }
    const ssize_t wrote = ::write(reported[1], &grandchild, sizeof grandchild);
    ::_exit(wrote == sizeof grandchild && grandchild > 0 ? 0 : 1);
  }
  ::close(held[0]);
  ::close(reported[1]);
  FileDescriptor hold(held[1]);
  const FileDescriptor reader(reported[0]);
  int status = 0;
  pid_t grandchild = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child ||
      ::read(reader.get(), &grandchild, sizeof grandchild) != sizeof grandchild) {
    return Untried("cannot start a process");
  }
  const ProcessExit watch = ProcessExit::Watch(grandchild);
  if (!watch.valid()) return Fails(absl::StrCat("cannot watch a process: ", Error()));
  if (IsReadable(watch.descriptor(), 50)) return Fails("reported the exit of a live process");
  const std::uint64_t begin = MonotonicNow();
  hold.Reset();
  if (!IsReadable(watch.descriptor(), 5000)) return Fails("did not report the exit within 5 s");
  return Holds(absl::StrCat("reported after ", (MonotonicNow() - begin) / 1000, " us"));
}

constexpr std::pair<const char*, TrialResult (*)()> kTrials[] = {
    {"shm-fixed-size", TryFixedSize},
    {"wake-time", TryWakeTime},
    {"process-exit", TryProcessExit},
};

int Watch() {
  auto watch = InterfaceWatch::Create();
  if (!watch.ok()) {
    std::fprintf(stderr, "mlxcommd: %s\n", std::string(watch.status().message()).c_str());
    return 1;
  }
  std::printf("%llu\tready\t\n", static_cast<unsigned long long>(UnixNow()));
  std::fflush(stdout);
  for (;;) {
    std::array<pollfd, 2> ready = {{{watch->descriptor(), POLLIN, 0}, {STDOUT_FILENO, 0, 0}}};
    if (::poll(ready.data(), ready.size(), -1) < 0 && errno != EINTR) return 1;
    if ((ready[1].revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) return 0;
    for (const InterfaceChange& change : watch->Read()) {
      std::printf("%llu\t%s\t%s\n", static_cast<unsigned long long>(UnixNow()),
                  change.kind == InterfaceChange::Kind::kUp ? "up" : "down", change.name.c_str());
    }
    if (std::fflush(stdout) != 0) return 0;
  }
}

}  // namespace

int RunTrial(const std::string& name) {
  if (name == "watch") return Watch();
  for (const auto& [known, run] : kTrials) {
    if (name != known) continue;
    const TrialResult result = run();
    std::printf("%s\n%s\n", result.verdict, result.seen.c_str());
    return std::fflush(stdout) == 0 ? 0 : 1;
  }
  std::fprintf(stderr, "mlxcommd: no such trial: %s\n", name.c_str());
  return 2;
}

}  // namespace mlxcomm::platform
